"""Parts of a data source on disk: a worker gets the path and the row numbers, and opens the file itself."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Self

import numpy as np
from scipy import sparse

from hashlearn.files.arrays import SUFFIXES, FileError, NpzArray, check_there, one_line, open_part, split_part
from hashlearn.files.read import read_labels, shard_names
from hashlearn.files.tables import TABLES, ParquetRows, table_features
from hashlearn.kernel import as_matrix
from hashlearn.labels import sliceable_labels
from hashlearn.rows.reduce import FitContext
from hashlearn.rows.source import (
    AnySource,
    FunctionPart,
    Part,
    Rows,
    Source,
    Stream,
    as_pair,
    call_for_rows,
    joined_rows,
)


class LazyPart(Part):
    """Base of parts that open a file when they are first read. The open file is not sent to other processes."""

    first: int

    def __init__(self) -> None:
        self._opened: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": None}

    def slice(self, start: int, stop: int) -> Self:
        part = self.__class__.__new__(self.__class__)
        part.__dict__.update(self.__getstate__(), first=self.first + start, n_rows=stop - start)
        return part

    def open(self) -> Any:
        """Open what can be sliced by rows."""
        raise NotImplementedError

    def read(self, start: int, stop: int) -> Any:
        start, stop = self.first + start, self.first + stop
        try:
            if self._opened is None:
                self._opened = self.open()
            rows = self._opened[start:stop]
        except Exception as error:  # every reader raises its own types, and each message must name the file and rows
            raise FileError(f"{self.name}: rows {start} to {stop - 1} cannot be read: {one_line(error)}") from error
        if rows.shape[0] != stop - start:
            raise FileError(
                f"{self.name}: rows {start} to {stop - 1} cannot be read: it has only {start + rows.shape[0]} rows now."
            )
        return rows


class FilePart(LazyPart):
    """A file of the usual kinds (.npy, .h5, .fvecs, .npz, .csv …), or one part of it: ``data.h5:images``."""

    def __init__(self, name: str, labels: bool) -> None:
        super().__init__()
        path, part = split_part(name)
        # Absolute, because workers need not have the same working directory.
        self.name = str(path.resolve()) + (f":{part}" if part else "")
        self.labels, self.first = labels, 0
        self._mapped: MappedPart | None = None
        rows = self.open()
        self.n_rows = int(rows.shape[0])
        self.cheap = isinstance(rows, np.memmap)
        if self.cheap:
            # Every task opens its file again: to map it takes much less time than to parse its header again.
            self._mapped, self._stamp = MappedPart(rows), _file_stamp(rows.filename)

    def open(self) -> Any:
        if self._mapped is not None and self._stamp == _file_stamp(self._mapped.name):
            return self._mapped.open()
        path, _ = split_part(self.name)
        suffix = path.suffix.lower()
        if suffix in TABLES or suffix == ".npz":
            check_there(path)
            return _whole_file(self.name, self.labels, path.stat().st_mtime_ns)
        return open_part(self.name, "y" if self.labels else "X")


def _file_stamp(path: str) -> tuple[int, int] | None:
    """Time of the last change and size, which tell a changed file; None if the file is gone."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


@lru_cache(maxsize=4)
def _whole_file(name: str, labels: bool, changed: int) -> Any:
    """Read a file that can only be read whole; it is kept for the next tasks that need it."""
    if labels:
        return read_labels(name, missing=True)
    path, part = split_part(name)
    if path.suffix.lower() in TABLES:
        return table_features(path, part)
    rows = open_part(name, "X")
    return rows[...] if isinstance(rows, NpzArray) else rows


class ParquetPart(LazyPart):
    """Some columns of a Parquet file, read one batch of rows at a time."""

    def __init__(self, name: str, labels: bool) -> None:
        super().__init__()
        path, part = split_part(name)
        self.name = str(path.resolve()) + (f":{part}" if part else "")
        self.labels, self.first = labels, 0
        check_there(path)
        self.n_rows = self.open().n_rows

    def open(self) -> Any:
        path, part = split_part(self.name)
        return ParquetRows(path, part, self.labels)


