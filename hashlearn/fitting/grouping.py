"""Label sets of rows that come in chunks: which there are, in an order that chunks do not change, and a row's group.

A label set is known by an *identity*: the class itself, or for 0/1 label sets a 64-bit sum of random weights. Every set
that two chunks share is compared in full, so two sets with one identity cannot go unnoticed.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from hashlearn.labels import UNKNOWN, Classes, LabelSets, as_labels, group_rows
from hashlearn.typing import IntArray


class Groups(Protocol):
    """Group numbers from labels."""

    def of(self, labels: Any) -> IntArray: ...


class GivenGroups:
    """Labels that are group numbers already, as a fit in memory has them."""

    def of(self, labels: Any) -> IntArray:
        return labels


@dataclass
class LabelReader:
    """How labels are read: the class that means none, and the seed of the weights of label sets."""

    unlabeled: Hashable = None
    seed: int = 0

    def found(self, labels: Any, first_row: int) -> FoundSets:
        """The label sets of a chunk, and its rows' places among them."""
        read = self.read(labels)
        if isinstance(read, LabelSets):
            place, rows = group_rows(read.sets)
            sets = read.sets[rows]
            return FoundSets(place, self.identities(sets), rows + first_row, _sizes(place, len(rows)), sets)
        place, values = read.numbers, plain_classes(read.names)
        rows = np.flatnonzero(place >= 0)
        _, first = np.unique(place[rows], return_index=True)
        return FoundSets(place, values, rows[first] + first_row, _sizes(place, len(values)), None)

    def read(self, labels: Any) -> Classes | LabelSets:
        """The labels of a chunk; ValueError for tags, which each chunk would number in a way of its own."""
        read = as_labels(labels, self.unlabeled)
        if isinstance(read, LabelSets) and read.names is not None:
            raise ValueError(
                "Labels of chunks cannot be lists of tags: give 0/1 columns, the same in all chunks, as scikit-learn's "
                "MultiLabelBinarizer makes them."
            )
        return read

    def identities(self, sets: sparse.csr_matrix) -> NDArray[np.uint64]:
        """Sums of a random weight a label, modulo 2^64."""
        weights = np.random.default_rng(self.seed).integers(0, 2**64, size=sets.shape[1], dtype=np.uint64)
        running = np.concatenate([[np.uint64(0)], np.cumsum(weights[sets.indices], dtype=np.uint64)])
        return running[sets.indptr[1:]] - running[sets.indptr[:-1]]


@dataclass
class FoundSets:
    """Label sets of one chunk: ``place`` of every row among them (-1: none), first row and count of each."""

    place: IntArray
    identity: NDArray[Any]
    first: NDArray[np.int64]
    count: NDArray[np.int64]
    sets: sparse.csr_matrix | None


class Collision(Exception):
    """Two label sets have one identity: other weights are needed."""


