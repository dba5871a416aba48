"""Turn payloads as people give them (dicts, columns, tables) into a list of JSON objects, checked row by row."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hashlearn.collection.store import Payload
from hashlearn.collection.where import is_text, listed, plain_value

MAX_DEPTH = 64
_INT_LIMIT = 2**63


class _NotJson(Exception):
    """Why a value is not JSON. ``place`` says where it is; each level of nesting adds its name in front."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.place = ""


def checked_payloads(payload: Any, n_rows: int, first_row: int = 0) -> list[Payload] | None:
    """Return one JSON object per row; None when there is no payload at all.

    ``first_row`` is the number that messages give to the first row.
    """
    if payload is None:
        return None
    rows = _rows(payload)
    if len(rows) != n_rows:
        raise ValueError(f"There must be one payload per row. Got {len(rows)} payloads and {n_rows} rows.")
    checked: list[Payload] = []
    for number, row in enumerate(rows, first_row):
        if row is None:
            checked.append({})
            continue
        if not isinstance(row, Mapping):
            raise ValueError(f"The payload of row {number} must be a dict or None. Got {type(row).__name__} instead.")
        try:
            checked.append(_object(row, 1))
        except _NotJson as error:
            raise ValueError(f"The payload of row {number} is no JSON object{error.place}: {error}.") from None
    return checked


def _rows(payload: Any) -> Sequence[Any]:
    n_rows = 0
    if hasattr(payload, "iloc") and hasattr(payload, "columns"):  # a pandas DataFrame
        n_rows = len(payload)
        payload = {str(name): payload.iloc[:, place] for place, name in enumerate(payload.columns)}
    if isinstance(payload, Mapping):
        columns = [_values(name, column) for name, column in payload.items()]
        lengths = {len(column) for column in columns}
        if len(lengths) > 1:
            sizes = ", ".join(map(str, sorted(lengths)))
            raise ValueError(f"The columns of a payload must have one length. Got {sizes}.")
        return [dict(zip(payload, row, strict=True)) for row in zip(*columns, strict=True)] or [{}] * n_rows
    if hasattr(payload, "to_pylist") and hasattr(payload, "column_names"):  # a pyarrow Table or RecordBatch
        return payload.to_pylist()
    if hasattr(payload, "to_dicts") and hasattr(payload, "columns"):  # a polars DataFrame
        return payload.to_dicts()
    if isinstance(payload, (str, bytes)) or not isinstance(payload, (Sequence, np.ndarray)):
        kind = f"{type(payload).__module__.partition('.')[0]}.{type(payload).__name__}".removeprefix("builtins.")
        raise ValueError(
            "payload must be a list of dicts, a dict of columns, a pyarrow Table, or a DataFrame of pandas or polars. "
            f"Got {kind} instead."
        )
    return list(payload)


def _values(name: Any, column: Any) -> list[Any]:
    if hasattr(column, "iloc"):
        # Missing values are NaN, NaT or NA in pandas; in JSON they are null.
        return column.astype(object).where(column.notna(), None).tolist()
    values = listed(column)
    if isinstance(values, (str, bytes)) or not isinstance(values, Sequence):
        raise ValueError(
            f"A payload that is a dict holds columns, and the column {name!r} must be a list with one value per row. "
            f"Got {type(column).__name__} instead: one dict per row is given as a list of dicts."
        )
    return list(values)


def _object(value: Mapping[Any, Any], depth: int) -> Payload:
    result: Payload = {}
    for key, item in value.items():
        if type(key) is not str:
            raise _NotJson(f"its keys must be text, got {key!r}")
        if not key.isascii() or "\0" in key:
            _check_text(key)
        # The common kinds are handled here without a call, because this runs for every field of every row.
        kind = type(item)
        if (
            (kind is str and item.isascii() and "\0" not in item)
            or (kind is int and -_INT_LIMIT <= item < _INT_LIMIT)
            or (kind is float and math.isfinite(item))
            or kind is bool
            or item is None
        ):
            result[key] = item
            continue
        try:
            result[key] = _value(item, depth)
        except _NotJson as error:
            error.place = f" in [{key!r}]" if not error.place else f" in [{key!r}]{error.place[4:]}"
            raise
    return result


def _value(value: Any, depth: int) -> Any:
    value = plain_value(value)
    if isinstance(value, str):
        _check_text(value)
        return str(value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise _NotJson(f"JSON has no {value}")
        return float(value)
    if isinstance(value, int):
        if not -_INT_LIMIT <= value < _INT_LIMIT:
            raise _NotJson("whole numbers must fit into 64 bits")
        return int(value)
    if depth >= MAX_DEPTH:
        raise _NotJson(f"it is nested more than {MAX_DEPTH} deep")
    if isinstance(value, Mapping):
        return _object(value, depth + 1)
    if isinstance(value, (list, tuple)) or (isinstance(value, np.ndarray) and value.ndim):
        return [_value(item, depth + 1) for item in value]
    raise _NotJson(f"{type(value).__name__} is not a kind of JSON value")


def _check_text(text: str) -> None:
    if "\0" in text:
        raise _NotJson("text may not hold the character NUL")
    if not is_text(text):
        raise _NotJson("text may not hold half of a surrogate pair")
