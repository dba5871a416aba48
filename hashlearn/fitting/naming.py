"""What users call their data (arrays, file names, patterns, functions, Dask collections, iterables) as a source."""

from __future__ import annotations

import glob
import uuid
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from hashlearn.files.arrays import SUFFIXES, FileError, split_part
from hashlearn.fitting.executors import run
from hashlearn.fitting.parts import (
    ArrayPart,
    CalledPart,
    DaskPart,
    FilePart,
    MappedPart,
    ObjectPart,
    ParquetPart,
    Part,
    ZarrPart,
    as_pair,
    called,
)
from hashlearn.fitting.sources import AnySource, PartList, Source, Stream
from hashlearn.labels import sliceable_labels


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
    >>> from hashlearn.fitting import as_source
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
    labels = None if y is None else PartList(_label_parts(y, chunked=isinstance(X, (list, tuple))))
    return Source(PartList(_parts(X, labels=False)), labels)


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


def _label_parts(y: Any, chunked: bool) -> list[Part]:
    """Parts of labels. A list of lists is a list of chunks where the rows are ``chunked`` too, and tags elsewhere."""
    tags = (set, frozenset) if chunked else (set, frozenset, list)
    if isinstance(y, (list, tuple)) and any(isinstance(item, tags) for item in y):
        return [_in_memory(y, "the labels", labels=True)]
    return _parts(y, labels=True)


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
    return [_in_memory(data, "the labels" if labels else "the array", labels)]


def _is_file_name(name: str) -> bool:
    return split_part(name)[0].suffix.lower() in SUFFIXES or Path(name).is_dir()


def _in_memory(data: Any, name: str, labels: bool = False) -> Part:
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
