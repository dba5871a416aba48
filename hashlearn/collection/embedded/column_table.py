"""The indexed fields of all rows in memory, and which rows match a filter on them."""

from __future__ import annotations

import math
import operator
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hashlearn.collection.embedded import columns
from hashlearn.collection.embedded.columns import Columns
from hashlearn.collection.where import INT_LIMIT, All, AnyOf, Compare, Condition, Not, Path, kind_of
from hashlearn.index.sorted_rows import SortedRows
from hashlearn.typing import FloatArray, Ids, Int64Array

Mask = NDArray[np.bool_]

_COMPARED: dict[str, Callable[[Any, Any], Mask]] = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_NAMED = {None: columns.NULL, False: columns.FALSE, True: columns.TRUE}


class ColumnTable:
    """Columns by id. Several threads may read at once; a change must not run beside a reader or another change.

    Each field has two tables of its own, one of kinds and one of values. A filter then reads only these, and reads them
    sequentially, which is three times as fast as reading records of both.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        self._tables = {path: (SortedRows(1), SortedRows(8)) for path in paths}
        self._texts: dict[str, int] = {}
        self._lock = threading.Lock()  # reading all rows may merge the parts of a table

    def put(self, ids: Ids, part: Columns) -> None:
        """Add or replace the rows with these increasing ids."""
        values = columns.with_places(part, self._texts)
        for field, (kind_table, value_table) in enumerate(self._tables.values()):
            kind_table.put(ids.copy(), np.array(part.kinds[:, field]).reshape(-1, 1))
            value_table.put(ids.copy(), np.array(values[:, field]).reshape(-1, 1).view(np.uint8))

    def remove(self, ids: Ids) -> None:
        for tables in self._tables.values():
            for table in tables:
                table.remove(ids)

    def part(self, rows: slice) -> Columns:
        """The columns of some rows in the order of their ids, as a block keeps them."""
        fields = [self._field(path) for path in self._tables]
        kinds = np.stack([kinds[rows] for _, kinds, _ in fields], axis=1)
        values = np.stack([values[rows] for _, _, values in fields], axis=1)
        return Columns(kinds, values, list(self._texts)).take(np.arange(len(kinds)))

    def split(self, condition: Condition) -> tuple[Condition | None, Condition | None]:
        """Split a condition into (what the columns can decide, what else must hold); None for an empty part."""
        if self._decides(condition):
            return condition, None
        if not isinstance(condition, All):
            return None, condition
        parts = [self.split(part) for part in condition.parts]
        decided, left = ([part for part in some if part is not None] for some in zip(*parts, strict=True))
        return All(tuple(decided)) if decided else None, All(tuple(left)) if left else None

    def ids(self, condition: Condition) -> Ids:
        """Ids of the rows for which a condition holds that the columns can decide."""
        ids = self._field(next(iter(self._tables)))[0]
        return ids[self._mask(condition, len(ids))]

    def _field(self, path: Path) -> tuple[Ids, columns.Kinds, Int64Array]:
        """All ids, and the kinds and values of a field."""
        with self._lock:
            (ids, kinds), (_, values) = (table.all_rows() for table in self._tables[path])
        return ids, kinds[:, 0], np.ascontiguousarray(values).view(np.int64)[:, 0]

    def _decides(self, condition: Condition) -> bool:
        if isinstance(condition, Not):
            return self._decides(condition.part)
        if isinstance(condition, (All, AnyOf)):
            return all(self._decides(part) for part in condition.parts)
        return condition.path in self._tables and condition.operator != "contains"

    def _mask(self, condition: Condition, n_rows: int) -> Mask:
        if isinstance(condition, Not):
            return ~self._mask(condition.part, n_rows)
        if isinstance(condition, Compare):
            _, kinds, values = self._field(condition.path)
            return self._compare(kinds, values, condition)
        every = isinstance(condition, All)
        if len(condition.parts) == 1:
            return self._mask(condition.parts[0], n_rows)
        mask = np.full(n_rows, every)
        for part in condition.parts:
            (np.logical_and if every else np.logical_or)(mask, self._mask(part, n_rows), out=mask)
        return mask

    def _compare(self, kinds: columns.Kinds, values: Int64Array, part: Compare) -> Mask:
        if part.operator == "exists":
            return (kinds != columns.ABSENT) == part.operand
        if part.operator == "in":
            return self._one_of(kinds, values, part.operand)
        kind = kind_of(part.operand)
        if kind in ("truth", "null"):
            return kinds == _NAMED[part.operand]
        if kind == "text":
            return self._text(kinds, values, part.operator, part.operand)
        mask = (kinds == columns.WHOLE) & _whole(values, part.operator, part.operand)
        fractions = kinds == columns.FRACTION
        if fractions.any():
            mask[fractions] = _fraction(values[fractions].view(np.float64), part.operator, part.operand)
        return mask

    def _text(self, kinds: columns.Kinds, values: Int64Array, word: str, operand: str) -> Mask:
        if word == "=":
            return (kinds == columns.TEXT) & (values == self._texts.get(operand, -1))
        # Python orders texts by code point, as filters do.
        good = np.array([_COMPARED[word](text, operand) for text in self._texts], dtype=bool)
        mask = kinds == columns.TEXT
        mask[mask] = good[values[mask]]
        return mask

    def _one_of(self, kinds: columns.Kinds, values: Int64Array, operands: Sequence[Any]) -> Mask:
        named = [_NAMED[item] for item in operands if kind_of(item) in ("truth", "null")]
        numbers = [item for item in operands if kind_of(item) == "number"]
        texts = [self._texts[item] for item in operands if isinstance(item, str) and item in self._texts]
        whole = [int(item) for item in numbers if item == int(item) and -INT_LIMIT <= item < INT_LIMIT]
        floats = [float(item) for item in numbers if float(item) == item]
        mask = np.isin(kinds, np.array(named, dtype=np.uint8)) if named else np.zeros(len(kinds), dtype=bool)
        for kind, listed in ((columns.WHOLE, whole), (columns.TEXT, texts)):
            if listed:
                mask |= (kinds == kind) & np.isin(values, np.array(listed, dtype=np.int64))
        fractions = kinds == columns.FRACTION
        if floats and fractions.any():
            mask[fractions] = np.isin(values[fractions].view(np.float64), np.array(floats, dtype=np.float64))
        return mask


def _whole(values: Int64Array, word: str, operand: int | float) -> Mask:
    """Whole numbers against any number, exactly: a fraction becomes the whole number that cuts at the same place."""
    if word == "=":
        if operand != int(operand):
            return np.zeros(len(values), dtype=bool)
        bound = int(operand)
    else:
        bound = math.ceil(operand) if word in ("<", ">=") else math.floor(operand)
    if bound >= INT_LIMIT:
        return np.full(len(values), word in ("<", "<="))
    if bound < -INT_LIMIT:
        return np.full(len(values), word in (">", ">="))
    return _COMPARED[word](values, bound)


def _fraction(values: FloatArray, word: str, operand: int | float) -> Mask:
    """Floats against any number, exactly: a whole number that no float equals lies between two of them."""
    near = float(operand)
    if near == operand:
        return _COMPARED[word](values, near)
    if word == "=":
        return np.zeros(len(values), dtype=bool)
    if word in ("<", "<="):
        return values < near if near > operand else values <= near
    return values >= near if near > operand else values > near
