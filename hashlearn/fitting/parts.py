"""Parts of a data source: readers of rows that can be sent to another process, as paths and row numbers where possible.

A part has ``n_rows``, a ``name`` for messages, ``read(start, stop)`` and ``cut(start, stop)``, the part of those rows
alone. A cut is read from its beginning to its end by one task, so it may keep what it has opened or decoded last.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from hashlearn.files.arrays import FileError, check_there, one_line, open_part, split_part
from hashlearn.files.read import read_labels
from hashlearn.files.tables import TABLES, ParquetRows, table_features
from hashlearn.labels import label_array


class Part(Protocol):
    """Rows that can be read, here or in another process."""

    name: str
    n_rows: int
    cheap: bool
    """Whether single rows can be read without reading much else."""

    def read(self, start: int, stop: int) -> Any: ...

    def cut(self, start: int, stop: int) -> Part: ...


class ArrayPart:
    """Anything in memory, or lazy, that can be sliced by rows; only the slice that a cut needs travels."""

    def __init__(self, array: Any, name: str = "the array", cheap: bool = True) -> None:
        self.array, self.name, self.cheap = array, name, cheap
        self.n_rows = int(array.shape[0])

    def read(self, start: int, stop: int) -> Any:
        return self.array[start:stop]

    def take(self, places: NDArray[np.integer]) -> list[Any]:
        if isinstance(self.array, np.ndarray) or sparse.issparse(self.array):
            return [self.array[places]]
        # Other objects that can be sliced by rows need not accept row numbers.
        return [np.array(self.read(int(place), int(place) + 1)) for place in places]

    def cut(self, start: int, stop: int) -> ArrayPart:
        return ArrayPart(self.array[start:stop], self.name, self.cheap)


class LazyPart:
    """Base of parts that open something when they are first read; what is open stays behind when they are sent."""

    name: str
    cheap = False
    first: int
    n_rows: int

    def __init__(self) -> None:
        self._opened: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": None}

    def cut(self, start: int, stop: int) -> Self:
        part = self.__class__.__new__(self.__class__)
        part.__dict__.update(self.__getstate__(), first=self.first + start, n_rows=stop - start)
        return part

    def open(self) -> Any:
        raise NotImplementedError

    def read(self, start: int, stop: int) -> Any:
        start, stop = self.first + start, self.first + stop
        try:
            if self._opened is None:
                self._opened = self.open()
            rows = self._opened[start:stop]
        except Exception as error:  # every reader has its own kinds, and each must name the file and the rows
            raise FileError(f"{self.name}: rows {start} to {stop - 1} cannot be read: {one_line(error)}") from error
        if rows.shape[0] != stop - start:
            raise FileError(
                f"{self.name}: rows {start} to {stop - 1} cannot be read: it has only {start + rows.shape[0]} rows now."
            )
        return rows

    def take(self, places: NDArray[np.integer]) -> list[Any]:
        """Of cheap ones: what they open gives views, so the rows between are not touched."""
        return [np.array(self.read(0, self.n_rows)[places])]


class FilePart(LazyPart):
    """A file of the usual kinds (.npy, .h5, .fvecs, .npz, .csv …), or one part of it: ``data.h5:images``."""

    def __init__(self, name: str, labels: bool) -> None:
        super().__init__()
        path, part = split_part(name)
        # Workers need not have the same working directory.
        self.name = str(path.resolve()) + (f":{part}" if part else "")
        self.labels, self.first = labels, 0
        self._mapped: MappedPart | None = None
        rows = self.open()
        self.n_rows = int(rows.shape[0])
        self.cheap = isinstance(rows, np.memmap)
        if self.cheap:
            # Every block opens its file anew, and finding out what is in it takes much longer than mapping it.
            self._mapped, self._stamp = MappedPart(rows), _stamp(rows.filename)

    def open(self) -> Any:
        if self._mapped is not None and self._stamp == _stamp(self._mapped.name):
            return self._mapped.open()
        path, _ = split_part(self.name)
        suffix = path.suffix.lower()
        if suffix in TABLES or suffix == ".npz":
            check_there(path)
            return _whole_file(self.name, self.labels, path.stat().st_mtime_ns)
        return open_part(self.name, "y" if self.labels else "X")


def _stamp(path: str) -> tuple[int, int] | None:
    """What changes with a file; None when it is gone."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


@lru_cache(maxsize=4)
def _whole_file(name: str, labels: bool, changed: int) -> Any:
    """Files that can only be read whole are kept for the next cuts of them."""
    if labels:
        return read_labels(name, missing=True)
    path, part = split_part(name)
    return table_features(path, part) if path.suffix.lower() in TABLES else open_part(name, "X")


