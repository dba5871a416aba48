"""Binary array files: .npy, .npz (dense or SciPy sparse), .fvecs/.bvecs/.ivecs and .h5, opened without a copy.

Of an array in a .npz file only blocks of rows are read: a small compressed file may hold an array of any size.
"""

from __future__ import annotations

import io
import math
import os
import re
import zipfile
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from hashlearn.messages import kind_of_file, one_line


class FileError(ValueError):
    """A file that cannot be used, said in one sentence that names it."""


_SPARSE_KEYS = {"format", "data", "shape"}
_DAMAGE = (OSError, ValueError, EOFError, zlib.error, zipfile.BadZipFile, RuntimeError, NotImplementedError)
# NumPy's headers have some hundred bytes. Of a member that claims more, no more is read.
_MOST_HEADER_BYTES = 2**16
_READ_BYTES = 2**18


class NpzArray:
    """One array of a .npz file. Slices of rows are read from the file, best in order; ``[...]`` reads all rows."""

    def __init__(self, path: Path, key: str) -> None:
        self._path, self._key = path, key
        try:
            self._archive = zipfile.ZipFile(path)
            self._member = self._archive.getinfo(key if key in self._archive.namelist() else f"{key}.npy")
            self.shape, self._by_column, self.dtype, self._offset = _header(self._archive, self._member)
        except _DAMAGE as error:
            raise FileError(f"{path} cannot be read: {one_line(error)}") from error
        if self.dtype.hasobject:
            raise FileError(f"{path} holds Python objects, which are never unpickled; save numbers or strings instead.")
        self.ndim = len(self.shape)
        self._bytes = math.prod(self.shape) * self.dtype.itemsize
        if self._member.file_size != self._offset + self._bytes:
            raise FileError(
                f"{path} is damaged: {key} should have {self._bytes:,} bytes by its header, and has "
                f"{self._member.file_size - self._offset:,}."
            )
        self._stream: Any = None
        self._whole: NDArray[Any] | None = None

    def __getitem__(self, rows: Any) -> NDArray[Any]:
        """Read the rows of a slice with step 1, or the whole array for ``...``."""
        if rows is Ellipsis:
            return self._read_whole()
        if self._by_column:  # rows are spread over the whole member
            if self._whole is None:
                self._whole = self._read_whole()
            return self._whole[rows]
        start, stop, _ = rows.indices(self.shape[0])
        count, row_bytes = max(stop - start, 0), math.prod(self.shape[1:]) * self.dtype.itemsize
        return self._values(start * row_bytes, count * row_bytes).reshape(count, *self.shape[1:])

    def _read_whole(self) -> NDArray[Any]:
        check_memory(self._path, self._bytes)
        return self._values(0, self._bytes).reshape(self.shape, order="F" if self._by_column else "C")

    def _values(self, start: int, size: int) -> NDArray[Any]:
        """Read ``size`` bytes of values, of which the first is number ``start``."""
        buffer = np.empty(size, dtype=np.uint8)
        try:
            if self._stream is None:
                # The header is read, not skipped: zipfile checks no checksum after a skip.
                self._stream = self._archive.open(self._member)
                self._stream.read(self._offset)
            if self._stream.tell() != self._offset + start:
                self._stream.seek(self._offset + start)
            # Read in short pieces: zipfile joins what it unpacks piece by piece, which takes long for many bytes.
            for done in range(0, size, _READ_BYTES):
                piece = self._stream.read(min(_READ_BYTES, size - done))
                buffer[done : done + _READ_BYTES] = np.frombuffer(piece, dtype=np.uint8)
            if self._stream.tell() == self._member.file_size:
                self._stream.read(1)  # at the end zipfile compares the checksum
        except _DAMAGE as error:
            self._stream = None
            raise FileError(f"{self._path} cannot be read: {one_line(error)}") from error
        return buffer.view(self.dtype) if size else np.empty(0, dtype=self.dtype)


def npz_keys(path: Path) -> list[str]:
    """Return the names of the arrays of a .npz file."""
    with zipfile.ZipFile(path) as archive:
        return [name.removesuffix(".npy") for name in archive.namelist()]


def is_sparse(keys: list[str]) -> bool:
    """Return whether these are the arrays of a sparse matrix of scipy."""
    return set(keys) >= _SPARSE_KEYS


