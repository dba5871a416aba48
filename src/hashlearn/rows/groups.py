"""Groups of rows with equal labels, found in chunks: which label sets occur, and the group number of any row.

Every label set has an *identity*: the class itself, or for 0/1 label sets a 64-bit sum of one random weight per label.
Label sets of two chunks with the same identity are compared in full, so that a collision is always noticed.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from hashlearn.labels import UNKNOWN, Classes, LabelSets, as_labels, group_rows
from hashlearn.typing import Int64Array, IntArray


@dataclass
class LabelReader:
    """How labels are read: the class that marks a row as unlabeled, and the seed of the weights of label sets."""

    unlabeled: Hashable = None
    seed: int = 0

    def label_sets(self, labels: Any, first_row: int) -> RangeLabelSets:
        """Find the label sets of a range of rows that begins at ``first_row``."""
        read = self.read(labels)
        if isinstance(read, LabelSets):
            place, rows = group_rows(read.sets)
            sets = read.sets[rows]
            return RangeLabelSets(place, self.identities(sets), rows + first_row, _sizes(place, len(rows)), sets)
        place, values = read.numbers, plain_classes(read.names)
        rows = np.flatnonzero(place >= 0)
        _, first = np.unique(place[rows], return_index=True)
        return RangeLabelSets(place, values, rows[first] + first_row, _sizes(place, len(values)), None)

    def read(self, labels: Any) -> Classes | LabelSets:
        """Read the labels of a chunk.

        Raises
        ------
        ValueError
            If they are tags, because every chunk would number them in its own way.
        """
        read = as_labels(labels, self.unlabeled)
        if isinstance(read, LabelSets) and read.names is not None:
            raise ValueError(
                "Labels of chunks cannot be lists of tags: give 0/1 columns, the same in all chunks, as scikit-learn's "
                "MultiLabelBinarizer makes them."
            )
        return read

    def identities(self, sets: sparse.csr_matrix) -> NDArray[np.uint64]:
        """Add up the random weights of the labels of each set, modulo 2^64."""
        weights = np.random.default_rng(self.seed).integers(0, 2**64, size=sets.shape[1], dtype=np.uint64)
        running = np.concatenate([[np.uint64(0)], np.cumsum(weights[sets.indices], dtype=np.uint64)])
        return running[sets.indptr[1:]] - running[sets.indptr[:-1]]


@dataclass
class RangeLabelSets:
    """The label sets of one range of rows.

    Attributes
    ----------
    place : the place of every row's label set among those of the range, -1 for a row without labels.
    identity, first, count : of every label set; ``first`` is the number of its first row.
    sets : 0/1 matrix (n_sets, n_labels); None if the labels are classes.
    """

    place: IntArray
    identity: NDArray[Any]
    first: Int64Array
    count: Int64Array
    sets: sparse.csr_matrix | None


class IdentityCollision(Exception):
    """Two label sets have the same identity: other weights are needed."""


@dataclass
class LabelSetIndex:
    """All label sets that have occurred so far, sorted by identity."""

    identity: NDArray[Any] = field(default_factory=lambda: np.empty(0, dtype=np.uint64))
    first: Int64Array = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    count: Int64Array = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    sets: sparse.csr_matrix | None = None
    kind: str = ""
    """Kind of the labels: "sets", or classes that are "numbers" or "names"; "" before the first label."""

    def __len__(self) -> int:
        return len(self.identity)

    def add(self, found: RangeLabelSets) -> None:
        """Add the label sets of one more range."""
        if not len(found.identity):
            return
        self._check_kind(found)
        old = len(self)
        joined = np.concatenate([self.identity, found.identity]) if old else found.identity
        identity, representative, place = np.unique(joined, return_index=True, return_inverse=True)
        place = place.ravel()
        if found.sets is not None:
            sets = found.sets if self.sets is None else sparse.vstack([self.sets, found.sets], format="csr")
            if (found.sets != sets[representative[place[old:]]]).nnz:
                raise IdentityCollision
            self.sets = sets[representative]
        first = np.full(len(identity), np.iinfo(np.int64).max)
        np.minimum.at(first, place, np.concatenate([self.first, found.first]))
        count = np.zeros(len(identity), dtype=np.int64)
        np.add.at(count, place, np.concatenate([self.count, found.count]))
        self.identity, self.first, self.count = identity, first, count

    def _check_kind(self, found: RangeLabelSets) -> None:
        kind = "sets" if found.sets is not None else "numbers" if found.identity.dtype.kind != "U" else "names"
        if self.kind and kind != self.kind:
            raise ValueError(
                f"Labels must be of one kind in all chunks: classes that are numbers, classes that are names, or label "
                f"sets. Got {self.kind} at first and {kind} from row {int(found.first.min())} on."
            )
        if self.sets is not None and found.sets is not None and self.sets.shape[1] != found.sets.shape[1]:
            raise ValueError(
                f"Label sets must have one width in all chunks. Got {self.sets.shape[1]} labels at first and "
                f"{found.sets.shape[1]} from row {int(found.first.min())} on."
            )
        self.kind = kind

    def places(self, identity: NDArray[Any]) -> IntArray:
        """Return the places of label sets that have occurred."""
        return np.searchsorted(self.identity, identity)

    def numbers(self) -> IntArray:
        """Return the group number of every place: groups are numbered by their first row."""
        numbers = np.empty(len(self.first), dtype=np.intp)
        numbers[np.argsort(self.first, kind="stable")] = np.arange(len(self.first))
        return numbers

    def table(self) -> sparse.csr_matrix:
        """Return the label set of every group. A class is a set of one label; labels have the order of the classes."""
        order = np.argsort(self.first, kind="stable")
        if self.sets is not None:
            return self.sets[order]
        ones = np.ones(len(order))
        return sparse.csr_matrix((ones, (np.arange(len(order)), order)), shape=(len(order), len(order)))


class GroupLookup:
    """The group number of any row, after all label sets have been found."""

    def __init__(self, reader: LabelReader, known: LabelSetIndex) -> None:
        self.reader, self.identity, self.number = reader, known.identity, known.numbers()
        self._is_classes = known.sets is None

    @property
    def names(self) -> list[Any] | None:
        """The class of every group; None for label sets."""
        return self.identity[np.argsort(self.number)].tolist() if self._is_classes else None

    def group_numbers(self, labels: Any) -> IntArray:
        """Return the group of every row of a chunk from its labels, -1 for a row without labels."""
        read = self.reader.read(labels)
        if isinstance(read, LabelSets):
            group = self._numbers(self.reader.identities(read.sets))
            group[np.diff(read.sets.indptr) == 0] = UNKNOWN
            return group
        numbers = self._numbers(plain_classes(read.names)) if read.names else np.empty(0, dtype=np.intp)
        return np.append(numbers, UNKNOWN)[read.numbers]

    def _numbers(self, identity: NDArray[Any]) -> IntArray:
        place = np.minimum(np.searchsorted(self.identity, identity), len(self.identity) - 1)
        # An empty label set has identity 0. It is no group, so it need not be known.
        if np.any((self.identity[place] != identity) & (identity != identity.dtype.type(0))):
            raise ValueError("Labels changed between two passes over the rows: there is one that was not there before.")
        return self.number[place]


Groups = IntArray | GroupLookup
"""The groups of rows: an array with the group of every row, or a lookup by the labels of a chunk."""


def plain_classes(classes: list[Any]) -> NDArray[Any]:
    """Return classes as an array of numbers or of strings. Other values could differ between chunks in type alone."""
    values = np.array(classes) if classes else np.empty(0)
    if values.dtype.kind == "S":
        values = values.astype(str)
    mixed = values.dtype.kind == "U" and not all(isinstance(value, (str, bytes)) for value in classes)
    if values.ndim != 1 or values.dtype.kind not in "biufU" or mixed:
        kinds = sorted({type(value).__name__ for value in classes})
        raise ValueError(f"Classes of rows in chunks must be all numbers or all strings. Got {', '.join(kinds)}.")
    return values


def _sizes(place: IntArray, count: int) -> Int64Array:
    return np.bincount(place[place >= 0], minlength=count).astype(np.int64)
