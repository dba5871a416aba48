"""Data sources: rows and labels of any length, read by row numbers in fixed cuts, wherever their own chunks end."""

from __future__ import annotations

import glob
import hashlib
import json
import uuid
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from hashlearn.chunks.executors import run
from hashlearn.chunks.parts import (
    ArrayPart,
    CalledPart,
    DaskPart,
    FilePart,
    HeldPart,
    MappedPart,
    ObjectPart,
    ParquetPart,
    Part,
    ZarrPart,
    as_pair,
    called,
)
from hashlearn.files.arrays import SUFFIXES, FileError, split_part

Rows = Any
TAKEN_TOGETHER = 256


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


def _copied(block: Any) -> Any:
    return block if sparse.issparse(block) else np.array(block)


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

    def read(self, start: int, stop: int) -> Rows:
        """Feature rows by their numbers in the source."""
        return self.rows.read(start - self.start, stop - self.start)

    def checked(self, start: int, stop: int, width: int) -> Rows:
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

    def take(self, rows: Any) -> Rows:
        """Single rows by number, in ascending order."""
        found: list[Any] = []
        for start in range(0, len(rows), TAKEN_TOGETHER):
            some = rows[start : start + TAKEN_TOGETHER]
            # Opened anew: a memory map that stays open would hold on to its pages.
            cut = self.rows.cut(int(some[0]), int(some[-1]) + 1)
            found += [_copied(cut.read(int(row - some[0]), int(row - some[0]) + 1)) for row in some]
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


def as_source(X: Any, y: Any = None, executor: Any = None) -> AnySource:
    """Whatever a user has as a data source.

    Parameters
    ----------
    X : rows. An array, memory map or sparse matrix; a file name, a pattern (``shards/*.npy``), a folder of Parquet
        files or a zarr folder, with ``:part`` behind it where there is a choice; a list of such names or arrays; an
        h5py data set or zarr array; a Dask array or data frame; a list of functions that return (rows, labels); or
        anything that can be iterated several times over (rows, labels), rows alone where there are none.
    y : labels in any of the same forms (of a Dask data frame: the name of the label column), None where X brings them
        or there are none.
    executor : who counts the rows of functions; see ``fit_chunks``.

    Examples
    --------
    >>> import numpy as np
    >>> from hashlearn.chunks import as_source
    >>> source = as_source([np.zeros((3, 2)), np.ones((4, 2))], [np.arange(3), np.arange(4)])
    >>> source.n_rows, source.n_features
    (7, 2)
    >>> [cut.read(cut.start, cut.stop).shape for cut in source.cuts(5)]
    [(5, 2), (2, 2)]
    """
    if isinstance(X, (Source, Stream)):
        if y is not None:
            raise TypeError("Labels are part of a source already: give no y beside it.")
        return X
    if _is_dask_frame(X):
        X, y = _frame_columns(X, y)
    if y is None:
        pairs = _pairs(X, executor)
        if pairs is not None:
            return pairs
    return Source(PartList(_parts(X, labels=False)), None if y is None else PartList(_parts(y, labels=True)))


def _pairs(X: Any, executor: Any) -> AnySource | None:
    """A source of chunks that bring their labels, if X is one."""
    if isinstance(X, (str, Path)) or hasattr(X, "shape"):
        return None
    if callable(X):
        return Stream(X)
    if not isinstance(X, Iterable):
        return None
    if iter(X) is X:
        raise TypeError(
            "Chunks are read more than once, and this iterator can be read only once: give a list, or a function that "
            "returns a new iterator."
        )
    if not isinstance(X, Sequence):
        return Stream(lambda: iter(X))
    if X and all(callable(item) for item in X):
        return _called_source(list(X), executor)
    if X and all(isinstance(item, tuple) and len(item) == 2 for item in X):
        pairs = [as_pair(item) for item in X]
        rows = PartList([_in_memory(rows, "the chunks") for rows, _ in pairs])
        bare = all(labels is None for _, labels in pairs)
        return Source(rows, None if bare else PartList([_in_memory(labels, "the chunks") for _, labels in pairs]))
    return None