def read_sparse(path: Path) -> Any:
    """Return the sparse matrix that a .npz file of scipy holds, by rows."""
    with zipfile.ZipFile(path) as archive:
        check_memory(path, sum(member.file_size for member in archive.infolist()))
    matrix = sparse.load_npz(path).tocsr()
    # Indices outside the matrix would crash the compiled loops that trust them.
    matrix.check_format(full_check=True)
    return matrix


def _header(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> tuple[Any, bool, Any, int]:
    """Shape, whether columns come first, type, and the number of bytes of the header of an array."""
    with archive.open(member) as stream:
        start = io.BytesIO(stream.read(_MOST_HEADER_BYTES))
    version = np.lib.format.read_magic(start)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, by_column, dtype = read(start)
    return shape, by_column, dtype, start.tell()


def read_whole(rows: Any, path: Path) -> Any:
    """Read all rows of what ``open_part`` has opened; FileError if they take more than the free memory."""
    if isinstance(rows, np.ndarray) or sparse.issparse(rows):
        return rows
    check_memory(path, math.prod(rows.shape) * rows.dtype.itemsize)
    return rows[...]


def check_memory(path: Path, size: int) -> None:
    """FileError if the bytes that are to be read at once are more than the free memory."""
    free = _free_memory()
    if free is not None and size > free:
        raise FileError(
            f"{path} takes {size / 1e6:,.0f} MB unpacked, and only {free / 1e6:,.0f} MB of memory are free: save the "
            "array as .npy, of which only some rows are in memory at a time."
        )


def _free_memory() -> int | None:
    """Return the bytes of memory that programs can have, or of all memory; None on systems that do not tell."""
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, AttributeError, IndexError):
        return None


EXTRA = "pip install '.[files]'"
SUFFIXES = (".npy", ".npz", ".csv", ".tsv", ".txt", ".parquet", ".fvecs", ".bvecs", ".ivecs", ".h5", ".hdf5")
_CHECKED_ROWS = 100_000
# How the names of arrays often begin that are looked for, to advise people whose file holds several.
_USUAL_NAMES = {
    "X": ("x", "feature", "embedding", "vector"),
    "codes": ("code",),
    "ids": ("id",),
    "y": ("y", "label", "class", "target"),
}


def split_part(name: str | Path) -> tuple[Path, str | None]:
    """Return the path and, after a colon, the part of the file that is meant."""
    text = str(name)
    # A colon means something only behind a known kind of file, so drive letters and odd names stay whole.
    ends = [found.start() for found in re.finditer(":", text) if Path(text[: found.start()]).suffix.lower() in SUFFIXES]
    # With the names of many columns the text may be too long for a path: os.path.exists says no, Path.exists fails.
    if ends and not os.path.exists(text):
        return Path(text[: ends[0]]), text[ends[0] + 1 :]
    return Path(text), None


def check_there(path: Path) -> None:
    """FileError unless the path is a file with something in it."""
    if path.is_dir():
        raise FileError(f"{path} is a folder, not a file.")
    if not path.exists():
        raise FileError(f"{path} does not exist.")
    if path.stat().st_size == 0:
        raise FileError(f"{path} is empty.")


def open_part(name: str | Path, default_key: str) -> Any:
    """Return the array that a binary file holds: a memmap, a CSR matrix, an open HDF5 data set or array of a .npz file.

    Only the rows of a slice are read of the last two, and all rows by ``[...]``.

    ``default_key`` is the member that is meant when a file holds several and the name picks none.
    """
    path, part = split_part(name)
    check_there(path)
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        raise FileError(f"{path} has no known ending; known are {', '.join(SUFFIXES)}.")
    try:
        return reader(path, part, default_key)
    except FileError:
        raise
    except (OSError, ValueError, EOFError, KeyError, TypeError, zipfile.BadZipFile) as error:
        raise FileError(f"{path} cannot be read: {one_line(error)}") from error


def but_is(path: Path, unless: str = "?") -> str:
    """Return the end of a sentence that says what a file is, if that is known and not what it should be."""
    kind = kind_of_file(path)
    return "" if kind is None or unless in kind else f"; it is {kind}"


def _read_npy(path: Path, part: str | None, default_key: str) -> NDArray[Any]:
    if part is not None:
        raise FileError(f"{path} holds one array, so it has no part '{part}'.")
    with path.open("rb") as stream:
        if stream.read(6) != b"\x93NUMPY":
            raise FileError(f"{path} is not a .npy file: it does not begin with NumPy's magic bytes{but_is(path)}.")
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except ValueError as error:
        if "Python objects" in str(error):
            raise FileError(
                f"{path} holds Python objects, which are never unpickled; save numbers or strings instead."
            ) from error
        if "mmap length" in str(error):
            raise FileError(f"{path} is cut short: it holds fewer bytes than its header promises.") from error
        raise FileError(f"{path} is a damaged .npy file: {one_line(error)}") from error


