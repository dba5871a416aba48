"""What error messages say: an exception as one sentence, and the kind of a wrong file by its first bytes.

This module imports nothing slow, so that the command line can use it at once.
"""

from __future__ import annotations

import os
from typing import Any


def one_line(error: BaseException) -> str:
    """Return an exception's message as one sentence on one line."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if text.endswith((".", "!", "?")) else text + "."


MODEL = "a hashlearn model"
_LOOKED_AT = 4096
_KINDS = (
    (b"hashlearn index\n", "a hashlearn index"),
    (b"\x93NUMPY", "a NumPy array (.npy)"),
    (b"PK\x03\x04", "a zip archive, as .npz is"),
    (b"PAR1", "a Parquet table"),
    (b"\x89HDF\r\n\x1a\n", "an HDF5 file"),
    (b"SQLite format 3\0", "an SQLite database, as collections have"),
    (b"IBM2", "a binary index of faiss"),
    (b"IBxF", "a binary index of faiss"),
    (b"\x89PNG\r\n\x1a\n", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"\x1f\x8b", "a gzip file"),
    (b"%PDF-", "a PDF document"),
    (b"\x80\x04\x95", "a pickle of Python"),
    (b"\x80\x05\x95", "a pickle of Python"),
)


def kind_of_bytes(data: Any) -> str | None:
    """Return the kind of a file from its bytes or its first bytes; None if it is not known.

    Examples
    --------
    >>> kind_of_bytes(b"%PDF-1.7 ...")
    'a PDF document'
    """
    start = bytes(data[:_LOOKED_AT])
    for mark, kind in _KINDS:
        if start.startswith(mark):
            return kind
    # A safetensors file begins with the length of a JSON header and the header.
    if len(start) > 9 and start[8:10] == b'{"' and int.from_bytes(start[:8], "little") < 2**32:
        return MODEL if b"hashlearn" in start else "a safetensors file, but not of hashlearn"
    return "a text file" if _is_text(start) else None


def kind_of_file(path: str | os.PathLike[str]) -> str | None:
    """Return the kind of a readable file; None if it is not known."""
    with open(path, "rb") as stream:
        return kind_of_bytes(stream.read(_LOOKED_AT))


def _is_text(start: bytes) -> bool:
    if not start or any(byte < 32 and byte not in b"\t\n\r\f" for byte in start):
        return False
    try:
        start.decode()
    except UnicodeDecodeError as error:
        # The last character may be incomplete.
        return len(start) == _LOOKED_AT and error.start > _LOOKED_AT - 4
    return True
