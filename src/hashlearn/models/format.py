"""The bytes of a model file: a safetensors file whose metadata is one JSON document with a checksum.

``saving.py`` defines the contents of the document; docs/model-files.md describes both.
"""

from __future__ import annotations

import hashlib
import json
import os
from typing import Any

from safetensors import SafetensorError
from safetensors.numpy import load as load_arrays
from safetensors.numpy import save as save_arrays

from hashlearn.messages import MODEL, kind_of_bytes
from hashlearn.typing import Arrays
from hashlearn.wholefile import regular_file, saved

FORMAT = "hashlearn model"
VERSION = 1
MAX_HEADER = 100_000_000  # safetensors does not read a longer header

_KEY = "hashlearn"
# The start of the document in the header. No other place of a header can hold these bytes: inside a JSON string a
# backslash precedes every quote, and the value of any other key is an object.
_MARK = b'"hashlearn":"{\\"checksum\\":\\"'
_BLANK = "0" * 64


class ModelFileError(ValueError):
    """A file is not a model that this version of hashlearn can read, or a model cannot be stored in a file."""


def to_bytes(document: dict[str, Any], arrays: Arrays) -> bytes:
    """Return the bytes of a file. The same document and arrays always give the same bytes."""
    # sort_keys puts "checksum" first.
    full = {"checksum": _BLANK, "format": FORMAT, "version": VERSION, **document}
    text = json.dumps(full, sort_keys=True, separators=(",", ":"), allow_nan=False)
    data = bytearray(save_arrays(arrays, metadata={_KEY: text}))
    if _header_length(data) > MAX_HEADER:
        raise ModelFileError("The model holds too much text: a model file has room for 100 MB beside its arrays.")
    place = _checksum_place(data)
    data[place : place + 64] = _checksum(data, place).encode()
    return bytes(data)


def from_bytes(data: bytes, name: str) -> tuple[dict[str, Any], Arrays]:
    """Check the bytes of a file called ``name`` against their checksum and return document and arrays."""
    if not data:
        raise ModelFileError(f"{name} is not a hashlearn model file: it is empty.")
    place = _checksum_place(data)
    if place < 0:
        kind = kind_of_bytes(data)
        # The word occurs more than once near the start, so it is still found if one place is damaged.
        if kind in (None, MODEL) and _KEY.encode() in data[:4096]:
            raise ModelFileError(f"{name} is damaged: its header is broken or cut short.")
        raise ModelFileError(f"{name} is not a hashlearn model file{'' if kind is None else f': it is {kind}'}.")
    if data[place : place + 64] != _checksum(data, place).encode():
        raise ModelFileError(f"{name} is damaged: its contents do not match their checksum.")
    try:
        header = json.loads(data[8 : 8 + _header_length(data)])
        document = json.loads(header["__metadata__"][_KEY])
        written_as, version = document["format"], document["version"]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ModelFileError(f"{name} is damaged: its header is no valid JSON document.") from error
    if written_as != FORMAT or type(version) is not int:
        raise ModelFileError(f"{name} is not a hashlearn model file.")
    if version > VERSION:
        raise ModelFileError(
            f"{name} was written by a newer hashlearn (format {version}; this one reads up to {VERSION})."
        )
    if version < 1:
        raise ModelFileError(f"{name} has format {version}, which hashlearn does not read: formats begin at 1.")
    _check_shapes(header, len(data), name)
    try:
        views = load_arrays(data)
    except (SafetensorError, ValueError, KeyError, OverflowError) as error:
        raise ModelFileError(f"{name} is damaged: its arrays cannot be read ({error}).") from error
    return document, views


def read(path: str | os.PathLike[str]) -> bytes:
    """Return all bytes of a regular file."""
    with regular_file(path, "model", ModelFileError) as file:
        return file.read()


def write(data: bytes, path: str | os.PathLike[str]) -> None:
    """Write a file. It replaces the file at ``path`` in one step, so no reader sees a part of it."""
    with saved(path, "model", ModelFileError) as file:
        file.write(data)


def _check_shapes(header: dict[str, Any], n_bytes: int, name: str) -> None:
    """Refuse arrays with a side that is longer than the whole file.

    Where an array has elements, safetensors checks that its bytes are there. An array without elements has no bytes,
    even if its other sides are large; such sides would become real in the products that a model computes.
    """
    for entry, facts in header.items():
        if entry == "__metadata__":
            continue
        try:
            longest = max(facts["shape"], default=0)
            fits = longest <= n_bytes
        except (TypeError, KeyError) as error:
            raise ModelFileError(f"{name} is damaged: the array {entry!r} has no shape.") from error
        if not fits:
            raise ModelFileError(f"{name} is damaged: a side of the array {entry!r} is longer than the whole file.")


def _header_length(data: bytes | bytearray) -> int:
    return int.from_bytes(data[:8], "little")


def _checksum_place(data: bytes | bytearray) -> int:
    """Return where the 64 digits of the checksum begin, or -1 if the bytes are not a model file."""
    end = 8 + _header_length(data)
    if len(data) < 8 or end > len(data):
        return -1
    start = data.find(_MARK, 8, end)
    return -1 if start < 0 or start + len(_MARK) + 64 > end else start + len(_MARK)


def _checksum(data: bytes | bytearray, place: int) -> str:
    """Return the SHA-256 of the file, with zeros in place of the digits of the checksum."""
    view = memoryview(data)
    digest = hashlib.sha256(view[:place])
    digest.update(_BLANK.encode())
    digest.update(view[place + 64 :])
    return digest.hexdigest()
