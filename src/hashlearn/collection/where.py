"""Filters over payloads: one small language, parsed and checked once, then evaluated by every store in its own way.

    {"color": "red", "year": {">=": 2020}}          both must hold
    {"$or": [{"color": "red"}, {"tags": {"contains": "new"}}], "$not": {"sold": True}}

A key names a field of the payload; dots go into nested objects ("size.width"; write "\\\\." for a dot inside a name).
``matches`` defines the meaning: a comparison holds only between a present value and an operand of the same type
(number, text, true or false, null); ``!=`` and ``not in`` are the negations of ``=`` and ``in``, so they also hold
where the field is missing. Dates and times are compared as payloads keep them, as text in ISO 8601 ("2020-12-31"): it
sorts as the dates do. A date is the midnight with which it begins, whether payloads hold dates or times.
"""

from __future__ import annotations

import datetime
import math
import re
import uuid
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

Scalar = str | int | float | bool | None
Path = tuple[str, ...]
Where = Mapping[str, Any]
"""A filter as callers give it."""

ORDERED = ("<", "<=", ">", ">=")
NEGATED = {"!=": "=", "not in": "in"}
OPERATORS = ("=", *ORDERED, "in", "contains", "exists", *NEGATED)
SPELLINGS = {
    "==": "=",
    "$eq": "=",
    "$ne": "!=",
    "$lt": "<",
    "$lte": "<=",
    "$gt": ">",
    "$gte": ">=",
    "$in": "in",
    "$nin": "not in",
    "$exists": "exists",
}
"""Operators as MongoDB, Chroma and Pinecone write them, so that filters written for those work here too."""
MAX_COMPARISONS = 1000
MAX_LISTED = 100_000
MAX_DEPTH = 32
INT_LIMIT = 2**63
TEXT_FIELD = "$id"
"""The field of a payload that holds the id of a row whose ids are texts or UUIDs."""
_MIDNIGHT = "T00:00:00"


class WhereError(ValueError):
    """A filter that cannot be understood; the message says which part and what was expected."""


class Listed(tuple[Scalar, ...]):
    """The values of an "in" list. A lookup takes the same time however long the list is."""

    @cached_property
    def _keys(self) -> frozenset[tuple[str | None, Scalar]]:
        return frozenset((kind_of(item), item) for item in self)

    def holds(self, value: Any) -> bool:
        """Return whether a value of a payload equals one of the list, and is of the same kind."""
        kind = kind_of(value)
        return kind is not None and (kind, value) in self._keys


@dataclass(frozen=True)
class Compare:
    """One field against an operand: a scalar, ``Listed`` scalars for "in", a bool for "exists".

    ``operator`` is one of "=", "<", "<=", ">", ">=", "in", "contains", "exists": negations are Not(...).
    """

    path: Path
    operator: str
    operand: Any


@dataclass(frozen=True)
class Not:
    part: Condition