class ZarrPart(LazyPart):
    """A zarr array: a folder, and the array's key if the folder is a group."""

    def __init__(self, path: Path, key: str | None, default_key: str) -> None:
        super().__init__()
        try:
            import zarr
        except ImportError as error:
            raise FileError(f"Reading {path} needs zarr: pip install '.[files]'.") from error
        self.path, self.key, self.first = str(path.resolve()), key, 0
        self.name = f"{path}:{key}" if key else str(path)
        try:
            found = zarr.open(self.path, mode="r")
        except Exception as error:  # zarr raises its own types
            raise FileError(f"{path} is not a zarr array or group: {one_line(error)}") from error
        if key is None and not hasattr(found, "shape"):
            keys = sorted(name for name, node in found.members(max_depth=None) if hasattr(node, "shape"))
            self.key = keys[0] if len(keys) == 1 else default_key
        self.n_rows = int(self.open().shape[0])

    def open(self) -> Any:
        import zarr

        found: Any = zarr.open(self.path, mode="r")
        if self.key is None:
            return found
        if self.key not in found:
            raise FileError(f"{self.path} has no array '{self.key}'.")
        return found[self.key]


class ObjectPart(LazyPart):
    """An object that reads its own slices and can be sent without its rows, such as a zarr array."""

    def __init__(self, array: Any, name: str) -> None:
        super().__init__()
        self.array, self.name, self.first, self.n_rows = array, name, 0, int(array.shape[0])

    def open(self) -> Any:
        return self.array


class MappedPart(LazyPart):
    """Rows of a memory map, sent as the file's name and the offset in it."""

    cheap = True

    def __init__(self, array: np.memmap) -> None:
        super().__init__()
        root: Any = array
        while isinstance(root.base, np.memmap):
            root = root.base
        self.name = str(root.filename)
        self.offset = int(root.offset) + array.__array_interface__["data"][0] - root.__array_interface__["data"][0]
        self.array_shape, self.strides, self.dtype = array.shape, array.strides, array.dtype
        self.n_rows, self.first = int(array.shape[0]), 0

    def open(self) -> Any:
        raw = np.memmap(self.name, dtype=np.uint8, mode="r")
        return np.ndarray(self.array_shape, self.dtype, buffer=raw, offset=self.offset, strides=self.strides)


class DaskPart(Part):
    """A Dask array. A slice carries only the graph of its own rows, and computes them where it is read."""

    def __init__(self, array: Any, name: str = "the Dask array") -> None:
        self.array, self.name = array, name
        self.n_rows = int(array.shape[0])
        self._rows: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_rows": None}

    def slice(self, start: int, stop: int) -> Rows:
        import dask

        rows = self.array[start:stop]
        if held := _futures(self.array):
            # The cluster holds these rows: it computes the slice and gives it to the task that reads it.
            return ClusterPart(held[0].client.compute(rows), self.name, 0, stop - start)
        return DaskPart(dask.optimize(rows)[0], self.name)

    def read(self, start: int, stop: int) -> Any:
        if self._rows is None:
            try:
                held = bool(_futures(self.array))
                self._rows = self.array.compute() if held else self.array.compute(scheduler="synchronous")
            except Exception as error:
                raise FileError(f"{self.name}: {self.n_rows} rows cannot be computed: {one_line(error)}") from error
        return self._rows[start:stop]


def _futures(array: Any) -> list[Any]:
    try:
        from distributed.client import futures_of
    except ImportError:
        return []
    return futures_of(array)


@dataclass
class ClusterPart(Part):
    """Rows that a Dask cluster computes or holds already. The cluster passes them to the task as an argument."""

    future: Any
    name: str
    first: int
    n_rows: int
    rows: Any = field(default=None)
    """Set in the task, by whoever runs it."""

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "future": None, "rows": None}

    def slice(self, start: int, stop: int) -> ClusterPart:
        return ClusterPart(self.future, self.name, self.first + start, stop - start)

    def read(self, start: int, stop: int) -> Any:
        if self.rows is None and self.future is None:
            raise FileError(f"{self.name} is held by a Dask cluster, so give its client as the executor.")
        rows = self.future.result() if self.rows is None else self.rows
        return rows[self.first + start : self.first + stop]


def as_source(X: Any, y: Any = None, executor: Any = None) -> AnySource:
    """Make a data source.

    Parameters
    ----------
    X : rows
        One of: an array, memory map or sparse matrix; a file name, a pattern (``shards/*.npy``), a folder of Parquet
        files or a zarr folder, followed by ``:part`` if there is a choice; a list of such names or arrays; an h5py data
        set or zarr array; a Dask array or data frame; a list of functions that return (rows, labels); an object that
        can be iterated several times and yields (rows, labels), or rows alone.
    y : labels or None, default=None
        In any of the same forms; for a Dask data frame the name of the label column. None if X brings the labels or
        there are none.
    executor : executor or None, default=None
        It counts the rows of functions; see ``fit_chunks``.

    Returns
    -------
    Source or Stream

    Examples
    --------
    >>> import numpy as np
    >>> from hashlearn.rows import as_source
    >>> source = as_source([np.zeros((3, 2)), np.ones((4, 2))], [np.arange(3), np.arange(4)])
    >>> source.n_rows, source.n_features
    (7, 2)
    >>> [rows.read(rows.start, rows.stop).shape for rows in source.ranges(5)]
    [(5, 2), (2, 2)]
    """
    if isinstance(X, (Source, Stream)):
        if y is not None:
            raise TypeError("A source has its labels already: give no y with it.")
        return X
    X = as_matrix(X)
    if _is_dask_frame(X):
        X, y = _frame_columns(X, y)
    if y is None:
        pairs = _pairs(X, executor)
        if pairs is not None:
            return pairs
    labels = None if y is None else joined_rows(_label_parts(y, chunked=isinstance(X, (list, tuple))))
    return Source(joined_rows(_parts(X, labels=False)), labels)


