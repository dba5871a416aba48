"""Filters in SQLite with the meaning of where.matches, and a cache of the rows that match the last ones.

SQLite's JSON functions are used where they agree with it. SQLite reads decimal fractions less exactly than Python, and
its older versions compare names with quotes or backslashes as they are written in JSON. So fractions are read by small
Python functions, and filters on such names are evaluated by ``matches`` itself.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Any

import numpy as np

from hashlearn.collection.store import CollectionError, Payload
from hashlearn.collection.stores.embedded.synced_index import Snapshot, SyncedIndex
from hashlearn.collection.stores.embedded.tables import PayloadTable, payload_of
from hashlearn.collection.where import INT_LIMIT, All, AnyOf, Compare, Condition, Listed, Not, Path, kind_of, matches
from hashlearn.typing import Ids

_UNSAFE = re.compile(r'["\\\x00-\x1f]')
_FIRST_WITH_ARROW = (3, 38)  # the operator -> gives a value as it is written


def matching_ids(db: sqlite3.Connection, condition: Condition, all_ids: Callable[[], Ids]) -> Ids:
    """Return the ids of the rows whose payload matches, in increasing order.

    ``all_ids`` returns the ids of all rows, also of those without a payload.
    """
    if not matches(condition, None):
        return _payload_ids(db, condition)
    # The empty payload matches, so all rows without a payload match. Only rows with one can fail to match.
    others = _payload_ids(db, Not(condition))
    ids = all_ids()
    return np.setdiff1d(ids, others, assume_unique=True)


def _payload_ids(db: sqlite3.Connection, condition: Condition) -> Ids:
    """Return the ids of the rows with a payload that matches."""
    if sqlite3.sqlite_version_info < _FIRST_WITH_ARROW or not _safe(condition):
        rows = db.execute("SELECT id, json FROM payload ORDER BY id")
        return np.fromiter((id for id, text in rows if matches(condition, _payload(id, text))), dtype=np.int64)
    db.create_function("hl_number", 1, float, deterministic=True)
    db.create_function("hl_written", 1, _written, deterministic=True)
    query = _Query()
    text = query.condition(condition)
    rows = db.execute(f"SELECT id FROM payload WHERE {text} ORDER BY id", query.values)
    return np.fromiter((id for (id,) in rows), dtype=np.int64)


def _payload(number: int, text: str) -> Payload:
    payload = payload_of(text)
    if payload is None:
        raise CollectionError(f"The payload of row {number} is damaged: it is no JSON object, or is nested too deeply.")
    return payload


def _safe(condition: Condition) -> bool:
    if isinstance(condition, Not):
        return _safe(condition.part)
    if isinstance(condition, (All, AnyOf)):
        return all(_safe(part) for part in condition.parts)
    return not any(_UNSAFE.search(name) for name in condition.path)


def _written(number: str | float) -> str:
    """Write a number as text, so that equal numbers have equal texts; minus zero becomes zero."""
    return repr(float(number) + 0.0)


class _Query:
    """SQL text and the values bound to it. Everything that comes from callers is bound; the text has only fixed parts.

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
        """Join the parts as a balanced tree: SQLite limits the depth of expressions, and a chain would be too deep."""
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
            return f"(CASE WHEN {kind} = 'array' THEN {self._has(path, part.operand)} ELSE 0 END)"
        if part.operator == "in":
            return self._one_of(path, kind, part.operand)
        return self._against(path, kind, part.operator, part.operand)

    def _has(self, path: str, operand: Any) -> str:
        """Return whether the list at the path holds a value."""
        if kind_of(operand) in ("truth", "null"):
            test = f"item.type = {self.bound(json.dumps(operand))}"  # what json_each calls it
        elif kind_of(operand) == "text":
            test = f"item.type = 'text' AND item.value = {self.bound(operand)}"
        else:
            right = self.bound(operand)
            exact = f"hl_number(payload.json -> ({path} || '[' || item.key || ']'))"
            test = f"CASE item.type WHEN 'integer' THEN item.value = {right} WHEN 'real' THEN {exact} = {right} END"
        return f"EXISTS (SELECT 1 FROM json_each(payload.json, {path}) AS item WHERE {test})"

    def _one_of(self, path: str, kind: str, operands: Listed) -> str:
        """Pass each list as one JSON text: SQLite then looks values up instead of comparing with each of them."""
        names = sorted({json.dumps(item) for item in operands if kind_of(item) in ("truth", "null")})
        numbers: list[Any] = [item for item in operands if kind_of(item) == "number"]
        texts = [item for item in operands if kind_of(item) == "text"]
        parts = [f"COALESCE({kind}, '') IN ({', '.join(map(self.bound, names))})"] if names else []
        value = f"json_extract(json, {path})"
        if texts:
            parts.append(f"CASE WHEN {kind} = 'text' THEN {value} IN {self._listed(texts)} ELSE 0 END")
        if numbers:
            # SQLite would read fractions less exactly than they were written, so those are compared as text.
            whole = [int(item) for item in numbers if item == int(item) and -INT_LIMIT <= item < INT_LIMIT]
            floats = [_written(item) for item in numbers if float(item) == item]
            parts.append(
                f"CASE {kind} WHEN 'integer' THEN {value} IN {self._listed(whole)} "
                f"WHEN 'real' THEN hl_written(json -> {path}) IN {self._listed(floats)} ELSE 0 END"
            )
        return f"({' OR '.join(parts)})" if parts else "0"

    def _listed(self, values: list[Any]) -> str:
        return f"(SELECT value FROM json_each({self.bound(json.dumps(values))}))"

    def _against(self, path: str, kind: str, operator: str, operand: Any) -> str:
        if kind_of(operand) in ("truth", "null"):
            return f"(COALESCE({kind}, '') = {self.bound(json.dumps(operand))})"  # what json_type calls it
        right, value = self.bound(operand), f"json_extract(json, {path})"
        if kind_of(operand) == "text":
            return f"(CASE WHEN {kind} = 'text' THEN {value} {operator} {right} ELSE 0 END)"
        exact = f"hl_number(json -> {path})"
        return (
            f"(CASE {kind} WHEN 'integer' THEN {value} {operator} {right} "
            f"WHEN 'real' THEN {exact} {operator} {right} ELSE 0 END)"
        )


