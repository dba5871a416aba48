"""Rows to and from PostgreSQL's binary format: COPY for writing, binary columns for reading."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from hashlearn.collection.store import Payload, StoredRows, Vectors, vectors_were_dropped
from hashlearn.typing import Ids, PackedCodes

COPY_HEAD = b"PGCOPY\n\xff\r\n\0" + bytes(8)
COPY_TAIL = b"\xff\xff"
_JSONB_VERSION = b"\x01"
_FIRST_EXPONENT = 1e16  # from here on Python writes whole floats with an exponent and no longer exactly


def exact_json(value: Any) -> str:
    """JSON text in which every number above 2^53 stands with all its digits.

    The server keeps decimals. Python's shortest text of a float below 2^53 lies between the same whole numbers as the
    float itself, so comparing decimals equals comparing floats with whole numbers; above, only all digits do.
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return _all_digits(value) if "e+" in text else text


def _all_digits(value: Any) -> str:
    if isinstance(value, dict):
        items = (json.dumps(name, ensure_ascii=False) + ":" + _all_digits(item) for name, item in value.items())
        return "{" + ",".join(items) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_all_digits, value)) + "]"
    if isinstance(value, float) and abs(value) >= _FIRST_EXPONENT:
        return f"{int(value)}.0"
    return json.dumps(value, ensure_ascii=False)


def copy_rows(
    n_bits: int, ids: Ids, codes: PackedCodes, payloads: Sequence[Payload] | None, vectors: Vectors | None
) -> bytes:
    """Rows (id, code, vector when kept, payload) for COPY … WITH (FORMAT binary), without head and tail.

    The payload comes last because only its length varies: everything before it is one array of records.
    """
    fields: list[tuple[Any, ...]] = [
        ("fields", ">i2"),
        ("id_bytes", ">i4"),
        ("id", ">i8"),
        ("code_bytes", ">i4"),
        ("n_bits", ">i4"),
        ("code", "u1", (codes.shape[1],)),
    ]
    if vectors is not None:
        fields += [("vector_bytes", ">i4"), ("size", ">i2"), ("unused", ">i2"), ("vector", ">f4", (vectors.shape[1],))]
    fields.append(("payload_bytes", ">i4"))
    heads = np.zeros(len(ids), dtype=fields)
    heads["fields"] = 3 if vectors is None else 4
    heads["id_bytes"], heads["id"] = 8, ids
    heads["code_bytes"], heads["n_bits"], heads["code"] = 4 + codes.shape[1], n_bits, codes
    if vectors is not None:
        heads["vector_bytes"], heads["size"], heads["vector"] = 4 + 4 * vectors.shape[1], vectors.shape[1], vectors
    if payloads is None:
        heads["payload_bytes"] = 3
        empty = np.frombuffer(_JSONB_VERSION + b"{}", np.uint8)
        width = heads.dtype.itemsize
        whole = np.empty((len(ids), width + len(empty)), np.uint8)
        whole[:, :width] = heads.view(np.uint8).reshape(len(ids), width)
        whole[:, width:] = empty
        return whole.tobytes()
    texts = [_JSONB_VERSION + exact_json(payload).encode() for payload in payloads]
    heads["payload_bytes"] = [len(text) for text in texts]
    data, width = heads.tobytes(), heads.dtype.itemsize
    pieces: list[bytes] = [b""] * (2 * len(texts))
    pieces[::2] = [data[start : start + width] for start in range(0, len(data), width)]
    pieces[1::2] = texts
    return b"".join(pieces)


def read_rows(found: Sequence[tuple[Any, ...]], n_bits: int, vector_size: int | None) -> StoredRows:
    """Rows of a binary cursor: (id, code, payload) and the vector when ``vector_size`` is given."""
    n_bytes = (n_bits + 7) // 8
    ids = np.array([row[0] for row in found], dtype=np.int64)
    codes = np.frombuffer(b"".join(row[1][4:] for row in found), np.uint8).reshape(len(found), n_bytes).copy()
    vectors = None if vector_size is None else _floats([row[3] for row in found], vector_size)
    return StoredRows(ids, codes, [row[2] for row in found], vectors)


def read_vectors(found: Sequence[tuple[Any, ...]], vector_size: int) -> tuple[Ids, Vectors]:
    """Ids and vectors of a binary cursor (id, vector)."""
    ids = np.array([row[0] for row in found], dtype=np.int64)
    return ids, _floats([row[1] for row in found], vector_size)


def _floats(texts: Sequence[bytes], vector_size: int) -> Vectors:
    """Vectors out of pgvector's binary form: four bytes of head, then the numbers."""
    if None in texts:
        raise vectors_were_dropped()
    data = b"".join(text[4:] for text in texts)
    return np.frombuffer(data, ">f4").reshape(len(texts), vector_size).astype(np.float32)


def bit_texts(codes: PackedCodes, n_bits: int) -> list[str]:
    """Codes as texts of 0 and 1, for parameters."""
    bits = np.unpackbits(codes, axis=1, count=n_bits) + np.uint8(ord("0"))
    return [row.tobytes().decode("ascii") for row in bits]
