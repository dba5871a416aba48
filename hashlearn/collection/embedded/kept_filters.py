"""Which rows match a filter, remembered for the last few filters and brought up to date after changes."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock

import numpy as np

from hashlearn.collection.embedded.following_index import FollowingIndex, View
from hashlearn.collection.embedded.payloads import PayloadTable
from hashlearn.collection.embedded.where import matching_ids
from hashlearn.collection.where import Condition, matches
from hashlearn.typing import Ids

_MOST = 16
_QUICK_PART = 20  # of all rows: to look at so many one by one takes as long as SQLite's look at all of them


class KeptFilters:
    """Ids by filter, each with the moment that they are of."""

    def __init__(self, following: FollowingIndex, payloads: PayloadTable) -> None:
        self._following = following
        self._payloads = payloads
        self._kept: OrderedDict[tuple[int, str], tuple[int, Ids]] = OrderedDict()
        self._lock = Lock()

    def ids(self, view: View, where: Condition) -> Ids:
        """Ids of the rows that match at the moment of the transaction, increasing."""
        seq = view.moment.state.seq
        key = view.moment.generation, repr(where)  # conditions with 1 and True are equal, and mean different things
        with self._lock:
            kept = self._kept.get(key)
        if kept is not None and kept[0] == seq:
            return kept[1]
        ids = None if kept is None or kept[0] > seq else self._updated(view, where, *kept)
        if ids is None:
            ids = self.asked(view, where)
        with self._lock:
            self._kept[key] = seq, ids
            self._kept.move_to_end(key)
            while len(self._kept) > _MOST:
                self._kept.popitem(last=False)
        return ids

    def asked(self, view: View, where: Condition) -> Ids:
        """The same, asked anew: the indexed fields where they are enough or leave few rows, otherwise SQLite."""
        if view.columns is not None:
            told, left = view.columns.split(where)
            if told is not None:
                ids = view.columns.ids(told)
                if left is None:
                    return ids
                if len(ids) <= len(view.index) // _QUICK_PART:
                    return self._matching(view, left, ids)
        self._payloads.check_all(view.moment)
        return matching_ids(view.moment.db, where, lambda: view.index.rows()[0])

    def _matching(self, view: View, where: Condition, ids: Ids) -> Ids:
        """Those of these rows that match, by looking at the payload of each."""
        payloads = self._payloads.read(view.moment, ids)
        return ids[np.fromiter((matches(where, payload) for payload in payloads), dtype=bool, count=len(ids))]

    def _updated(self, view: View, where: Condition, seq: int, ids: Ids) -> Ids | None:
        """Ids that matched earlier, with those rows asked again that have changed since; None if too many."""
        query = "SELECT COALESCE(SUM(size), 0) FROM block WHERE seq > ?"
        (entries,) = view.moment.db.execute(query, (seq,)).fetchone()
        if seq < view.moment.state.base or entries > len(view.index) // _QUICK_PART:
            return None
        named = [part for block in self._following.blocks(view.moment, seq) for part in (block.ids, block.gone)]
        changed = np.unique(np.concatenate([np.empty(0, dtype=np.int64), *named]))
        good = self._matching(view, where, view.index.rows(changed)[0])
        # Few ids into many that are sorted: found and moved, not sorted again.
        places = np.searchsorted(ids, changed)
        known = places < len(ids)
        known[known] = ids[places[known]] == changed[known]
        unchanged = np.delete(ids, places[known])
        return np.insert(unchanged, np.searchsorted(unchanged, good), good)
