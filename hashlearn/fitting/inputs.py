"""Make a source of what users pass: arrays, file names, patterns, functions, Dask collections or iterables."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from hashlearn.files.arrays import SUFFIXES, FileError, split_part
from hashlearn.files.shards import shard_names
from hashlearn.fitting.dask_parts import DaskPart
from hashlearn.fitting.executors import run
from hashlearn.fitting.file_parts import FilePart, MappedPart, ObjectPart, ParquetPart, ZarrPart
from hashlearn.fitting.parts import ArrayPart, FunctionPart, SourcePart, as_pair, call_for_rows, joined_parts
from hashlearn.fitting.sources import AnySource, Source, Stream
from hashlearn.labels import sliceable_labels


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
    >>> from hashlearn.fitting import as_source
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
    if _is_dask_frame(X):
        X, y = _frame_columns(X, y)
    if y is None:
        pairs = _pairs(X, executor)
        if pairs is not None:
            return pairs
    labels = None if y is None else joined_parts(_label_parts(y, chunked=isinstance(X, (list, tuple))))
    return Source(joined_parts(_parts(X, labels=False)), labels)


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
        rows = joined_parts([_object_part(rows, "the chunks") for rows, _ in pairs])
        if all(labels is None for _, labels in pairs):
            return Source(rows, None)
        return Source(rows, joined_parts([_object_part(labels, "the chunks") for _, labels in pairs]))
    return None


def _function_source(functions: list[Callable[[], Any]], executor: Any) -> Source:
    """Every function is called once, to count its rows."""
    prefix = uuid.uuid4().hex[:8]  # workers keep results by name: those of two sources must not be mixed up
    names = [f"chunk {k} [{prefix}]" for k in range(len(functions))]
    facts = list(run(_count_rows, None, list(zip(functions, names, strict=True)), executor, None))
    labeled = {has_labels for _, has_labels in facts}
    if len(labeled) > 1:
        raise FileError("Some chunks come with labels and others without.")

    def column(k: int) -> SourcePart:
        counted = zip(functions, names, facts, strict=True)
        return joined_parts([FunctionPart(function, k, name, 0, n_rows) for function, name, (n_rows, _) in counted])

    return Source(column(0), column(1) if labeled == {True} else None)


def _count_rows(shared: None, task: tuple[Callable[[], Any], str]) -> tuple[int, bool]:
    """One task: the number of rows that a function returns, and whether it returns labels."""
    rows, labels = call_for_rows(*task)
    return int(rows.shape[0]), labels is not None


def _label_parts(y: Any, chunked: bool) -> list[SourcePart]:
    """Return the parts of labels. A list of lists holds chunks if the rows are ``chunked``, too, and tags otherwise."""
    tags = (set, frozenset) if chunked else (set, frozenset, list)
    if isinstance(y, (list, tuple)) and any(isinstance(item, tags) for item in y):
        return [_object_part(y, "the labels", labels=True)]
    return _parts(y, labels=True)


def _parts(data: Any, labels: bool) -> list[SourcePart]:
    if isinstance(data, (str, Path)):
        return _files(str(data), labels)
    if isinstance(data, (list, tuple)) and data:
        named = all(isinstance(item, (str, Path)) for item in data)
        # A list of strings may hold class names; file names have a known ending or are folders.
        if named and (not labels or all(_is_file_name(str(item)) for item in data)):
            return [part for item in data for part in _files(str(item), labels)]
        if not named and not np.isscalar(data[0]) and data[0] is not None:
            return [part for item in data for part in _parts(item, labels)]
    return [_object_part(data, "the labels" if labels else "the array", labels)]


def _is_file_name(name: str) -> bool:
    return split_part(name)[0].suffix.lower() in SUFFIXES or Path(name).is_dir()


def _object_part(data: Any, name: str, labels: bool = False) -> SourcePart:
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
        return ArrayPart(sliceable_labels(data), name)
    if sparse.issparse(data):
        return ArrayPart(data.tocsr(), name)
    # A list has no shape; a data frame has one, but a type for each of its columns.
    plain = hasattr(data, "shape") and hasattr(data, "dtype")
    return ArrayPart(data if plain else np.asarray(data), name)


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


def _files(name: str, labels: bool) -> list[SourcePart]:
    """Return the files of a name, pattern or folder, sorted by name."""
    return [one for file in shard_names(name) for one in _file(file, labels)]


def _file(name: str, labels: bool) -> list[SourcePart]:
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