def _json_path(path: Path) -> str:
    return "$" + "".join(f'."{name}"' for name in path)


_MAX_FILTERS = 16
_SMALL_FRACTION = 20  # reading 1/20 of all payloads one by one takes as long as SQLite's scan of all of them


class FilterCache:
    """The ids that matched each of the last filters, with the number of the last block at that moment."""

    def __init__(self, following: SyncedIndex, payloads: PayloadTable) -> None:
        self._following = following
        self._payloads = payloads
        self._kept: OrderedDict[tuple[int, str], tuple[int, Ids]] = OrderedDict()
        self._lock = Lock()

    def ids(self, snapshot: Snapshot, where: Condition) -> Ids:
        """Return the ids of the rows that match at the moment of the transaction, in increasing order."""
        seq = snapshot.transaction.state.seq
        key = (
            snapshot.transaction.generation,
            repr(where),
        )  # 1 and True are equal in Python but not in filters
        with self._lock:
            kept = self._kept.get(key)
        if kept is not None and kept[0] == seq:
            return kept[1]
        ids = None if kept is None or kept[0] > seq else self._updated(snapshot, where, *kept)
        if ids is None:
            ids = self.evaluate(snapshot, where)
        with self._lock:
            self._kept[key] = seq, ids
            self._kept.move_to_end(key)
            while len(self._kept) > _MAX_FILTERS:
                self._kept.popitem(last=False)
        return ids

    def evaluate(self, snapshot: Snapshot, where: Condition) -> Ids:
        """Evaluate without the cache: by the indexed fields if they decide it or leave few rows, or by SQLite."""
        if snapshot.columns is not None:
            decided, left = snapshot.columns.split(where)
            if decided is not None:
                ids = snapshot.columns.ids(decided)
                if left is None:
                    return ids
                if len(ids) <= len(snapshot.index) // _SMALL_FRACTION:
                    return self._matching(snapshot, left, ids)
        self._payloads.check_all(snapshot.transaction)
        return matching_ids(snapshot.transaction.db, where, lambda: snapshot.index.rows()[0])

    def _matching(self, snapshot: Snapshot, where: Condition, ids: Ids) -> Ids:
        """Return the ids of these rows that match, by reading the payload of each."""
        payloads = self._payloads.read(snapshot.transaction, ids)
        return ids[np.fromiter((matches(where, payload) for payload in payloads), dtype=bool, count=len(ids))]

    def _updated(self, snapshot: Snapshot, where: Condition, seq: int, ids: Ids) -> Ids | None:
        """Evaluate changed rows again and update the ids that matched earlier; None if too many rows have changed."""
        query = "SELECT COALESCE(SUM(size), 0) FROM block WHERE seq > ?"
        (entries,) = snapshot.transaction.db.execute(query, (seq,)).fetchone()
        if seq < snapshot.transaction.state.base or entries > len(snapshot.index) // _SMALL_FRACTION:
            return None
        named = [
            part for block in self._following.blocks(snapshot.transaction, seq) for part in (block.ids, block.gone)
        ]
        changed = np.unique(np.concatenate([np.empty(0, dtype=np.int64), *named]))
        good = self._matching(snapshot, where, snapshot.index.rows(changed)[0])
        # A few ids are inserted into many that are sorted, which is faster than sorting again.
        places = np.searchsorted(ids, changed)
        known = places < len(ids)
        known[known] = ids[places[known]] == changed[known]
        unchanged = np.delete(ids, places[known])
        return np.insert(unchanged, np.searchsorted(unchanged, good), good)
