"""Data sources: rows and labels of any length, read in ranges of row numbers that do not depend on their chunks."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from hashlearn.files.arrays import FileError
from hashlearn.fitting.parts import ArrayPart, FunctionPart, PartList, SourcePart, as_pair, joined_parts, stack
from hashlearn.typing import Matrix

# Single rows are read together with others up to this number, or up to this distance in the file.
TAKEN_TOGETHER, SPAN_BYTES = 256, 16 * 2**20


@dataclass
class RowRange:
    """Rows start..stop-1 of a source and their labels, for one task to read in order."""

    start: int
    stop: int
    rows: SourcePart
    labels: SourcePart | None

    def read(self, start: int, stop: int) -> Matrix:
        """Read feature rows by their numbers in the source."""
        return self.rows.read(start - self.start, stop - self.start)

    def read_labels(self, start: int, stop: int) -> Any:
        """Read labels by the rows' numbers in the source."""
        if self.labels is None:
            raise ValueError("This source has no labels.")
        return self.labels.read(start - self.start, stop - self.start)

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
                f"{self._name_of(start)} must have {n_features} numbers, as the first row has. Got {block.dtype} "
                f"{block.shape[1:]} instead."
            )
        values = block.data if sparse.issparse(block) else block
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            if sparse.issparse(block):
                bad = np.repeat(np.arange(block.shape[0]), np.diff(block.indptr))[~np.isfinite(values)]
            else:
                bad = np.flatnonzero(~np.isfinite(values).all(axis=1))
            raise FileError(f"{self._name_of(start + int(bad[0]))} holds NaN or infinity.")
        return block

    def parts(self) -> list[SourcePart]:
        """All parts that the range consists of."""
        sides = [side for side in (self.rows, self.labels) if side is not None]
        return [part for side in sides for part in (side.parts if isinstance(side, PartList) else [side])]

    def _name_of(self, row: int) -> str:
        """A row for error messages: its number, its file, and its number there if the file is known."""
        part, place = self.rows, row - self.start
        if isinstance(part, PartList):
            part, place, _ = next(part.pieces(place, place + 1))
        if hasattr(part, "first"):
            return f"row {row} (row {part.first + place} of {part.name})"
        return f"row {row} of {part.name}"


