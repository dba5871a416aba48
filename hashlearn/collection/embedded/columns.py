"""Indexed fields of payloads as columns: one kind and one number per row and field, so that NumPy can filter them.

They are kept in the blocks beside the codes (and so under their checksums), and in memory beside the index. SQLite's
own indexes on JSON expressions were measured first: fetching 100,000 of a million ids took 28 ms (106 ms the first
time), comparing columns takes 3 ms. Also, the pages of such an index have no checksums.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.collection.where import MISSING, Path, value_at
from hashlearn.typing import Int64Array

ABSENT, NULL, FALSE, TRUE, WHOLE, FRACTION, TEXT, OTHER = range(8)
"""Kinds of values. OTHER is a list or an object."""

Kinds = NDArray[np.uint8]


class DamagedColumnsError(ValueError):
    """The bytes of columns are not those that were written."""


class Columns(NamedTuple):
    """Values of some fields of some rows.

    kinds, values : (rows, fields). A value is a whole number, the bits of a float, or the place of a text in ``texts``.
    """

    kinds: Kinds
    values: Int64Array
    texts: list[str]

    def take(self, places: NDArray[np.integer]) -> Columns:
        """The rows at these places, with only their own texts."""
        kinds, values = self.kinds[places], self.values[places].copy()
        named = kinds == TEXT
        used, values[named] = np.unique(values[named], return_inverse=True)
        return Columns(kinds, values, [self.texts[place] for place in used.tolist()])


def of_payloads(payloads: Sequence[Mapping[str, Any] | None] | None, n_rows: int, paths: Sequence[Path]) -> Columns:
    """The fields at ``paths`` of the payloads of some rows; None when none of them has a payload."""
    kinds = np.zeros((n_rows, len(paths)), dtype=np.uint8)
    values = np.zeros((n_rows, len(paths)), dtype=np.int64)
    texts: dict[str, int] = {}
    for field, path in enumerate(paths if payloads is not None else ()):
        cells = [_cell(value_at(payload, path), texts) for payload in payloads or ()]
        kinds[:, field] = [kind for kind, _ in cells]
        values[:, field] = [number for _, number in cells]
    return Columns(kinds, values, list(texts))


def _cell(value: Any, texts: dict[str, int]) -> tuple[int, int]:
    if isinstance(value, str):
        return TEXT, texts.setdefault(value, len(texts))
    if value is None:
        return NULL, 0
    if isinstance(value, bool):
        return (TRUE if value else FALSE), 0
    if isinstance(value, int):
        return WHOLE, value
    if isinstance(value, float):
        return FRACTION, int(np.float64(value).view(np.int64))
    return (ABSENT if value is MISSING else OTHER), 0


def joined(parts: Sequence[Columns]) -> Columns | None:
    """The rows of several columns one after the other; None for no columns."""
    if not parts:
        return None
    texts: dict[str, int] = {}
    values = [with_places(part, texts) for part in parts]
    return Columns(np.concatenate([part.kinds for part in parts]), np.concatenate(values), list(texts))


def with_places(columns: Columns, texts: dict[str, int]) -> Int64Array:
    """Return the values with the places of texts in ``texts``; texts that are not in it are added to it."""
    if not columns.texts:
        return columns.values
    places = np.array([texts.setdefault(text, len(texts)) for text in columns.texts], dtype=np.int64)
    values = columns.values.copy()
    named = columns.kinds == TEXT
    values[named] = places[values[named]]
    return values


def to_bytes(columns: Columns) -> bytes:
    """Kinds, then values (little-endian), then the texts as JSON."""
    kinds, values = np.ascontiguousarray(columns.kinds), np.ascontiguousarray(columns.values, dtype="<i8")
    return kinds.tobytes() + values.tobytes() + json.dumps(columns.texts, ensure_ascii=False).encode()


def from_bytes(data: bytes, n_rows: int, n_fields: int) -> Columns:
    cells = n_rows * n_fields
    try:
        kinds = np.frombuffer(data, np.uint8, cells).reshape(n_rows, n_fields)
        values = np.frombuffer(data, "<i8", cells, offset=cells).astype(np.int64, copy=False)
        return Columns(kinds, values.reshape(n_rows, n_fields), json.loads(data[9 * cells :]))
    except ValueError as error:
        raise DamagedColumnsError("the columns of a block are cut short") from error
