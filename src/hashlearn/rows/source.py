"""Sources of rows and labels of any length, read in ranges of row numbers that do not depend on their chunks.

An array in memory is read directly. Everything else consists of parts, which can be sent to another process: as a path
and row numbers where that is possible (``readers``).
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

import hashlearn.rowkeys as rowkeys
from hashlearn.files.arrays import FileError
from hashlearn.files.read import bad_row, stack_rows
from hashlearn.kernel import as_matrix
from hashlearn.labels import label_array, refuse_masked
from hashlearn.typing import IntArray, Matrix

SAMPLE_ROWS, SAMPLE_SEED = 2048, 0


class Part(ABC):
    """Rows, or labels of rows, that are read when they are needed, here or in another process."""

    name: str
    """What error messages call the part."""
    n_rows: int
    cheap: bool = False
    """Whether single rows can be read without reading much else."""

    @property
    def shape(self) -> tuple[int]:
        """The number of rows, where an array has it too."""
        return (self.n_rows,)

    def __getitem__(self, rows: slice) -> Any:
        return self.read(rows.start, rows.stop)

    @abstractmethod
    def read(self, start: int, stop: int) -> Any:
        """Read rows start..stop-1 of this part."""

    @abstractmethod
    def slice(self, start: int, stop: int) -> Part:
        """Return the part of these rows alone. One task reads it from its start to its end."""


Rows = Any
"""A ``Part``, an array, a sparse matrix or any other object with ``shape[0]`` rows ``rows[start:stop]``."""


def cut_rows(rows: Rows, start: int, stop: int) -> Rows:
    """Return rows start..stop-1 for one task, which reads them later."""
    return rows.slice(start, stop) if isinstance(rows, Part) else rows[start:stop]


class PartList(Part):
    """Rows of several parts or arrays, one after the other."""

    name = "the chunks"

    def __init__(self, parts: Sequence[Rows]) -> None:
        self.parts = list(parts)
        self.starts = [0]
        for part in self.parts:
            self.starts.append(self.starts[-1] + int(part.shape[0]))
        self.n_rows = self.starts[-1]
        self.cheap = all(
            part.cheap if isinstance(part, Part) else isinstance(part, np.ndarray) or sparse.issparse(part)
            for part in self.parts
        )

    def pieces(self, start: int, stop: int) -> Iterator[tuple[Rows, int, int]]:
        """Yield the parts that hold rows start..stop-1, each with the row numbers inside it."""
        place = bisect_right(self.starts, start) - 1
        while start < stop:
            first, end = self.starts[place], min(self.starts[place + 1], stop)
            if end > start:
                yield self.parts[place], start - first, end - first
            start, place = max(start, end), place + 1

    def read(self, start: int, stop: int) -> Any:
        """Read rows start..stop-1 of the list."""
        pieces = list(self.pieces(start, stop))
        blocks = [part[a:b] for part, a, b in pieces]
        if len({block.shape[1:] for block in blocks}) > 1:
            shapes = zip(pieces, blocks, strict=True)
            names = ", ".join(f"{_name_of(part)} {block.shape[1:]}" for (part, *_), block in shapes)
            raise FileError(f"Chunks must have rows of one width. Got {names}.")
        return stack_rows(blocks)

    def slice(self, start: int, stop: int) -> PartList:
        """Return the part of these rows alone."""
        return PartList([cut_rows(part, a, b) for part, a, b in self.pieces(start, stop)])


def joined_rows(parts: Sequence[Rows]) -> Rows:
    """Return the rows of all parts, one after the other."""
    return parts[0] if len(parts) == 1 else PartList(parts)


def _name_of(rows: Rows) -> str:
    return rows.name if isinstance(rows, Part) else "the array"


def as_pair(chunk: Any) -> tuple[Any, Any]:
    """Check a chunk and return it as (rows, labels or None)."""
    rows, labels = chunk if isinstance(chunk, (tuple, list)) and len(chunk) == 2 else (chunk, None)
    rows = as_matrix(rows)
    if not hasattr(rows, "shape"):
        rows = np.asarray(rows)
    refuse_masked(labels, "y")
    if labels is not None and not hasattr(labels, "shape"):
        labels = label_array(labels)
    if len(rows.shape) != 2:
        raise FileError(f"A chunk must be rows (n, features), or such rows and their labels. Got shape {rows.shape}.")
    if labels is not None and labels.shape[0] != rows.shape[0]:
        raise FileError(f"A chunk has {rows.shape[0]} rows and {labels.shape[0]} labels.")
    return rows, labels


@dataclass
class RowRange:
    """Rows start..stop-1 of a source and their labels, for one task to read in order."""

    start: int
    stop: int
    rows: Rows
    labels: Rows | None

    def read(self, start: int, stop: int) -> Matrix:
        """Read feature rows by their numbers in the source."""
        return self.rows[start - self.start : stop - self.start]

    def read_labels(self, start: int, stop: int) -> Any:
        """Read labels by the rows' numbers in the source."""
        if self.labels is None:
            raise ValueError("This source has no labels.")
        return self.labels[start - self.start : stop - self.start]

    def read_checked(self, start: int, stop: int, n_features: int) -> Matrix:
        """Read feature rows.

        Raises
        ------
        FileError
            If they are not numbers, not ``n_features`` per row, or not finite. The message names the row.
        """
        block = self.read(start, stop)
        if len(block.shape) != 2 or block.shape[1] != n_features or block.dtype.kind not in "fiub":
            raise FileError(
                f"{self._row_name(start)} must have {n_features} numbers, as the first row has. Got {block.dtype} "
                f"{block.shape[1:]} instead."
            )
        bad = bad_row(block)
        if bad is not None:
            raise FileError(f"{self._row_name(start + bad)} holds NaN or infinity.")
        return block

    def parts(self) -> list[Part]:
        """Return all parts that the range consists of, without arrays in memory."""
        sides = [side.parts if isinstance(side, PartList) else [side] for side in (self.rows, self.labels)]
        return [part for side in sides for part in side if isinstance(part, Part)]

    def _row_name(self, row: int) -> str:
        """Return a row for error messages: its number, its file, and its number there if the file is known."""
        part, place = self.rows, row - self.start
        if isinstance(part, PartList):
            part, place, _ = next(part.pieces(place, place + 1))
        if hasattr(part, "first"):
            return f"row {row} (row {part.first + place} of {part.name})"
        return f"row {row} of {_name_of(part)}"


