"""The bytes of an index file.

    16 bytes   b"hashlearn index\\n"
     4 bytes   length of the header, little-endian
     4 bytes   CRC-32 of the header
     header    JSON, padded with spaces so that the codes begin at a multiple of 64
     codes     rows x ceil(n_bits / 8) bytes in the order of the ids, then zeros up to a multiple of 64
     ids       rows x id_bytes bytes, little-endian, increasing; none if id_bytes is 0: first_id, first_id + 1, ...
     centers   n_lists x ceil(n_bits / 8) bytes: the centers of the lists of ivf
     lists     rows x 2 bytes, little-endian: the list of each row, if n_lists is not 0
    32 bytes   SHA-256 of everything before

The header holds kind, n_bits, bitorder, settings, rows, next_id, first_id, id_bytes, n_lists and version.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import zlib
from collections.abc import Callable, Iterable
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.codes import MAX_BITS, BitOrder, check_codes, n_bytes
from hashlearn.index.sorted_rows import SomeIds
from hashlearn.messages import kind_of_bytes
from hashlearn.progress import Listener, listening, report
from hashlearn.typing import PackedCodes
from hashlearn.wholefile import regular_file, saved, sync_folder

VERSION = 1
_MAGIC = b"hashlearn index\n"
_START = len(_MAGIC) + 8
_ALIGN = 64
_DIGEST = 32
_CHUNK = 16 * 2**20
_MAX_HEADER = 2**20
_LONG_HEADER = 1024  # of a file that is written in blocks, because its header is written last
_SYNCED = 2**28  # bytes between two moments from which an interrupted call can go on


class IndexFileError(ValueError):
    """A file is damaged, or is not an index that this version of hashlearn can read."""


class StoredIndex(NamedTuple):
    """The parts of an index file."""

    header: dict[str, Any]
    codes: PackedCodes
    ids: SomeIds
    centers: PackedCodes
    lists: NDArray[np.uint16]


def write(
    path: str | os.PathLike[str],
    header: dict[str, Any],
    codes: PackedCodes,
    ids: SomeIds,
    centers: PackedCodes,
    lists: NDArray[np.uint16],
) -> None:
    """Write an index file. It replaces the file at ``path`` in one step, so no reader sees a part of it."""
    id_bytes = 0 if isinstance(ids, range) else ids.itemsize
    full = {"rows": len(codes), "first_id": int(ids[0]) if len(ids) else 0, "id_bytes": id_bytes}
    head = _head({**header, **full, "n_lists": len(centers)})
    parts: list[Any] = [head, np.ascontiguousarray(codes), bytes(-codes.nbytes % _ALIGN)]
    parts += [] if isinstance(ids, range) else [np.ascontiguousarray(ids, dtype=f"<u{id_bytes}")]
    parts += [np.ascontiguousarray(centers), np.ascontiguousarray(lists, dtype="<u2")]
    with saved(path, "index", IndexFileError) as file:
        digest = hashlib.sha256()
        for part in parts:
            if len(part):
                view = memoryview(part).cast("B")
                digest.update(view)
                file.write(view)
        file.write(digest.digest())


def build_file(
    path: str | os.PathLike[str],
    n_bits: int,
    blocks: Callable[[int], Iterable[PackedCodes]],
    bit_order: BitOrder = "big",
    progress: Listener | None = None,
) -> int:
    """Write the file of a flat index from codes that come in blocks, in bounded memory; ids are 0, 1, 2, ...

    The rows go to ``path`` + ".part", which becomes ``path`` at the end. If a call is interrupted, the same call goes
    on where it was.

    Parameters
    ----------
    path : str or path-like
    n_bits : int
    blocks : callable
        ``blocks(first)`` returns an iterable of uint8 arrays (rows, bytes) with the codes from row ``first`` on.
    bit_order : {"big", "little"}, default="big"
    progress : callable, default=None
        Called with (phase, rows done, 0).

    Returns
    -------
    int
        The number of rows.
    """
    width, part = n_bytes(n_bits), f"{os.path.realpath(path)}.part"
    made: dict[str, Any] = {"n_bits": n_bits, "bitorder": bit_order, "kind": "flat", "settings": {}}
    with listening(progress), open(part, "r+b" if os.path.exists(part) else "w+b") as file:
        rows = synced = _rows_of_part(file, made, part)
        file.seek(_LONG_HEADER + rows * width)
        file.truncate()
        for block in blocks(rows):
            file.write(np.ascontiguousarray(check_codes(block, n_bits, bit_order)))
            rows += len(block)
            report("write the index", rows, 0)
            if (rows - synced) * width >= _SYNCED:
                synced = _sync(file, made, rows)
        file.write(bytes(-rows * width % _ALIGN))
        _sync(file, made, rows)
        file.seek(0)
        file.write(hashlib.file_digest(file, "sha256").digest())
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, os.path.realpath(path))
    sync_folder(os.path.dirname(part))
    return rows


def _sync(file: IO[bytes], made: dict[str, Any], rows: int) -> int:
    """Make all rows written so far durable, and then the header that counts them."""
    file.flush()
    os.fsync(file.fileno())
    end = file.tell()
    file.seek(0)
    full = {"rows": rows, "next_id": rows, "first_id": 0, "id_bytes": 0, "n_lists": 0}
    file.write(_head({**made, **full}, _LONG_HEADER))
    file.seek(end)
    return rows


def _rows_of_part(file: IO[bytes], made: dict[str, Any], name: str) -> int:
    """Return how many rows an interrupted call has written."""
    data = file.read(_LONG_HEADER)
    if not data.strip(b"\0"):
        return 0
    header = _header(data, name)
    if any(header[key] != value for key, value in made.items()):
        raise IndexFileError(f"{name} was begun with other settings than this call has: remove it to begin again.")
    return int(header["rows"])


def read(path: str | os.PathLike[str], mapped: bool, verify: bool) -> StoredIndex:
    """Read the parts of an index file as read-only arrays, mapped or copied into memory.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    IndexFileError
        If the file is not an index, is damaged, or is of a newer format.
    """
    name = os.fspath(path)
    data: Any
    with regular_file(name, "index", IndexFileError) as file:
        if mapped and os.fstat(file.fileno()).st_size:  # an empty file cannot be mapped
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        else:
            data = file.read()
    header = _header(data, name)
    rows, width, n_lists = header["rows"], n_bytes(header["n_bits"]), header["n_lists"]
    codes_at = _START + int.from_bytes(data[len(_MAGIC) : len(_MAGIC) + 4], "little")
    ids_at = codes_at + rows * width + -(rows * width) % _ALIGN
    centers_at = ids_at + rows * header["id_bytes"]
    lists_at = centers_at + n_lists * width
    end = lists_at + (2 * rows if n_lists else 0)
    if end + _DIGEST != len(data):
        raise IndexFileError(f"{name} is damaged: it has {len(data)} bytes, which is not what its header says.")
    if verify:
        _check_digest(data, name)
    codes = np.frombuffer(data, np.uint8, rows * width, codes_at).reshape(rows, width)
    ids: SomeIds = range(header["first_id"], header["first_id"] + rows)
    if header["id_bytes"]:
        # Ids below 2 ** 63, so that both types have the same bytes.
        ids = np.frombuffer(data, "<u4" if header["id_bytes"] == 4 else "<i8", rows, ids_at)
        if verify and rows and (ids[0] < 0 or (ids[1:] <= ids[:-1]).any()):
            raise IndexFileError(f"{name} is damaged: its ids are not in order.")
    centers = np.frombuffer(data, np.uint8, n_lists * width, centers_at).reshape(n_lists, width)
    lists = np.frombuffer(data, "<u2", rows if n_lists else 0, lists_at)
    if len(lists) and int(lists.max()) >= n_lists:
        raise IndexFileError(f"{name} is damaged: it has rows of lists that it does not have.")
    return StoredIndex(header, codes, ids, centers, lists)


def _check_digest(data: Any, name: str) -> None:
    digest = hashlib.sha256()
    view = memoryview(data)
    end = len(data) - _DIGEST
    for start in range(0, end, _CHUNK):
        digest.update(view[start : min(start + _CHUNK, end)])
    if digest.digest() != bytes(view[end:]):
        raise IndexFileError(f"{name} is damaged: its contents do not match their checksum.")


def _head(header: dict[str, Any], size: int = 0) -> bytes:
    """Return the bytes before the codes: ``size`` of them, or as few as possible."""
    text = json.dumps({**header, "version": VERSION}, sort_keys=True, separators=(",", ":")).encode()
    text += b" " * (size - _START - len(text) if size else -(_START + len(text)) % _ALIGN)
    return _MAGIC + len(text).to_bytes(4, "little") + zlib.crc32(text).to_bytes(4, "little") + text


def _header(data: Any, name: str) -> dict[str, Any]:
    """Check and return the header of a file that begins with ``data``."""
    if len(data) < _START or data[: len(_MAGIC)] != _MAGIC:
        if data and _MAGIC.startswith(data[: len(_MAGIC)]):
            raise IndexFileError(f"{name} is damaged: it is cut short.")
        kind = kind_of_bytes(data)
        raise IndexFileError(f"{name} is not a hashlearn index file{'' if kind is None else f': it is {kind}'}.")
    length, checksum = (int.from_bytes(data[at : at + 4], "little") for at in (len(_MAGIC), len(_MAGIC) + 4))
    text = bytes(data[_START : _START + length]) if length <= _MAX_HEADER else b""
    if len(text) != length or zlib.crc32(text) != checksum:
        raise IndexFileError(f"{name} is damaged: its header is broken or cut short.")
    try:
        header = json.loads(text)
        version = header["version"]
        names = ("rows", "n_bits", "next_id", "first_id", "id_bytes", "n_lists", "version")
        good = all(type(header[key]) is int and header[key] >= 0 for key in names)
        good = good and 1 <= header["n_bits"] <= MAX_BITS and version >= 1 and header["id_bytes"] in (0, 4, 8)
        good = good and isinstance(header["kind"], str) and isinstance(header["settings"], dict)
        good = good and header["bitorder"] in ("big", "little")
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise IndexFileError(f"{name} is damaged: its header is no valid JSON document.") from error
    if good and version > VERSION:
        raise IndexFileError(
            f"{name} was written by a newer hashlearn (format {version}; this one reads up to {VERSION})."
        )
    if not good:
        raise IndexFileError(f"{name} is damaged: its header does not describe an index.")
    return header