class KnownSets:
    """All label sets met so far, sorted by identity."""

    def __init__(self) -> None:
        self.identity: NDArray[Any] = np.empty(0, dtype=np.uint64)
        self.first = np.empty(0, dtype=np.int64)
        self.count = np.empty(0, dtype=np.int64)
        self.sets: sparse.csr_matrix | None = None
        self._kind = ""

    def add(self, found: FoundSets) -> None:
        if not len(found.identity):
            return
        kind = "sets" if found.sets is not None else "numbers" if found.identity.dtype.kind != "U" else "names"
        if self._kind and kind != self._kind:
            raise ValueError(
                f"Labels must be of one kind in all chunks: classes that are numbers, classes that are names, or label "
                f"sets. Got {self._kind} at first and {kind} from row {int(found.first.min())} on."
            )
        old, self._kind = len(self.identity), kind
        joined = np.concatenate([self.identity, found.identity]) if old else found.identity
        identity, representative, place = np.unique(joined, return_index=True, return_inverse=True)
        if found.sets is not None:
            if self.sets is not None and self.sets.shape[1] != found.sets.shape[1]:
                raise ValueError(
                    f"Label sets must have one width in all chunks. Got {self.sets.shape[1]} labels at first and "
                    f"{found.sets.shape[1]} from row {int(found.first.min())} on."
                )
            sets = found.sets if self.sets is None else sparse.vstack([self.sets, found.sets], format="csr")
            if (found.sets != sets[representative[place.ravel()[old:]]]).nnz:
                raise Collision
            self.sets = sets[representative]
        first = np.full(len(identity), np.iinfo(np.int64).max)
        np.minimum.at(first, place.ravel(), np.concatenate([self.first, found.first]))
        count = np.zeros(len(identity), dtype=np.int64)
        np.add.at(count, place.ravel(), np.concatenate([self.count, found.count]))
        self.identity, self.first, self.count = identity, first, count

    def places(self, identity: NDArray[Any]) -> IntArray:
        """Places of identities that are known."""
        return np.searchsorted(self.identity, identity)

    def numbers(self) -> IntArray:
        """Group number of every place: groups are counted by their first row."""
        numbers = np.empty(len(self.first), dtype=np.intp)
        numbers[np.argsort(self.first, kind="stable")] = np.arange(len(self.first))
        return numbers

    def table(self) -> sparse.csr_matrix:
        """The label set of every group; a class is a set of one label, and labels are in the order of the classes."""
        order = np.argsort(self.first, kind="stable")
        if self.sets is not None:
            return self.sets[order]
        ones = np.ones(len(order))
        return sparse.csr_matrix((ones, (np.arange(len(order)), order)), shape=(len(order), len(order)))

    def state(self) -> dict[str, NDArray[Any]]:
        arrays = {"identity": self.identity, "first": self.first, "count": self.count, "kind": np.array(self._kind)}
        if self.sets is not None:
            arrays |= {"indptr": self.sets.indptr, "indices": self.sets.indices, "width": np.array(self.sets.shape[1])}
        return arrays

    @classmethod
    def of_state(cls, state: dict[str, NDArray[Any]]) -> KnownSets:
        known = cls()
        known.identity, known.first, known.count = state["identity"], state["first"], state["count"]
        known._kind = str(state["kind"])
        if "indptr" in state:
            values = np.ones(len(state["indices"]))
            shape = (len(known.identity), int(state["width"]))
            known.sets = sparse.csr_matrix((values, state["indices"], state["indptr"]), shape=shape)
        return known


class KnownGroups:
    """Group numbers of any rows, once all label sets are known."""

    def __init__(self, reader: LabelReader, known: KnownSets) -> None:
        self.reader, self.identity, self.number = reader, known.identity, known.numbers()

    def of(self, labels: Any) -> IntArray:
        read = self.reader.read(labels)
        if isinstance(read, LabelSets):
            group = self._numbers(self.reader.identities(read.sets))
            group[np.diff(read.sets.indptr) == 0] = UNKNOWN
            return group
        numbers = self._numbers(plain_classes(read.names)) if read.names else np.empty(0, dtype=np.intp)
        return np.append(numbers, UNKNOWN)[read.numbers]

    def _numbers(self, identity: NDArray[Any]) -> IntArray:
        place = np.minimum(np.searchsorted(self.identity, identity), len(self.identity) - 1)
        # An empty label set has the identity 0, which nobody needs to know.
        if np.any((self.identity[place] != identity) & (identity != identity.dtype.type(0))):
            raise ValueError("Labels changed between two passes over the rows: there is one that was not there before.")
        return self.number[place]


def plain_classes(classes: list[Any]) -> NDArray[Any]:
    """Classes as an array of numbers or of strings; they must be one or the other to mean the same in every chunk."""
    values = np.array(classes) if classes else np.empty(0)
    if values.dtype.kind == "S":
        values = values.astype(str)
    mixed = values.dtype.kind == "U" and not all(isinstance(value, (str, bytes)) for value in classes)
    if values.ndim != 1 or values.dtype.kind not in "biufU" or mixed:
        kinds = sorted({type(value).__name__ for value in classes})
        raise ValueError(f"Classes of rows in chunks must be all numbers or all strings. Got {', '.join(kinds)}.")
    return values


def _sizes(place: IntArray, count: int) -> NDArray[np.int64]:
    return np.bincount(place[place >= 0], minlength=count).astype(np.int64)