@dataclass(frozen=True)
class All:
    """Every part must hold. Without parts, the condition holds for every payload."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True)
class AnyOf:
    """At least one part must hold. Without parts, the condition holds for no payload."""

    parts: tuple[Condition, ...]


Condition = Compare | Not | All | AnyOf


def parse(where: Where) -> Condition:
    """Check a filter and turn it into conditions."""
    return _Parser().whole(where)


def condition_of(where: Where | None) -> Condition | None:
    """Return the checked filter; None when every row matches."""
    if where is None:
        return None
    condition = parse(where)
    return condition if where else None


class _Parser:
    def __init__(self) -> None:
        self.comparisons = 0
        self.listed = 0
        self.depth = 0

    def whole(self, where: Any) -> All:
        if not isinstance(where, Mapping):
            raise WhereError(f"A filter is an object such as {{'year': {{'>=': 2020}}}}. Got {where!r} instead.")
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise WhereError(f"$and, $or and $not in a filter may be nested at most {MAX_DEPTH} deep.")
        parts = tuple(self.entry(key, value) for key, value in where.items())
        self.depth -= 1
        return All(parts)

    def entry(self, key: Any, value: Any) -> Condition:
        if not isinstance(key, str):
            raise WhereError(f"Field names in a filter are text. Got {key!r} instead.")
        if key in ("$and", "$or"):
            if isinstance(value, str) or not isinstance(value, Sequence) or not value:
                raise WhereError(f"{key} in a filter takes a list of at least one filter. Got {value!r} instead.")
            parts = tuple(self.whole(part) for part in value)
            return All(parts) if key == "$and" else AnyOf(parts)
        if key == "$not":
            return Not(self.whole(value))
        if key.startswith("$"):
            raise WhereError(f"{key!r} is not known in a filter: use $and, $or or $not.")
        path = split_path(key)
        if not isinstance(value, Mapping):
            return self.compare(path, "=", value)
        if not value:
            raise WhereError(f"The filter of {key!r} is empty: give an operator, {', '.join(OPERATORS)}.")
        return All(tuple(self.compare(path, operator, operand) for operator, operand in value.items()))

    def compare(self, path: Path, operator: Any, operand: Any) -> Condition:
        self.count(1, 0)
        field, operator = ".".join(path), SPELLINGS.get(operator, operator)
        if operator not in OPERATORS:
            raise WhereError(f"{operator!r} is no operator of a filter ({field}): use {', '.join(OPERATORS)}.")
        positive, midnights = NEGATED.get(operator, operator), _midnight(operand)
        if midnights and positive == "=":
            found = Compare(path, "in", Listed(midnights))
        elif midnights and positive in ORDERED:
            found = Compare(path, positive, midnights[positive in ("<=", ">")])
        else:
            found = Compare(path, positive, self.operand(field, positive, operand))
        return Not(found) if operator in NEGATED else found

    def count(self, comparisons: int, listed: int) -> None:
        self.comparisons += comparisons
        self.listed += listed
        if self.comparisons > MAX_COMPARISONS or self.listed > MAX_LISTED:
            raise WhereError(
                f"A filter may hold at most {MAX_COMPARISONS:,} comparisons and {MAX_LISTED:,} values in lists. "
                "Got more: ask in several parts, or keep what they have in common in a separate field."
            )

    def operand(self, field: str, operator: str, operand: Any) -> Any:
        if operator == "exists":
            if not isinstance(operand, bool):
                raise WhereError(f"'exists' in a filter ({field}) takes true or false. Got {operand!r} instead.")
            return operand
        if operator == "in":
            operand = listed(operand)
            if isinstance(operand, str) or not isinstance(operand, (Sequence, AbstractSet)):
                raise WhereError(f"'in' in a filter ({field}) takes a list. Got {operand!r} instead.")
            self.count(0, len(operand))  # first, so that a list that is too long costs nothing
            return Listed(one for item in operand for one in _midnight(item) or (_scalar(field, item),))
        value = _scalar(field, operand)
        if operator in ORDERED and (value is None or isinstance(value, bool)):
            raise WhereError(f"{operator!r} in a filter ({field}) takes a number or text. Got {operand!r} instead.")
        return value


def listed(values: Any) -> Any:
    """Return an array or a column of NumPy, pandas, polars, PyArrow or torch as a list; anything else as it is."""
    for method in ("tolist", "to_list"):  # polars has the second name
        if hasattr(values, method):
            return getattr(values, method)()
    return values


def plain_value(value: Any) -> Any:
    """Return scalars of NumPy as Python's, and dates, times and UUIDs as text, as payloads keep them."""
    if isinstance(value, np.datetime64):
        days = np.datetime_data(value.dtype)[0] in ("Y", "M", "W", "D")
        value = value.astype("datetime64[D]" if days else "datetime64[us]").item()
    elif isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, uuid.UUID):
        return str(value)
    if isinstance(value, (datetime.date, datetime.time)):
        text = value.isoformat()
        return None if text == "NaT" else text  # the missing time of pandas, which is a datetime too
    return value


