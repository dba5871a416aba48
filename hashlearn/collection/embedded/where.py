"""Filters in SQLite: the meaning of ``where.matches``, by its JSON functions where they mean the same.

SQLite reads decimal fractions less exactly than Python, and in older versions names with quotes or backslashes are
compared as they are written in JSON. So fractions and lists go through small Python functions, and filters on such
names through ``matches`` itself.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from hashlearn.collection.where import All, AnyOf, Compare, Condition, Not, Path, kind_of, matches
from hashlearn.typing import Ids

_UNSAFE = re.compile(r'["\\\x00-\x1f]')
_FIRST_WITH_ARROW = (3, 38)  # the operator -> gives a value as it is written


def matching_ids(db: sqlite3.Connection, condition: Condition, all_ids: Callable[[], Ids]) -> Ids:
    """Ids of the rows whose payload matches, increasing. ``all_ids`` tells those of all rows, with and without one."""
    if not matches(condition, None):
        return _payload_ids(db, condition)
    # The empty payload matches, so rows without one do: what does not match has a payload.
    others = _payload_ids(db, Not(condition))
    ids = all_ids()
    return np.setdiff1d(ids, others, assume_unique=True)


def _payload_ids(db: sqlite3.Connection, condition: Condition) -> Ids:
    """Ids of the rows with a payload that matches."""
    if sqlite3.sqlite_version_info < _FIRST_WITH_ARROW or not _safe(condition):
        rows = db.execute("SELECT id, json FROM payload ORDER BY id")
        return np.fromiter((id for id, text in rows if matches(condition, json.loads(text))), dtype=np.int64)
    db.create_function("hl_number", 1, float, deterministic=True)
    db.create_function("hl_has", 2, _has, deterministic=True)
    query = _Query()
    text = query.condition(condition)
    rows = db.execute(f"SELECT id FROM payload WHERE {text} ORDER BY id", query.values)
    return np.fromiter((id for (id,) in rows), dtype=np.int64)


def _safe(condition: Condition) -> bool:
    if isinstance(condition, Not):
        return _safe(condition.part)
    if isinstance(condition, (All, AnyOf)):
        return all(_safe(part) for part in condition.parts)
    return not any(_UNSAFE.search(name) for name in condition.path)


@lru_cache(maxsize=64)
def _operand(text: str) -> Any:
    return json.loads(text)


def _has(array: str, operand: str) -> bool:
    wanted = _operand(operand)
    kind = kind_of(wanted)
    return any(kind_of(item) == kind and item == wanted for item in json.loads(array))


class _Query:
    """SQL text and the values bound to it. All that callers chose is bound; the text is made of fixed parts.

    Every part is 0 or 1 and never NULL, so that NOT is the negation.
    """

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}

    def condition(self, condition: Condition) -> str:
        if isinstance(condition, Not):
            return f"(NOT {self.condition(condition.part)})"
        if isinstance(condition, All):
            return self._joined(list(condition.parts), "AND", "1")
        if isinstance(condition, AnyOf):
            return self._joined(list(condition.parts), "OR", "0")
        return self.compare(condition)

    def _joined(self, parts: list[Condition], word: str, nothing: str) -> str:
        """Halves joined: a long chain would be deeper than SQLite allows."""
        if len(parts) < 2:
            return self.condition(parts[0]) if parts else nothing
        half = len(parts) // 2
        left, right = self._joined(parts[:half], word, nothing), self._joined(parts[half:], word, nothing)
        return f"({left} {word} {right})"

    def bound(self, value: Any) -> str:
        name = f"v{len(self.values)}"
        self.values[name] = value
        return f":{name}"

    def compare(self, part: Compare) -> str:
        path = self.bound(_json_path(part.path))
        kind = f"json_type(json, {path})"
        if part.operator == "exists":
            return f"({kind} IS {'NOT ' if part.operand else ''}NULL)"
        if part.operator == "contains":
            operand = self.bound(json.dumps(part.operand, ensure_ascii=False))
            return f"(CASE WHEN {kind} = 'array' THEN hl_has(json -> {path}, {operand}) ELSE 0 END)"
        if part.operator == "in":
            return self._one_of(path, kind, part.operand)
        return self._against(path, kind, part.operator, [part.operand])

    def _one_of(self, path: str, kind: str, operands: tuple[Any, ...]) -> str:
        groups: dict[str | None, list[Any]] = {}
        for operand in operands:
            groups.setdefault(kind_of(operand), []).append(operand)
        texts = [self._against(path, kind, "IN", group) for group in groups.values()]
        return f"({' OR '.join(texts)})" if texts else "0"

    def _against(self, path: str, kind: str, operator: str, operands: list[Any]) -> str:
        """Values of one kind; several for IN."""
        if kind_of(operands[0]) in ("truth", "null"):
            names = sorted({json.dumps(operand) for operand in operands})  # what json_type calls them
            return f"(COALESCE({kind}, '') IN ({', '.join(map(self.bound, names))}))"
        right = ", ".join(map(self.bound, operands))
        right = f"({right})" if operator == "IN" else right
        value = f"json_extract(json, {path})"
        if kind_of(operands[0]) == "text":
            return f"(CASE WHEN {kind} = 'text' THEN {value} {operator} {right} ELSE 0 END)"
        exact = f"hl_number(json -> {path})"
        return (
            f"(CASE {kind} WHEN 'integer' THEN {value} {operator} {right} "
            f"WHEN 'real' THEN {exact} {operator} {right} ELSE 0 END)"
        )


def _json_path(path: Path) -> str:
    return "$" + "".join(f'."{name}"' for name in path)