def _pairs(X: Any, executor: Any) -> AnySource | None:
    """Return a source of chunks that bring their labels; None if X is something else."""
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
        return _function_source(list(X), executor)
    if X and all(isinstance(item, tuple) and len(item) == 2 for item in X):
        pairs = [as_pair(item) for item in X]
        rows = joined_rows([_rows_of_object(rows) for rows, _ in pairs])
        if all(labels is None for _, labels in pairs):
            return Source(rows, None)
        return Source(rows, joined_rows([_rows_of_object(labels) for _, labels in pairs]))
    return None


def _function_source(functions: list[Callable[[], Any]], executor: Any) -> Source:
    """Make a source of functions, each of which is called once to count its rows."""
    prefix = uuid.uuid4().hex[:8]  # workers keep results by name: those of two sources must not be mixed up
    names = [f"chunk {k} [{prefix}]" for k in range(len(functions))]
    facts = list(FitContext(executor).run(_count_rows, None, list(zip(functions, names, strict=True))))
    labeled = {has_labels for _, has_labels in facts}
    if len(labeled) > 1:
        raise FileError("Some chunks come with labels and others without.")

    def column(k: int) -> Rows:
        counted = zip(functions, names, facts, strict=True)
        return joined_rows([FunctionPart(function, k, name, 0, n_rows) for function, name, (n_rows, _) in counted])

    return Source(column(0), column(1) if labeled == {True} else None)


def _count_rows(shared: None, task: tuple[Callable[[], Any], str]) -> tuple[int, bool]:
    """Run one task: the number of rows that a function returns, and whether it returns labels."""
    rows, labels = call_for_rows(*task)
    return int(rows.shape[0]), labels is not None


def _label_parts(y: Any, chunked: bool) -> list[Rows]:
    """Return the parts of labels. A list of lists holds chunks if the rows are ``chunked``, too, and tags otherwise."""
    tags = (set, frozenset) if chunked else (set, frozenset, list)
    if isinstance(y, (list, tuple)) and any(isinstance(item, tags) for item in y):
        return [_rows_of_object(y, labels=True)]
    return _parts(y, labels=True)


def _parts(data: Any, labels: bool) -> list[Rows]:
    if isinstance(data, (str, Path)):
        return _files(str(data), labels)
    if isinstance(data, (list, tuple)) and data:
        named = all(isinstance(item, (str, Path)) for item in data)
        # A list of strings may hold class names; file names have a known ending or are folders.
        if named and (not labels or all(_is_file_name(str(item)) for item in data)):
            return [part for item in data for part in _files(str(item), labels)]
        if not named and not np.isscalar(data[0]) and data[0] is not None:
            return [part for item in data for part in _parts(item, labels)]
    return [_rows_of_object(data if labels else as_matrix(data), labels)]


def _is_file_name(name: str) -> bool:
    return split_part(name)[0].suffix.lower() in SUFFIXES or Path(name).is_dir()


def _rows_of_object(data: Any, labels: bool = False) -> Rows:
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
    if labels:
        return sliceable_labels(data)
    if sparse.issparse(data):
        return data.tocsr()
    # A list has no shape; a data frame has one, but a type for each of its columns.
    plain = hasattr(data, "shape") and hasattr(data, "dtype")
    return data if plain else np.asarray(data)


def _is_dask_frame(X: Any) -> bool:
    return type(X).__module__.startswith(("dask.dataframe", "dask_expr")) and hasattr(X, "columns")


def _frame_columns(frame: Any, y: Any) -> tuple[Any, Any]:
    """Return rows and labels of a Dask data frame as Dask arrays; ``y`` names the label column or columns."""
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


def _files(name: str, labels: bool) -> list[Rows]:
    """Return the files of a name, pattern or folder, sorted by name."""
    return [one for file in shard_names(name) for one in _file(file, labels)]


def _file(name: str, labels: bool) -> list[Rows]:
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