def _read_npz(path: Path, part: str | None, default_key: str) -> Any:
    if not zipfile.is_zipfile(path):
        what = but_is(path, "zip archive")
        raise FileError(f"{path} is not a .npz file, or it is cut short: it is no zip archive{what}.")
    keys = npz_keys(path)
    if part is None and is_sparse(keys):
        return read_sparse(path)
    return NpzArray(path, _chosen(path, keys, part, default_key))


def _chosen(path: Path, keys: list[str], part: str | None, default_key: str) -> str:
    """Return the member that is meant: the one named, the only one, or the usual one."""
    if part is not None and part not in keys:
        raise FileError(f"{path} has no part '{part}'; it has {listed(keys)}.")
    if part is not None:
        return part
    if len(keys) == 1:
        return keys[0]
    if default_key in keys:
        return default_key
    likely = next((key for key in keys if key.lower().startswith(_USUAL_NAMES.get(default_key, ()))), "NAME")
    raise FileError(f"{path} has several parts ({listed(keys)}); choose one, as in {path}:{likely}.")


def listed(names: Sequence[str], most: int = 8) -> str:
    """Return the first names with commas between them."""
    return ", ".join(names[:most]) + (" …" if len(names) > most else "") or "none"


def _read_vecs(path: Path, part: str | None, default_key: str) -> NDArray[Any]:
    """TEXMEX vectors: each row is its length as int32 and then that many values."""
    item = np.dtype({".fvecs": "<f4", ".ivecs": "<i4", ".bvecs": "u1"}[path.suffix.lower()])
    if part is not None:
        raise FileError(f"{path} holds one array, so it has no part '{part}'.")
    size = path.stat().st_size
    width = int(np.fromfile(path, dtype="<i4", count=1)[0]) if size >= 4 else 0
    if width <= 0:
        raise FileError(f"{path} is not a {path.suffix} file: its first row claims {width} values{but_is(path)}.")
    row_bytes = 4 + width * item.itemsize
    if size % row_bytes:
        kind = kind_of_file(path)
        if kind is not None:
            raise FileError(f"{path} is not a {path.suffix} file: it is {kind}.")
        raise FileError(
            f"{path} is damaged or cut short: {size} bytes are not whole rows of {width} values ({row_bytes} bytes)."
        )
    raw = np.memmap(path, dtype=np.uint8, mode="r", shape=(size // row_bytes, row_bytes))
    # A sample is enough: a row of another length shifts every row behind it.
    sample = np.unique(np.linspace(0, len(raw) - 1, num=min(len(raw), _CHECKED_ROWS)).astype(np.intp))
    lengths = np.ascontiguousarray(raw[sample, :4]).view("<i4")[:, 0]
    if np.any(lengths != width):
        row = int(sample[np.flatnonzero(lengths != width)[0]])
        raise FileError(f"{path} is damaged: row {row} does not have {width} values as the first row has.")
    return raw[:, 4:].view(item)


def _read_h5(path: Path, part: str | None, default_key: str) -> Any:
    try:
        import h5py
    except ImportError as error:
        raise FileError(f"Reading {path} needs h5py: {EXTRA}.") from error
    if not h5py.is_hdf5(path):
        raise FileError(f"{path} is not an HDF5 file{but_is(path)}.")
    file = h5py.File(path, "r")
    keys: list[str] = []
    file.visititems(lambda key, node: keys.append(key) if isinstance(node, h5py.Dataset) else None)
    dataset = file[_chosen(path, keys, part.strip("/") if part else None, default_key)]
    if not h5py.check_string_dtype(dataset.dtype):
        return dataset
    check_memory(path, 8 * dataset.size)  # as many references to strings
    return dataset.asstr()[...].astype(str)


READERS: dict[str, Callable[[Path, str | None, str], Any]] = {
    ".npy": _read_npy,
    ".npz": _read_npz,
    ".fvecs": _read_vecs,
    ".bvecs": _read_vecs,
    ".ivecs": _read_vecs,
    ".h5": _read_h5,
    ".hdf5": _read_h5,
}