class ParquetPart(LazyPart):
    """A Parquet file: some of its columns, a batch of rows at a time."""

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
    """A zarr array: a folder, and the array's place in it if the folder is a group."""

    def __init__(self, path: Path, key: str | None, default_key: str) -> None:
        super().__init__()
        try:
            import zarr
        except ImportError as error:
            raise FileError(f"Reading {path} needs zarr: pip install 'hashlearn[files]'.") from error
        self.path, self.key, self.first = str(path.resolve()), key, 0
        self.name = f"{path}:{key}" if key else str(path)
        try:
            found = zarr.open(self.path, mode="r")
        except Exception as error:  # zarr has its own kinds
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
    """Something that reads its own slices and can be sent without its rows, as a zarr array can."""

    def __init__(self, array: Any, name: str) -> None:
        super().__init__()
        self.array, self.name, self.first, self.n_rows = array, name, 0, int(array.shape[0])

    def open(self) -> Any:
        return self.array


class MappedPart(LazyPart):
    """Rows of a memory map, sent as its file and the place in it."""

    cheap = True

    def __init__(self, array: np.memmap) -> None:
        super().__init__()
        root: Any = array
        while isinstance(root.base, np.memmap):
            root = root.base
        self.name = str(root.filename)
        self.offset = int(root.offset) + array.__array_interface__["data"][0] - root.__array_interface__["data"][0]
        self.shape, self.strides, self.dtype = array.shape, array.strides, array.dtype
        self.n_rows, self.first = int(array.shape[0]), 0

    def open(self) -> Any:
        raw = np.memmap(self.name, dtype=np.uint8, mode="r")
        return np.ndarray(self.shape, self.dtype, buffer=raw, offset=self.offset, strides=self.strides)


class DaskPart:
    """A Dask array. A cut carries only the graph of its own rows and computes them where it is read."""

    cheap = False

    def __init__(self, array: Any, name: str = "the Dask array") -> None:
        self.array, self.name = array, name
        self.n_rows = int(array.shape[0])
        self._rows: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_rows": None}

    def cut(self, start: int, stop: int) -> Part:
        import dask

        rows = self.array[start:stop]
        if held := _futures(self.array):
            # The cluster holds these rows: it makes the cut, and whoever reads it asks for that.
            return HeldPart(held[0].client.compute(rows), self.name, 0, stop - start)
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


class HeldPart:
    """Rows that a Dask cluster computes or holds already; a task gets them as an argument, from the cluster itself."""

    cheap = False

    def __init__(self, future: Any, name: str, first: int, n_rows: int) -> None:
        self.future, self.name, self.first, self.n_rows = future, name, first, n_rows
        self.rows: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "future": None, "rows": None}

    def cut(self, start: int, stop: int) -> HeldPart:
        return HeldPart(self.future, self.name, self.first + start, stop - start)

    def read(self, start: int, stop: int) -> Any:
        if self.rows is None and self.future is None:
            raise FileError(f"{self.name} is held by a Dask cluster, so give its client as the executor.")
        rows = self.future.result() if self.rows is None else self.rows
        return rows[self.first + start : self.first + stop]


class CalledPart:
    """One column (rows or labels) of what a function returns; the last few results are kept for the other column."""

    cheap = False

    def __init__(self, function: Callable[[], Any], column: int, token: str, first: int, n_rows: int) -> None:
        self.function, self.column, self.token = function, column, token
        self.first, self.n_rows = first, n_rows
        self.name = token

    def cut(self, start: int, stop: int) -> CalledPart:
        return CalledPart(self.function, self.column, self.token, self.first + start, stop - start)

    def read(self, start: int, stop: int) -> Any:
        pair = called(self.function, self.token)
        return pair[self.column][self.first + start : self.first + stop]


_RECENT: OrderedDict[str, tuple[Any, Any]] = OrderedDict()
_RECENT_LOCK = threading.Lock()


def called(function: Callable[[], Any], token: str) -> tuple[Any, Any]:
    """(rows, labels or None) that a function returns."""
    with _RECENT_LOCK:
        if token in _RECENT:
            _RECENT.move_to_end(token)
            return _RECENT[token]
    try:
        pair = as_pair(function())
    except Exception as error:
        raise FileError(f"{token} cannot be read: {one_line(error)}") from error
    with _RECENT_LOCK:
        _RECENT[token] = pair
        while len(_RECENT) > 4:
            _RECENT.popitem(last=False)
    return pair


def as_pair(chunk: Any) -> tuple[Any, Any]:
    """A chunk as (rows, labels or None)."""
    rows, labels = chunk if isinstance(chunk, (tuple, list)) and len(chunk) == 2 else (chunk, None)
    if not hasattr(rows, "shape"):
        rows = np.asarray(rows)
    if labels is not None and not hasattr(labels, "shape"):
        labels = label_array(labels)
    if len(rows.shape) != 2:
        raise FileError(f"A chunk must be rows (n, features), or such rows and their labels. Got shape {rows.shape}.")
    if labels is not None and labels.shape[0] != rows.shape[0]:
        raise FileError(f"A chunk has {rows.shape[0]} rows and {labels.shape[0]} labels.")
    return rows, labels