class Source:
    """Rows and labels of known number: any range of them can be read, in any process.

    Parameters
    ----------
    rows : array, sparse matrix or ``Part``
    labels : array, ``Part`` or None
    """

    def __init__(self, rows: Rows, labels: Rows | None = None) -> None:
        self.n_rows = int(rows.shape[0])
        if self.n_rows == 0:
            raise FileError("There are no rows to read.")
        if labels is not None and int(labels.shape[0]) != self.n_rows:
            raise FileError(f"There are {int(labels.shape[0])} labels for {self.n_rows} rows.")
        self.rows, self.labels, self.has_labels = rows, labels, labels is not None
        self.n_features = int(cut_rows(rows, 0, 1)[0:1].shape[1])
        self.cheap = PartList([rows]).cheap

    def ranges(self, size: int, start: int = 0) -> Iterator[RowRange]:
        """Yield ranges of ``size`` rows from ``start`` on; the last one may be shorter."""
        for a in range(start, self.n_rows, size):
            b = min(a + size, self.n_rows)
            labels = None if self.labels is None else cut_rows(self.labels, a, b)
            yield RowRange(a, b, cut_rows(self.rows, a, b), labels)

    def signature(self) -> str:
        """Hash the names and lengths of the parts and a few rows, to tell this data from other data."""
        sides = [side.parts if isinstance(side, PartList) else [side] for side in (self.rows, self.labels)]
        parts = [part for side in sides for part in side if part is not None]
        named = [(_name_of(part), int(part.shape[0])) for part in parts]
        digest = hashlib.sha256(json.dumps([self.n_rows, self.n_features, named]).encode())
        for row in (0, self.n_rows // 2, self.n_rows - 1):
            digest.update(_row_bytes(cut_rows(self.rows, row, row + 1)[0:1]))
        return digest.hexdigest()


class Stream:
    """Rows and labels from an object that is iterated again for every pass; they go through this process.

    ``n_rows`` is 0 before the end of the first pass.
    """

    n_rows, cheap = 0, False

    def __init__(self, chunks: Callable[[], Iterator[Any]]) -> None:
        self._chunks = chunks
        first = next(iter(chunks()), None)
        if first is None:
            raise FileError("There are no rows to read: the iterable of chunks is empty.")
        rows, labels = as_pair(first)
        self._first_row = rows[:1]
        self.n_features, self.has_labels = int(rows.shape[1]), labels is not None

    def ranges(self, size: int, start: int = 0) -> Iterator[RowRange]:
        """Yield ranges of ``size`` rows from ``start`` on; the last one may be shorter."""
        seen, n_held = 0, 0
        held: list[tuple[Any, Any]] = []
        for number, chunk in enumerate(self._chunks()):
            rows, labels = as_pair(chunk)
            if (labels is not None) != self.has_labels:
                given = "with" if labels is not None else "without"
                raise FileError(f"Chunk {number} comes {given} labels, unlike the first one.")
            skip = max(0, start - seen)
            seen += rows.shape[0]
            if seen > start and rows.shape[0]:
                held.append((rows[skip:], None if labels is None else labels[skip:]))
                n_held += rows.shape[0] - skip
            while n_held >= size:
                yield self._next_range(held, start, size)
                start, n_held = start + size, n_held - size
        if n_held:
            yield self._next_range(held, start, n_held)
        if self.n_rows and seen != self.n_rows:
            raise FileError(f"The chunks had {self.n_rows} rows at first and {seen} when they were iterated again.")
        self.n_rows = seen

    def _next_range(self, held: list[tuple[Any, Any]], start: int, size: int) -> RowRange:
        """Take ``size`` rows from the front of ``held``."""
        rows: list[Rows] = []
        labels: list[Rows] = []
        left = size
        while left:
            own_rows, own_labels = held.pop(0)
            if own_rows.shape[0] > left:
                held.insert(0, (own_rows[left:], None if own_labels is None else own_labels[left:]))
                own_rows, own_labels = own_rows[:left], None if own_labels is None else own_labels[:left]
            rows.append(own_rows)
            if self.has_labels:
                labels.append(own_labels)
            left -= own_rows.shape[0]
        return RowRange(start, start + size, joined_rows(rows), joined_rows(labels) if self.has_labels else None)

    def signature(self) -> str:
        """Hash the first row, to tell this data from other data."""
        return hashlib.sha256(_row_bytes(self._first_row)).hexdigest()


AnySource = Source | Stream


@dataclass
class CalibrationSample:
    """Training rows from which a hasher learns the calibration of its bits.

    They are the rows with the lowest keys of a fixed seed (see ``rowkeys``), so the sample is the same in memory and in
    chunks. With labels, only rows that have some are drawn, because other rows have no learned code.

    Attributes
    ----------
    numbers : of the rows, ascending.
    rows : the rows themselves.
    groups : their groups, None without labels.
    """

    numbers: IntArray
    rows: Matrix
    groups: IntArray | None = None

    @classmethod
    def from_array(cls, X: Matrix, labeled: NDArray[np.bool_] | None = None) -> CalibrationSample:
        """Draw rows of an array, of those that are ``labeled`` if this is given."""
        keys = rowkeys.row_keys(SAMPLE_SEED, rowkeys.SAMPLE, 0, X.shape[0])
        numbers = np.arange(X.shape[0]) if labeled is None else np.flatnonzero(labeled)
        numbers = numbers[rowkeys.lowest(keys[numbers], SAMPLE_ROWS)]
        return cls(numbers, X[numbers])


def _row_bytes(row: Any) -> bytes:
    return np.asarray(row.toarray() if sparse.issparse(row) else row, dtype=np.float64).tobytes()