class Source:
    """Rows and labels of known number: any range of them can be read, in any process."""

    def __init__(self, rows: SourcePart, labels: SourcePart | None) -> None:
        if rows.n_rows == 0:
            raise FileError("There are no rows to read.")
        if labels is not None and labels.n_rows != rows.n_rows:
            raise FileError(f"There are {labels.n_rows} labels for {rows.n_rows} rows.")
        self.rows, self.labels = rows, labels
        self.n_rows: int = rows.n_rows
        self.n_features = int(rows.slice(0, 1).read(0, 1).shape[1])

    @property
    def cheap(self) -> bool:
        """Whether single rows can be read without reading much else."""
        return self.rows.cheap

    def take(self, rows: NDArray[np.integer]) -> Matrix:
        """Read single rows by number, in ascending order."""
        found: list[Any] = []
        span = max(1, SPAN_BYTES // (4 * self.n_features))
        start = 0
        while start < len(rows):
            stop = max(start + TAKEN_TOGETHER, int(np.searchsorted(rows, rows[start] + span)))
            some = rows[start:stop]
            # A slice opens its files anew: a memory map that stays open would keep its pages in memory.
            part: Any = self.rows.slice(int(some[0]), int(some[-1]) + 1)
            found.append(part.take(some - some[0]))
            start = stop
        return stack(found)

    def ranges(self, size: int, start: int = 0, stop: int | None = None) -> Iterator[RowRange]:
        """Yield ranges of ``size`` rows that cover rows start..stop-1; the last one may be shorter."""
        end = self.n_rows if stop is None else stop
        for a in range(start, end, size):
            b = min(a + size, end)
            yield RowRange(a, b, self.rows.slice(a, b), None if self.labels is None else self.labels.slice(a, b))

    def signature(self) -> str:
        """Hash the names and lengths of the parts and a few rows, to tell this data from other data."""
        parts = RowRange(0, self.n_rows, self.rows, self.labels).parts()
        named = [(part.name, part.n_rows) for part in parts if not isinstance(part, FunctionPart)]
        digest = hashlib.sha256(json.dumps([self.n_rows, self.n_features, named]).encode())
        for row in (0, self.n_rows // 2, self.n_rows - 1):
            digest.update(_row_bytes(self.rows.slice(row, row + 1).read(0, 1)))
        return digest.hexdigest()


class Stream:
    """Rows and labels from an object that is iterated again for every pass; they go through this process.

    ``n_rows`` is known after the first pass.
    """

    cheap = False

    def __init__(self, chunks: Callable[[], Iterator[Any]]) -> None:
        self._chunks = chunks
        first = next(iter(chunks()), None)
        if first is None:
            raise FileError("There are no rows to read: the iterable of chunks is empty.")
        rows, labels = as_pair(first)
        self._first_row = rows[:1]
        self.n_features, self.labels = int(rows.shape[1]), labels is not None
        self.n_rows: int | None = None

    def ranges(self, size: int, start: int = 0, stop: int | None = None) -> Iterator[RowRange]:
        """Yield ranges of ``size`` rows that cover rows start..stop-1; the last one may be shorter."""
        seen, end = 0, np.inf if stop is None else stop
        held: list[tuple[Any, Any]] = []
        for number, chunk in enumerate(self._chunks()):
            rows, labels = as_pair(chunk)
            if (labels is not None) != self.labels:
                given = "with" if labels is not None else "without"
                raise FileError(f"Chunk {number} comes {given} labels, unlike the first one.")
            before, seen = seen, seen + rows.shape[0]
            if seen <= start or rows.shape[0] == 0:
                continue
            skip = max(0, start - before)
            held.append((rows[skip:], None if labels is None else labels[skip:]))
            while sum(part[0].shape[0] for part in held) >= size and start < end:
                yield self._next_range(held, start, int(min(size, end - start)))
                start += size
            if start >= end:
                return
        left = sum(part[0].shape[0] for part in held)
        if left and start < end:
            yield self._next_range(held, start, int(min(left, end - start)))
        if self.n_rows is not None and stop is None and seen != self.n_rows:
            raise FileError(f"The chunks had {self.n_rows} rows at first and {seen} when they were iterated again.")
        self.n_rows = seen if stop is None else self.n_rows

    def _next_range(self, held: list[tuple[Any, Any]], start: int, size: int) -> RowRange:
        """Take ``size`` rows from the front of ``held``."""
        rows: list[SourcePart] = []
        labels: list[SourcePart] = []
        left = size
        while left:
            own_rows, own_labels = held.pop(0)
            if own_rows.shape[0] > left:
                held.insert(0, (own_rows[left:], None if own_labels is None else own_labels[left:]))
                own_rows, own_labels = own_rows[:left], None if own_labels is None else own_labels[:left]
            rows.append(ArrayPart(own_rows, "the chunks"))
            if self.labels:
                labels.append(ArrayPart(own_labels, "the chunks"))
            left -= own_rows.shape[0]
        return RowRange(start, start + size, joined_parts(rows), joined_parts(labels) if self.labels else None)

    def signature(self) -> str:
        """Hash the first row, to tell this data from other data."""
        return hashlib.sha256(_row_bytes(self._first_row)).hexdigest()


AnySource = Source | Stream


def memory_source(X: Matrix, labels: Any = None) -> Source:
    """Return rows in memory, and their labels or group numbers if there are any, as a source."""
    return Source(ArrayPart(X), None if labels is None else ArrayPart(labels))


def _row_bytes(row: Any) -> bytes:
    return np.asarray(row.toarray() if sparse.issparse(row) else row, dtype=np.float64).tobytes()
