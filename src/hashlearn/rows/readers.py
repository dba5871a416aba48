"""Parts of a data source on disk: a worker gets the path and the row numbers, and opens the file itself."""

from __future__ import annotations

import threading
import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from hashlearn.files.arrays import SUFFIXES, FileError, NpzArray, check_there, one_line, open_part, split_part
from hashlearn.files.read import read_labels, shard_names
from hashlearn.files.tables import TABLES, ParquetRows, table_features
from hashlearn.kernel import as_matrix
from hashlearn.labels import sliceable_labels
from hashlearn.rows.reduce import FitContext
from hashlearn.rows.source import AnySource, Part, Rows, Source, Stream, as_pair, joined_rows


class OpenedPart(Part):
    """Rows of what a function opens when they are first read. What is open is not sent to other processes.

    Parameters
    ----------
    name : what error messages call it.
    opener : returns an object that can be sliced by rows, with its number of rows as ``shape[0]`` or ``n_rows``.
    n_rows : None to open it now and see.
    """

    def __init__(self, name: str, opener: Callable[[], Any], n_rows: int | None = None) -> None:
        self.name, self.opener, self.first = name, opener, 0
        self._opened: Any = None
        if n_rows is None:
            rows = opener()  # not kept: many files would stay open
            n_rows, self.cheap = rows.n_rows if hasattr(rows, "n_rows") else rows.shape[0], isinstance(rows, np.memmap)
        self.n_rows = int(n_rows)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": None}

    def slice(self, start: int, stop: int) -> OpenedPart:
        part = OpenedPart(self.name, self.opener, stop - start)
        part.first = self.first + start
        return part

    def read(self, start: int, stop: int) -> Any:
        start, stop = self.first + start, self.first + stop
        try:
            if self._opened is None:
                self._opened = self.opener()
            rows = self._opened[start:stop]
        except Exception as error:  # every reader raises its own types, and each message must name the file and rows
            raise FileError(f"{self.name}: rows {start} to {stop - 1} cannot be read: {one_line(error)}") from error
        if rows.shape[0] != stop - start:
            raise FileError(
                f"{self.name}: rows {start} to {stop - 1} cannot be read: it has only {start + rows.shape[0]} rows now."
            )
        return rows


def _file_part(name: str, labels: bool) -> OpenedPart:
    """Return a file of the usual kinds (.npy, .h5, .fvecs, .npz, .csv …), or one part of it: ``data.h5:images``."""
    path, part = split_part(name)
    # Absolute, because workers need not have the same working directory.
    name = str(path.resolve()) + (f":{part}" if part else "")
    return OpenedPart(name, partial(_open_file, name, labels))


def _open_file(name: str, labels: bool) -> Any:
    path, part = split_part(name)
    suffix = path.suffix.lower()
    if suffix == ".parquet":
        check_there(path)
        return ParquetRows(path, part, labels)
    if suffix in TABLES or suffix == ".npz":
        check_there(path)
        return _whole_file(name, labels, path.stat().st_mtime_ns)
    return open_part(name, "y" if labels else "X")


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


def _zarr_part(path: Path, key: str, default_key: str) -> OpenedPart:
    """Return a zarr array: a folder, and the array's key if the folder is a group."""
    try:
        import zarr
    except ImportError as error:
        raise FileError(f"Reading {path} needs zarr: pip install '.[files]'.") from error
    folder, name = str(path.resolve()), f"{path}:{key}" if key else str(path)
    try:
        found: Any = zarr.open(folder, mode="r")
    except Exception as error:  # zarr raises its own types
        raise FileError(f"{path} is not a zarr array or group: {one_line(error)}") from error
    if not key and not hasattr(found, "shape"):
        keys = [name for name, node in found.members(max_depth=None) if hasattr(node, "shape")]
        key = keys[0] if len(keys) == 1 else default_key
    return OpenedPart(name, partial(_open_zarr, folder, key))


