"""Which rows match a filter, remembered for the last few filters and brought up to date after changes."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock

import numpy as np

from hashlearn.collection.embedded.following_index import FollowingIndex, Snapshot
from hashlearn.collection.embedded.payloads import PayloadTable
from hashlearn.collection.embedded.where import matching_ids
from hashlearn.collection.where import Condition, matches
from hashlearn.typing import Ids

_MAX_FILTERS = 16
_SMALL_FRACTION = 20  # reading 1/20 of all payloads one by one takes as long as SQLite's scan of all of them


class KeptFilters:
    """The ids that matched each of the last filters, with the number of the last block at that moment."""

    def __init__(self, following: FollowingIndex, payloads: PayloadTable) -> None:
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
        """The same without the cache: by the indexed fields if they decide it or leave few rows, or by SQLite."""
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
        """Those of these rows that match, by reading the payload of each."""
        payloads = self._payloads.read(snapshot.transaction, ids)
        return ids[np.fromiter((matches(where, payload) for payload in payloads), dtype=bool, count=len(ids))]

    def _updated(self, snapshot: Snapshot, where: Condition, seq: int, ids: Ids) -> Ids | None:
        """Ids that matched earlier, with changed rows evaluated again; None if too many rows have changed."""
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