def _called_source(functions: list[Callable[[], Any]], executor: Any) -> Source:
    prefix = uuid.uuid4().hex[:8]
    tokens = [f"chunk {k} [{prefix}]" for k in range(len(functions))]
    shapes = list(run(_shape_of, None, list(zip(functions, tokens, strict=True)), executor, None))
    labelled = {labelled for _, labelled in shapes}
    if len(labelled) > 1:
        raise FileError("Some chunks come with labels and others without.")
    columns = [
        PartList(
            [CalledPart(f, k, token, 0, rows) for f, token, (rows, _) in zip(functions, tokens, shapes, strict=True)]
        )
        for k in range(2 if labelled == {True} else 1)
    ]
    return Source(columns[0], columns[1] if len(columns) > 1 else None)


def _shape_of(shared: None, task: tuple[Callable[[], Any], str]) -> tuple[int, bool]:
    rows, labels = called(*task)
    return int(rows.shape[0]), labels is not None


def _parts(data: Any, labels: bool) -> list[Part]:
    if isinstance(data, (str, Path)):
        return _files(str(data), labels)
    if isinstance(data, (list, tuple)) and data:
        named = all(isinstance(item, (str, Path)) for item in data)
        # A list of strings may be class names; file names have an ending that is known, or are folders.
        if named and (not labels or all(_is_file_name(str(item)) for item in data)):
            return [part for item in data for part in _files(str(item), labels)]
        if not named and not np.isscalar(data[0]) and data[0] is not None:
            return [part for item in data for part in _parts(item, labels)]
    return [_in_memory(data, "the labels" if labels else "the array")]


def _is_file_name(name: str) -> bool:
    return split_part(name)[0].suffix.lower() in SUFFIXES or Path(name).is_dir()


def _in_memory(data: Any, name: str) -> Part:
    module = type(data).__module__
    if isinstance(data, np.memmap):
        return MappedPart(data)
    if module.startswith("h5py"):
        return FilePart(f"{data.file.filename}:{data.name.strip('/')}", labels=len(data.shape) == 1)
    if module.startswith("dask."):
        known = not np.isnan(data.shape[0])
        return DaskPart(data if known else data.compute_chunk_sizes())
    if module.startswith("zarr"):
        return ObjectPart(data, f"the zarr array {data.name}")
    if sparse.issparse(data):
        return ArrayPart(data.tocsr(), name)
    return ArrayPart(data if hasattr(data, "shape") else np.asarray(data), name)


def _is_dask_frame(X: Any) -> bool:
    return type(X).__module__.startswith(("dask.dataframe", "dask_expr")) and hasattr(X, "columns")


def _frame_columns(frame: Any, y: Any) -> tuple[Any, Any]:
    """Rows and labels of a Dask data frame as Dask arrays: ``y`` names its label column or columns."""
    names = [] if y is None else [y] if isinstance(y, str) else list(y)
    for name in names:
        if name not in frame.columns:
            raise FileError(f"The data frame has no column '{name}'; it has {', '.join(map(str, frame.columns))}.")
    numeric = [name for name in frame.select_dtypes("number").columns if name not in names]
    if not numeric:
        raise FileError("The data frame has no column of numbers to learn from.")
    rows = frame[numeric].to_dask_array(lengths=True)
    if not names:
        return rows, None
    lengths = tuple(rows.chunks[0])
    return rows, frame[names[0] if len(names) == 1 else names].to_dask_array(lengths=lengths)


def _files(name: str, labels: bool) -> list[Part]:
    """The files that a name, pattern or folder means, in order of their names."""
    found = [name]
    path, part = split_part(name)
    if not Path(name).exists() and not path.exists() and glob.has_magic(name):
        pattern, _, part = name.partition(":") if ":" in name else (name, "", None)
        found = [f"{file}:{part}" if part else file for file in sorted(glob.glob(pattern, recursive=True))]
        if not found:
            raise FileError(f"No file matches {name}.")
    return [one for file in found for one in _file(file, labels)]


def _file(name: str, labels: bool) -> list[Part]:
    head, colon, key = name.rpartition(":")
    folder = Path(head) if colon and Path(head).is_dir() else Path(name)
    key = key if colon and folder == Path(head) else ""
    if folder.is_dir():
        if any((folder / mark).exists() for mark in ("zarr.json", ".zarray", ".zgroup")):
            return [ZarrPart(folder, key or None, "y" if labels else "X")]
        tables = sorted(folder.rglob("*.parquet"))
        if not tables:
            raise FileError(f"{folder} is a folder without Parquet files, and no zarr array.")
        return [ParquetPart(f"{table}:{key}" if key else str(table), labels) for table in tables]
    path, _ = split_part(name)
    if path.suffix.lower() == ".parquet":
        return [ParquetPart(name, labels)]
    return [FilePart(name, labels)]