def _midnight(value: Any) -> tuple[str, ...]:
    """Return a day, or its midnight without a time zone, as payloads hold it: as a date and as a time.

    Nothing for any other value. The text of a date sorts before that of its midnight, and nothing lies between them.
    """
    if not isinstance(value, (datetime.date, np.datetime64)):
        return ()
    text = plain_value(value) or ""
    day = text.removesuffix(_MIDNIGHT)
    return (day, day + _MIDNIGHT) if day and "T" not in day else ()


def _scalar(field: str, value: Any) -> Scalar:
    value = plain_value(value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        if not is_text(value):
            raise WhereError(f"Text in a filter ({field}) may hold neither the character NUL nor half of a surrogate.")
        return value
    if isinstance(value, int) and -INT_LIMIT <= value < INT_LIMIT:
        return int(value)
    if isinstance(value, float) and math.isfinite(value):
        return float(value)
    hint = f": write {{{field!r}: {{'in': [...]}}}} for one of several values" if isinstance(value, list) else ""
    raise WhereError(
        f"A filter compares ({field}) with text, a finite number of at most 64 bits, true, false or null. "
        f"Got {value!r} instead{hint}."
    )


def is_text(value: str) -> bool:
    """Return whether every store can keep and compare this text: no NUL, and no half of a surrogate pair."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in value


def split_path(key: str) -> Path:
    """Return the names in a dotted field: "size.width" is ("size", "width")."""
    names = [re.sub(r"\\(.)", r"\1", name) for name in re.split(r"(?<!\\)\.", key)]
    if not all(names) or not is_text(key):
        raise WhereError(f"{key!r} names no field: give names joined by dots, such as 'size.width'.")
    if names[0] == TEXT_FIELD:
        raise WhereError(f"{key!r} names the field that holds ids, which filters cannot ask for: give ids= instead.")
    return tuple(names)


def kind_of(value: Any) -> str | None:
    """Return "number", "text", "truth" or "null"; None for lists and objects."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "truth"
    if isinstance(value, (int, float)):
        return "number"
    return "text" if isinstance(value, str) else None


MISSING = object()


def value_at(payload: Mapping[str, Any] | None, path: Path) -> Any:
    """Return what a payload holds at a path, or MISSING."""
    value: Any = payload if payload is not None else {}
    for name in path:
        value = value.get(name, MISSING) if isinstance(value, Mapping) else MISSING
    return value


def matches(condition: Condition, payload: Mapping[str, Any] | None) -> bool:
    """Return whether the filter holds for a payload (None is the empty payload)."""
    if isinstance(condition, Not):
        return not matches(condition.part, payload)
    if isinstance(condition, All):
        return all(matches(part, payload) for part in condition.parts)
    if isinstance(condition, AnyOf):
        return any(matches(part, payload) for part in condition.parts)
    value = value_at(payload, condition.path)
    operator, operand = condition.operator, condition.operand
    if operator == "exists":
        return (value is not MISSING) == operand
    if value is MISSING:
        return False
    if operator == "in":
        return operand.holds(value)
    if operator == "contains":
        return isinstance(value, list) and any(_equal(item, operand) for item in value)
    if operator == "=":
        return _equal(value, operand)
    if kind_of(value) != kind_of(operand):
        return False
    if operator in ("<", "<="):
        return value < operand or (operator == "<=" and value == operand)
    return value > operand or (operator == ">=" and value == operand)


def _equal(value: Any, operand: Scalar) -> bool:
    return kind_of(value) == kind_of(operand) and value == operand


def as_filter(condition: Condition) -> dict[str, Any]:
    """Return a filter that ``parse`` turns into a condition with the same meaning."""
    if isinstance(condition, Not):
        return {"$not": as_filter(condition.part)}
    if isinstance(condition, Compare):
        name = ".".join(re.sub(r"([\\.])", r"\\\1", part) for part in condition.path)
        operand = list(condition.operand) if condition.operator == "in" else condition.operand
        return {name: {condition.operator: operand}}
    if len(condition.parts) == 1:
        return as_filter(condition.parts[0])
    if not condition.parts:
        return {} if isinstance(condition, All) else {"$not": {}}
    return {"$and" if isinstance(condition, All) else "$or": [as_filter(part) for part in condition.parts]}
