"""Which rows match a filter, remembered for the last few filters and brought up to date after changes."""

from __future__ import annotations

import json
import sqlite3
from collections import OrderedDict
from threading import Lock

import numpy as np

from hashlearn.collection.embedded.where import matching_ids
from hashlearn.collection.where import Condition, matches
from hashlearn.index import Index
from hashlearn.typing import Ids

_MOST = 16
_QUICK_PART = 8  # of all rows: when more have changed, asking anew is as quick


class KeptFilters:
    """Ids by filter, each with the sequence number of the moment that they are of."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, tuple[int, Ids]] = OrderedDict()
        self._lock = Lock()

    def ids(self, db: sqlite3.Connection, index: Index, seq: int, where: Condition) -> Ids:
        """Ids of the rows that match at the moment of the transaction, which is that of the index."""
        key = repr(where)  # conditions with 1 and True are equal, and mean different things
        with self._lock:
            kept = self._kept.get(key)
        if kept is not None and kept[0] == seq:
            return kept[1]
        ids = None if kept is None or kept[0] > seq else _updated(db, index, where, *kept)
        if ids is None:
            ids = matching_ids(db, where, lambda: index.rows()[0])
        with self._lock:
            self._kept[key] = seq, ids
            self._kept.move_to_end(key)
            while len(self._kept) > _MOST:
                self._kept.popitem(last=False)
        return ids


def _updated(db: sqlite3.Connection, index: Index, where: Condition, seq: int, ids: Ids) -> Ids | None:
    """Ids that matched at an earlier moment, with those rows asked again that have changed since; None if too many."""
    (base,) = db.execute("SELECT base FROM state").fetchone()
    (entries,) = db.execute("SELECT COALESCE(SUM(size), 0) FROM block WHERE seq > ?", (seq,)).fetchone()
    if seq < base or entries > len(index) // _QUICK_PART:
        return None
    parts = db.execute("SELECT ids, gone FROM block WHERE seq > ?", (seq,)).fetchall()
    named = [np.frombuffer(part, dtype="<i8") for row in parts for part in row]
    changed = np.unique(np.concatenate([np.empty(0, dtype=np.int64), *named]))
    there = index.rows(changed)[0]
    wanted = json.dumps(there.tolist())
    found = dict(db.execute("SELECT id, json FROM payload WHERE id IN (SELECT value FROM json_each(?))", (wanted,)))
    good = [n for n in there.tolist() if matches(where, json.loads(found[n]) if n in found else None)]
    unchanged = ids[~np.isin(ids, changed, assume_unique=True)]
    return np.sort(np.concatenate([unchanged, np.array(good, dtype=np.int64)]))
