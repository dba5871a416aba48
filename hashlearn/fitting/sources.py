"""Data sources: rows and labels of any length, read by row numbers in fixed cuts, wherever their own chunks end."""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from hashlearn.files.arrays import FileError
from hashlearn.fitting.parts import (
    ArrayPart,
    CalledPart,
    HeldPart,
    LazyPart,
    Part,
    as_pair,
)
from hashlearn.typing import Matrix

TAKEN_TOGETHER, SPAN_BYTES = 256, 16 * 2**20  # single rows read at once: so many, or all that lie so near each other


def stack(blocks: Sequence[Any]) -> Any:
    """Blocks of rows or labels one after the other, dense or sparse."""
    if len(blocks) == 1:
        return blocks[0]
    if any(sparse.issparse(block) for block in blocks):
        return sparse.vstack(blocks, format="csr")
    arrays = [np.asarray(block) for block in blocks]
    kinds = {array.dtype.kind for array in arrays}
    if "U" in kinds and kinds & set("biuf"):
        # NumPy would turn the numbers into names.
        raise ValueError("Labels must be of one kind in all chunks. Got numbers in one and names in another.")
    return np.concatenate(arrays)


class PartList:
    """Parts one after the other, as one."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self.parts = list(parts)
        self.begins = [0]
        for part in self.parts:
            self.begins.append(self.begins[-1] + part.n_rows)

    @property
    def n_rows(self) -> int:
        return self.begins[-1]

    def pieces(self, start: int, stop: int) -> Iterator[tuple[Part, int, int]]:
        """The parts that hold these rows, each with its own row numbers."""
        place = bisect_right(self.begins, start) - 1
        while start < stop:
            begin, end = self.begins[place], min(self.begins[place + 1], stop)
            if end > start:
                yield self.parts[place], start - begin, end - begin
            start, place = max(start, end), place + 1

    def read(self, start: int, stop: int) -> Any:
        blocks = [part.read(a, b) for part, a, b in self.pieces(start, stop)]
        widths = {block.shape[1:] for block in blocks}
        if len(widths) > 1:
            names = ", ".join(f"{part.name} {block.shape[1:]}" for (part, *_), block in
                              zip(self.pieces(start, stop), blocks, strict=True))  # fmt: skip
            raise FileError(f"Chunks must have rows of one width. Got {names}.")
        return stack(blocks)

    def take(self, rows: NDArray[np.integer]) -> list[Any]:
        """Single rows of parts that are cheap to read them of, in ascending order."""
        found: list[Any] = []
        for part, begin in zip(self.parts, self.begins, strict=False):
            places = rows[(rows >= begin) & (rows < begin + part.n_rows)] - begin
            if len(places):
                assert isinstance(part, ArrayPart | LazyPart)  # no others are cheap
                found += part.take(places)
        return found

    def cut(self, start: int, stop: int) -> PartList:
        return PartList([part.cut(a, b) for part, a, b in self.pieces(start, stop)])

    def where(self, row: int) -> str:
        """A row's number and, where that says more, its place in its own part."""
        part, place, _ = next(self.pieces(row, row + 1))
        return f"row {row} (row {getattr(part, 'first', 0) + place} of {part.name})"


@dataclass
class Cut:
    """Rows start..stop-1 of a source and their labels, to be read by one task, in order."""

    start: int
    stop: int
    rows: PartList
    labels: PartList | None

    def read(self, start: int, stop: int) -> Matrix:
        """Feature rows by their numbers in the source."""
        return self.rows.read(start - self.start, stop - self.start)

    def checked(self, start: int, stop: int, width: int) -> Matrix:
        """The same, if they are numbers, as many a row as they should be, and finite."""
        block = self.read(start, stop)
        if len(block.shape) != 2 or block.shape[1] != width or block.dtype.kind not in "fiub":
            raise FileError(
                f"{self._where(start)} must have {width} numbers, as the first row has. Got {block.dtype} "
                f"{block.shape[1:]} instead."
            )
        values = block.data if sparse.issparse(block) else block
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            if sparse.issparse(block):
                bad = np.repeat(np.arange(block.shape[0]), np.diff(block.indptr))[~np.isfinite(values)]
            else:
                bad = np.flatnonzero(~np.isfinite(values).all(axis=1))
            raise FileError(f"{self._where(start + int(bad[0]))} holds NaN or infinity.")
        return block

    def read_labels(self, start: int, stop: int) -> Any:
        if self.labels is None:
            raise ValueError("This source has no labels.")
        return self.labels.read(start - self.start, stop - self.start)

    def held(self) -> list[HeldPart]:
        """Parts whose rows a cluster holds."""
        lists = [self.rows] if self.labels is None else [self.rows, self.labels]
        return [part for one in lists for part in one.parts if isinstance(part, HeldPart)]

    def _where(self, row: int) -> str:
        text = self.rows.where(row - self.start)
        return f"row {row} {text[text.index('(') :]}"


