"""The bytes of an index file.

    16 bytes   b"hashlearn index\\n"
     8 bytes   length of the header, little-endian
     header    JSON, padded with spaces so that the codes begin at a multiple of 64
     codes     rows x ceil(n_bits / 8) bytes in the order of the ids, then zeros up to a multiple of 64
     ids       rows x 8 bytes, little-endian int64, increasing
     structure faiss bytes of ivf and hnsw, or nothing
    32 bytes   SHA-256 of everything before

The header holds kind, n_bits, bitorder, settings, rows, next_id, structure (its length in bytes) and version.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import stat
from typing import Any, NamedTuple

import numpy as np

from hashlearn.codes import MAX_BITS, n_bytes
from hashlearn.filekinds import kind_of_bytes
from hashlearn.index.results import IndexFileError
from hashlearn.typing import Ids, PackedCodes
from hashlearn.wholefile import saved

VERSION = 1
_MAGIC = b"hashlearn index\n"
_START = len(_MAGIC) + 8
_ALIGN = 64
_DIGEST = 32
_CHUNK = 16 * 2**20
_MAX_HEADER = 2**20


class StoredIndex(NamedTuple):
    """The parts of an index file."""

    header: dict[str, Any]
    codes: PackedCodes
    ids: Ids
    structure: np.ndarray


def write(path: str | os.PathLike[str], header: dict[str, Any], codes: PackedCodes, ids: Ids, structure: bytes) -> None:
    """Write an index file. It replaces the file at ``path`` in one step, so no reader sees a part of it."""
    full = {**header, "rows": len(ids), "structure": len(structure), "version": VERSION}
    text = json.dumps(full, sort_keys=True, separators=(",", ":")).encode()
    text += b" " * (-(_START + len(text)) % _ALIGN)
    parts: list[Any] = [_MAGIC, len(text).to_bytes(8, "little"), text]
    parts += [np.ascontiguousarray(codes), bytes(-codes.nbytes % _ALIGN), np.ascontiguousarray(ids, dtype="<i8")]
    with saved(path, "index", IndexFileError) as file:
        digest = hashlib.sha256()
        for part in [*parts, structure]:
            if len(part):
                view = memoryview(part).cast("B")
                digest.update(view)
                file.write(view)
        file.write(digest.digest())


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
    data = _contents(name, mapped)
    if len(data) < _START or data[: len(_MAGIC)] != _MAGIC:
        if data and _MAGIC.startswith(data[: len(_MAGIC)]):
            raise IndexFileError(f"{name} is damaged: it is cut short.")
        kind = kind_of_bytes(data)
        raise IndexFileError(f"{name} is not a hashlearn index file{'' if kind is None else f': it is {kind}'}.")
    length = int.from_bytes(data[len(_MAGIC) : _START], "little")
    if length > _MAX_HEADER or _START + length + _DIGEST > len(data):
        raise IndexFileError(f"{name} is damaged: its header is broken or cut short.")
    if verify:
        _check_digest(data, name)
    header = _header(bytes(data[_START : _START + length]), name)
    rows, width = header["rows"], n_bytes(header["n_bits"])
    codes_at = _START + length
    ids_at = codes_at + rows * width + -(rows * width) % _ALIGN
    structure_at = ids_at + 8 * rows
    if structure_at + header["structure"] + _DIGEST != len(data):
        raise IndexFileError(f"{name} is damaged: it has {len(data)} bytes, which is not what its header says.")
    codes = np.frombuffer(data, dtype=np.uint8, count=rows * width, offset=codes_at).reshape(rows, width)
    ids = np.frombuffer(data, dtype="<i8", count=rows, offset=ids_at).astype(np.int64, copy=False)
    if verify and rows and (ids[0] < 0 or (ids[1:] <= ids[:-1]).any()):
        raise IndexFileError(f"{name} is damaged: its ids are not in order.")
    structure = np.frombuffer(data, dtype=np.uint8, count=header["structure"], offset=structure_at)
    return StoredIndex(header, codes, ids, structure)


def _contents(name: str, mapped: bool) -> Any:
    try:
        mode = os.stat(name).st_mode
        if not stat.S_ISREG(mode):
            what = "a directory" if stat.S_ISDIR(mode) else "no regular file"
            raise IndexFileError(f"{name} is not a hashlearn index file: it is {what}.")
        with open(name, "rb") as file:
            if mapped and os.fstat(file.fileno()).st_size:  # an empty file cannot be mapped
                return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            return file.read()
    except FileNotFoundError as error:
        raise FileNotFoundError(f"There is no index file {name}.") from error
    except OSError as error:
        raise type(error)(f"Cannot read the index file {name}: {error.strerror}.") from error


def _check_digest(data: Any, name: str) -> None:
    digest = hashlib.sha256()
    view = memoryview(data)
    end = len(data) - _DIGEST
    for start in range(0, end, _CHUNK):
        digest.update(view[start : min(start + _CHUNK, end)])
    if digest.digest() != bytes(view[end:]):
        raise IndexFileError(f"{name} is damaged: its contents do not match their checksum.")


def _header(text: bytes, name: str) -> dict[str, Any]:
    try:
        header = json.loads(text)
        version = header["version"]
        numbers = [header[key] for key in ("rows", "structure", "n_bits", "next_id", "version")]
        good = all(type(number) is int and number >= 0 for number in numbers)
        good = good and 1 <= header["n_bits"] <= MAX_BITS and version >= 1
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
