"""Parts of a data source on disk: a worker gets the path and the row numbers, and opens the file itself."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from hashlearn.files.arrays import FileError, check_there, one_line, open_part, split_part
from hashlearn.files.read import read_labels
from hashlearn.files.tables import TABLES, ParquetRows, table_features


class LazyPart:
    """Base of parts that open a file when they are first read. The open file is not sent to other processes."""

    name: str
    cheap = False
    first: int
    n_rows: int

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

    def take(self, rows: NDArray[np.integer]) -> Any:
        """Read single rows by number. Only cheap parts are asked, and they read views: other rows stay on disk."""
        return np.array(self.read(0, self.n_rows)[rows])


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
            # Every task opens its file anew. To map it takes much less time than to parse its header again.
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
    return table_features(path, part) if path.suffix.lower() in TABLES else open_part(name, "X")


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
            raise FileError(f"Reading {path} needs zarr: pip install 'hashlearn[files]'.") from error
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
        self.shape, self.strides, self.dtype = array.shape, array.strides, array.dtype
        self.n_rows, self.first = int(array.shape[0]), 0

    def open(self) -> Any:
        raw = np.memmap(self.name, dtype=np.uint8, mode="r")
        return np.ndarray(self.shape, self.dtype, buffer=raw, offset=self.offset, strides=self.strides)