class Source:
    """Rows and labels in parts of known lengths: any range of rows can be read, in any process."""

    def __init__(self, rows: PartList, labels: PartList | None) -> None:
        if rows.n_rows == 0:
            raise FileError("There are no rows to read.")
        if labels is not None and labels.n_rows != rows.n_rows:
            raise FileError(f"There are {labels.n_rows} labels for {rows.n_rows} rows.")
        self.rows, self.labels = rows, labels
        self.n_rows: int = rows.n_rows
        self.n_features = int(rows.cut(0, 1).read(0, 1).shape[1])

    @property
    def cheap(self) -> bool:
        """Whether single rows can be read without reading much else."""
        return all(part.cheap for part in self.rows.parts)

    def take(self, rows: Any) -> Matrix:
        """Single rows by number, in ascending order."""
        found: list[Any] = []
        span = max(1, SPAN_BYTES // (4 * self.n_features))
        start = 0
        while start < len(rows):
            stop = max(start + TAKEN_TOGETHER, int(np.searchsorted(rows, rows[start] + span)))
            some = rows[start:stop]
            # Opened anew: a memory map that stays open would hold on to its pages.
            found += self.rows.cut(int(some[0]), int(some[-1]) + 1).take(some - some[0])
            start = stop
        return stack(found)

    def cuts(self, size: int, start: int = 0, stop: int | None = None) -> Iterator[Cut]:
        end = self.n_rows if stop is None else stop
        for a in range(start, end, size):
            b = min(a + size, end)
            yield Cut(a, b, self.rows.cut(a, b), None if self.labels is None else self.labels.cut(a, b))

    def signature(self) -> str:
        """What tells this data from other data: names and lengths of its parts, and a few of its rows."""
        lists = [self.rows] if self.labels is None else [self.rows, self.labels]
        named = [(part.name, part.n_rows) for one in lists for part in one.parts if not isinstance(part, CalledPart)]
        digest = hashlib.sha256(json.dumps([self.n_rows, self.n_features, named]).encode())
        for row in (0, self.n_rows // 2, self.n_rows - 1):
            block = self.rows.cut(row, row + 1).read(0, 1)
            digest.update(np.asarray(block.toarray() if sparse.issparse(block) else block, dtype=np.float64).tobytes())
        return digest.hexdigest()


class Stream:
    """Rows and labels from something that is iterated again for every pass; they pass through this process."""

    cheap = False

    def __init__(self, chunks: Callable[[], Iterator[Any]]) -> None:
        self._chunks = chunks
        first = next(iter(chunks()), None)
        if first is None:
            raise FileError("There are no rows to read: the iterable of chunks is empty.")
        rows, labels = as_pair(first)
        self._first = rows
        self.n_features, self.labels = int(rows.shape[1]), labels is not None
        self.n_rows: int | None = None

    def cuts(self, size: int, start: int = 0, stop: int | None = None) -> Iterator[Cut]:
        seen, end = 0, np.inf if stop is None else stop
        held: list[tuple[Any, Any]] = []
        for number, chunk in enumerate(self._chunks()):
            rows, labels = as_pair(chunk)
            if (labels is not None) != self.labels:
                raise FileError(f"Chunk {number} comes {'with' if labels is not None else 'without'} labels, unlike "
                                "the first one.")  # fmt: skip
            before, seen = seen, seen + rows.shape[0]
            if seen <= start or rows.shape[0] == 0:
                continue
            skip = max(0, start - before)
            held.append((rows[skip:], None if labels is None else labels[skip:]))
            while sum(part[0].shape[0] for part in held) >= size and start < end:
                yield self._next(held, start, int(min(size, end - start)))
                start += size
            if start >= end:
                return
        left = sum(part[0].shape[0] for part in held)
        if left and start < end:
            yield self._next(held, start, int(min(left, end - start)))
        if self.n_rows is not None and stop is None and seen != self.n_rows:
            raise FileError(f"The chunks had {self.n_rows} rows at first and {seen} when they were iterated again.")
        self.n_rows = seen if stop is None else self.n_rows

    def _next(self, held: list[tuple[Any, Any]], start: int, size: int) -> Cut:
        taken: list[tuple[Any, Any]] = []
        left = size
        while left:
            rows, labels = held.pop(0)
            if rows.shape[0] > left:
                held.insert(0, (rows[left:], None if labels is None else labels[left:]))
                rows, labels = rows[:left], None if labels is None else labels[:left]
            taken.append((rows, labels))
            left -= rows.shape[0]
        name = "the chunks"
        labels = PartList([ArrayPart(part[1], name) for part in taken]) if self.labels else None
        return Cut(start, start + size, PartList([ArrayPart(part[0], name) for part in taken]), labels)

    def signature(self) -> str:
        block = self._first[:1]
        values = np.asarray(block.toarray() if sparse.issparse(block) else block, dtype=np.float64)
        return hashlib.sha256(values.tobytes()).hexdigest()


AnySource = Source | Stream