def _open_zarr(folder: str, key: str) -> Any:
    import zarr

    found: Any = zarr.open(folder, mode="r")
    if key and key not in found:
        raise FileError(f"{folder} has no array '{key}'.")
    return found[key] if key else found


def _mapped_part(array: np.memmap) -> OpenedPart:
    """Return rows of a memory map, sent as the file's name and the offset in it."""
    root: Any = array
    while isinstance(root.base, np.memmap):
        root = root.base
    offset = int(root.offset) + array.__array_interface__["data"][0] - root.__array_interface__["data"][0]
    name = str(root.filename)
    part = OpenedPart(name, partial(_open_map, name, offset, array.shape, array.strides, array.dtype), array.shape[0])
    part.cheap = True
    return part


def _open_map(name: str, offset: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: Any) -> Any:
    raw = np.memmap(name, dtype=np.uint8, mode="r")
    return np.ndarray(shape, dtype, buffer=raw, offset=offset, strides=strides)


def _itself(array: Any) -> Any:
    """Open an object that reads its own slices and can be sent without its rows, such as a zarr array."""
    return array


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
    run = uuid.uuid4().hex  # workers keep results by number and this: those of two sources must not be mixed up
    numbered = [(function, k, run) for k, function in enumerate(functions)]
    facts = list(FitContext(executor).run(_count_rows, None, numbered))
    labeled = {has_labels for _, has_labels in facts}
    if len(labeled) > 1:
        raise FileError("Some chunks come with labels and others without.")

    def column(place: int) -> Rows:
        return joined_rows(
            [
                OpenedPart(f"chunk {called[1]}", partial(_column, called, place), n_rows)
                for called, (n_rows, _) in zip(numbered, facts, strict=True)
            ]
        )

    return Source(column(0), column(1) if labeled == {True} else None)


NumberedFunction = tuple[Callable[[], Any], int, str]
"""A function that returns rows, or rows and labels; its number and the name of its source."""


def _count_rows(shared: None, called: NumberedFunction) -> tuple[int, bool]:
    """Run one task: the number of rows that a function returns, and whether it returns labels."""
    try:
        rows, labels = _call(called)
    except Exception as error:
        raise FileError(f"chunk {called[1]} cannot be read: {one_line(error)}") from error
    return int(rows.shape[0]), labels is not None


def _column(called: NumberedFunction, place: int) -> Any:
    return _call(called)[place]


# The last results of functions: a task that has read the rows of a chunk asks for its labels next.
_recent: OrderedDict[tuple[str, int], tuple[Any, Any]] = OrderedDict()
_recent_lock = threading.Lock()
_RECENT_SIZE = 4


def _call(called: NumberedFunction) -> tuple[Any, Any]:
    """Return rows and labels (or None) of a function, which is called unless its result is among the last ones."""
    function, number, run = called
    with _recent_lock:
        if (run, number) in _recent:
            _recent.move_to_end((run, number))
            return _recent[run, number]
    pair = as_pair(function())
    with _recent_lock:
        _recent[run, number] = pair
        while len(_recent) > _RECENT_SIZE:
            _recent.popitem(last=False)
    return pair


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
        return _mapped_part(data)
    if module.startswith("h5py"):
        return _file_part(f"{data.file.filename}:{data.name.strip('/')}", labels=len(data.shape) == 1)
    if module.startswith("dask."):
        known = not np.isnan(data.shape[0])
        return DaskPart(data if known else data.compute_chunk_sizes())
    if module.startswith("zarr"):
        return OpenedPart(f"the zarr array {data.name}", partial(_itself, data))
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
            return [_zarr_part(folder, key, "y" if labels else "X")]
        tables = sorted(folder.rglob("*.parquet"))
        if not tables:
            raise FileError(f"{folder} is a folder without Parquet files, and no zarr array.")
        return [_file_part(f"{table}:{key}" if key else str(table), labels) for table in tables]
    return [_file_part(name, labels)]
