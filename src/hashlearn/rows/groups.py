"""Groups of rows with equal labels, found in chunks: which label sets occur, and the group number of any row.

Every label set has an *identity*: the class itself, or for 0/1 label sets their key (``labels.set_keys``). Label sets
of two chunks with the same identity are compared in full, so that equal keys of different sets are always noticed.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from hashlearn.labels import EQUAL_KEYS, UNKNOWN, Classes, LabelSets, as_labels, group_rows, set_keys
from hashlearn.typing import Int64Array, IntArray


@dataclass
class LabelReader:
    """How labels are read: the class that marks a row as unlabeled."""

    unlabeled: Hashable = None

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

    def label_sets(self, labels: Any, first_row: int) -> tuple[IntArray, LabelSetIndex]:
        """Find the label sets of rows from ``first_row`` on; returns the place of every row's among them, or -1."""
        read = self.read(labels)
        if isinstance(read, LabelSets):
            place, rows = group_rows(read.sets)
            identity = set_keys(read.sets[rows])
            order = np.argsort(identity)
            place, rows, identity = np.append(np.argsort(order), UNKNOWN)[place], rows[order], identity[order]
            sets = read.sets[rows]
        else:
            place, identity, sets = read.numbers, plain_classes(read.names), None
            labeled = np.flatnonzero(place >= 0)
            rows = labeled[np.unique(place[labeled], return_index=True)[1]]
        count = np.bincount(place[place >= 0], minlength=len(identity)).astype(np.int64)
        return place, LabelSetIndex(identity, rows + first_row, count, sets)


@dataclass
class LabelSetIndex:
    """The label sets of some rows, sorted by identity.

    Attributes
    ----------
    identity, first, count : of every label set; ``first`` is the number of its first row.
    sets : 0/1 matrix (n_sets, n_labels); None if the labels are classes.
    """

    identity: NDArray[Any] = field(default_factory=lambda: np.empty(0, dtype=np.uint64))
    first: Int64Array = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    count: Int64Array = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    sets: sparse.csr_matrix | None = None

    def __len__(self) -> int:
        return len(self.identity)

    @property
    def kind(self) -> str:
        """Kind of the labels: sets, or classes that are numbers or names."""
        return "sets" if self.sets is not None else "names" if self.identity.dtype.kind == "U" else "numbers"

    def joined(self, other: LabelSetIndex) -> LabelSetIndex:
        """Return the label sets of these rows and of later ones."""
        if not len(self) or not len(other):
            return other if len(other) else self
        self._check_kind(other)
        both = np.concatenate([self.identity, other.identity])
        identity, representative, place = np.unique(both, return_index=True, return_inverse=True)
        sets = None
        if self.sets is not None and other.sets is not None:
            sets = sparse.vstack([self.sets, other.sets], format="csr")[representative]
            if (other.sets != sets[place[len(self) :]]).nnz:
                raise RuntimeError(EQUAL_KEYS)
        # An identity that both have is represented by its place here, whose first row is the earlier one.
        first = np.concatenate([self.first, other.first])[representative]
        count = np.bincount(place, np.concatenate([self.count, other.count])).astype(np.int64)
        return LabelSetIndex(identity, first, count, sets)

    def _check_kind(self, other: LabelSetIndex) -> None:
        if self.kind != other.kind:
            raise ValueError(
                f"Labels must be of one kind in all chunks: classes that are numbers, classes that are names, or label "
                f"sets. Got {self.kind} at first and {other.kind} from row {int(other.first.min())} on."
            )
        if self.sets is not None and other.sets is not None and self.sets.shape[1] != other.sets.shape[1]:
            raise ValueError(
                f"Label sets must have one width in all chunks. Got {self.sets.shape[1]} labels at first and "
                f"{other.sets.shape[1]} from row {int(other.first.min())} on."
            )

    def numbers(self) -> IntArray:
        """Return the group number of every place: groups are numbered by their first row."""
        return np.argsort(np.argsort(self.first, kind="stable"))

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
            group = self._numbers(set_keys(read.sets))
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
