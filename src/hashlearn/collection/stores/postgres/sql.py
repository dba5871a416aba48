"""Filters as SQL over a jsonb column, and rows to and from PostgreSQL's binary format.

A filter equals ``where.matches`` for every payload, and all its values are parameters. Why it is equal: ``->`` with a
text key looks into objects only (never by place into arrays); jsonb compares numbers as exact decimals and scalars by
type; text is ordered by COLLATE "C", which in UTF-8 is the order of code points. ``exact_json`` writes floats so that
their decimals compare with whole numbers as Python does.

A comparison with a field that is missing is NULL, which WHERE takes for false; only a negation has to make it false.
Comparisons stand alone and not inside functions, so that the indexes of ``indexed_fields`` can answer them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hashlearn.collection.store import Payload, StoredRows, Vectors, vectors_were_dropped
from hashlearn.collection.where import All, AnyOf, Compare, Condition, Not, Path, kind_of
from hashlearn.typing import Ids, PackedCodes

if TYPE_CHECKING:
    from psycopg.sql import Composable


COPY_HEAD = b"PGCOPY\n\xff\r\n\0" + bytes(8)
COPY_TAIL = b"\xff\xff"
_JSONB_VERSION = b"\x01"
_FIRST_EXPONENT = 1e16  # from here on Python writes whole floats with an exponent and no longer exactly


def exact_json(value: Any) -> str:
    """Return JSON text in which every number above 2^53 has all its digits.

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
    """Return rows (id, code, vector when kept, payload) for COPY … WITH (FORMAT binary), without head and tail.

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
    """Return rows of a binary cursor: (id, code, payload) and the vector when ``vector_size`` is given."""
    n_bytes = (n_bits + 7) // 8
    ids = np.array([row[0] for row in found], dtype=np.int64)
    codes = np.frombuffer(b"".join(row[1][4:] for row in found), np.uint8).reshape(len(found), n_bytes).copy()
    vectors = None if vector_size is None else _floats([row[3] for row in found], vector_size)
    return StoredRows(ids, codes, [row[2] for row in found], vectors)


def _floats(texts: Sequence[bytes], vector_size: int) -> Vectors:
    """Read vectors from pgvector's binary form: four bytes of head, then the numbers."""
    if None in texts:
        raise vectors_were_dropped()
    data = b"".join(text[4:] for text in texts)
    return np.frombuffer(data, ">f4").reshape(len(texts), vector_size).astype(np.float32)


def bit_texts(codes: PackedCodes, n_bits: int) -> list[str]:
    """Return codes as texts of 0 and 1, for parameters."""
    bits = np.unpackbits(codes, axis=1, count=n_bits) + np.uint8(ord("0"))
    return [row.tobytes().decode("ascii") for row in bits]


_MAX_COMPARED = 100  # values in a list that an index is asked for one by one


def to_sql(condition: Condition | None) -> tuple[Composable, list[Any]]:
    """Return a boolean SQL expression, which holds where it is true and not NULL, and its parameters."""
    from psycopg import sql

    if condition is None:
        return sql.SQL("TRUE"), []
    if isinstance(condition, Not):
        inner, values = to_sql(condition.part)
        return sql.SQL("(NOT COALESCE({}, FALSE))").format(inner), values
    if isinstance(condition, All):
        return _joined(condition.parts, " AND ", "TRUE")
    if isinstance(condition, AnyOf):
        return _joined(condition.parts, " OR ", "FALSE")
    return _compare(condition)


def indexed_fields(paths: Sequence[Path]) -> list[Composable]:
    """Return what to index for quick comparisons with these fields: values as they are, and texts by code point."""
    from psycopg import sql

    made: list[Composable] = []
    for path in paths:
        field = sql.SQL("(payload{})").format(sql.SQL("").join(sql.SQL(" -> {}::text").format(name) for name in path))
        made += [sql.SQL("({})").format(field), sql.SQL("(({} #>> '{{}}') COLLATE \"C\")").format(field)]
    return made


def _joined(parts: Sequence[Condition], word: str, nothing: str) -> tuple[Composable, list[Any]]:
    from psycopg import sql

    if not parts:
        return sql.SQL(nothing), []
    compiled = [to_sql(part) for part in parts]
    text = sql.SQL("({})").format(sql.SQL(word).join([expression for expression, _ in compiled]))
    return text, [value for _, values in compiled for value in values]


def _compare(condition: Compare) -> tuple[Composable, list[Any]]:
    from psycopg import sql

    field = sql.SQL("(payload{})").format(sql.SQL(" -> %s::text" * len(condition.path)))
    path: list[Any] = list(condition.path)
    operator, operand = condition.operator, condition.operand
    if operator == "exists":
        return sql.SQL("({} IS {} NULL)").format(field, sql.SQL("NOT" if operand else "")), path
    if operator == "=":
        return sql.SQL("({} = %s::jsonb)").format(field), [*path, exact_json(operand)]
    if operator == "in" and len(operand) <= _MAX_COMPARED:
        return sql.SQL("({} = ANY(%s::jsonb[]))").format(field), [*path, list(map(exact_json, operand))]
    if operator == "in":
        # A subquery is hashed, so the time does not grow with rows times values.
        listed = "[" + ",".join(map(exact_json, operand)) + "]"
        return sql.SQL("({} IN (SELECT jsonb_array_elements(%s::jsonb)))").format(field), [*path, listed]
    if operator == "contains":
        kind, test, value = "array", "{} @> %s::jsonb", exact_json(operand)
    elif kind_of(operand) == "number":
        kind, test, value = "number", "{} {} %s::jsonb", exact_json(operand)
    else:
        kind, test, value = "string", "({} #>> '{{}}') COLLATE \"C\" {} %s", operand
    text = sql.SQL(f"({test} AND jsonb_typeof({{}}) = '{kind}')").format
    parts = (field, field) if operator == "contains" else (field, sql.SQL(operator), field)
    return text(*parts), [*path, value, *path]
