"""Codes sorted by id. Because rows are sorted, ties are ranked by id whatever the order of insertion."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hashlearn.typing import Ids, PackedCodes


@dataclass
class _SortedRun:
    """Rows sorted by id; no id occurs twice."""

    ids: Ids
    codes: PackedCodes


class SortedRows:
    """A table from id to code that consists of a few sorted runs.

    A new batch becomes a new run. Two neighboring runs are merged when their sizes are similar, so adding n rows in any
    order and in batches of any size moves every row only O(log n) times.
    """

    def __init__(self, width: int) -> None:
        self._width = width
        self._runs: list[_SortedRun] = []

    @classmethod
    def of(cls, ids: Ids, codes: PackedCodes) -> SortedRows:
        """Make rows of arrays that are sorted already, such as those of a mapped file. A change copies them."""
        rows = cls(codes.shape[1])
        if len(ids):
            rows._runs = [_SortedRun(ids, codes)]
        return rows

    def __len__(self) -> int:
        return sum(len(run.ids) for run in self._runs)

    def known(self, ids: Ids) -> np.ndarray:
        """Return a boolean per sorted id: whether it exists."""
        known = np.zeros(len(ids), dtype=bool)
        for run in self._runs:
            known |= _places(run, ids)[0]
        return known

    def holds(self, ids: Ids, codes: PackedCodes) -> np.ndarray:
        """Return a boolean per row: whether its id exists with exactly this code."""
        same = np.zeros(len(ids), dtype=bool)
        for run in self._runs:
            hit, places = _places(run, ids)
            same[hit] = (run.codes[places] == codes[hit]).all(axis=1)
        return same

    def put(self, ids: Ids, codes: PackedCodes) -> None:
        """Insert or overwrite rows with sorted distinct ids. The table keeps both arrays: do not change them later."""
        new = np.ones(len(ids), dtype=bool)
        for run in self._runs:
            hit, places = _places(run, ids)
            if not len(places):
                continue
            if not run.codes.flags.writeable:  # the array may be mapped from a file, which must not change
                run.codes = np.array(run.codes)
            run.codes[places] = codes[hit]
            new &= ~hit
        if not new.all():
            ids, codes = ids[new], codes[new]
        if len(ids):
            self._runs.append(_SortedRun(ids, codes))
        while len(self._runs) > 1 and 2 * len(self._runs[-1].ids) > len(self._runs[-2].ids):
            self._merge_last()

    def remove(self, ids: Ids) -> int:
        """Remove the rows with these sorted ids and return how many there were."""
        before = len(self)
        for number, run in enumerate(self._runs):
            places = _places(run, ids)[1]
            if len(places):
                keep = np.ones(len(run.ids), dtype=bool)
                keep[places] = False
                self._runs[number] = _SortedRun(run.ids[keep], run.codes[keep])
        self._runs = [run for run in self._runs if len(run.ids)]
        return before - len(self)

    def all_rows(self) -> tuple[Ids, PackedCodes]:
        """Return ids and codes of all rows in order of id."""
        while len(self._runs) > 1:
            self._merge_last()
        if not self._runs:
            return np.empty(0, dtype=np.int64), np.empty((0, self._width), dtype=np.uint8)
        return self._runs[0].ids, self._runs[0].codes

    def select(self, ids: Ids) -> tuple[Ids, PackedCodes]:
        """Return ids and codes of the rows whose ids are among the sorted ``ids``."""
        chosen = [(run, places) for run in self._runs if len(places := _places(run, ids)[1])]
        # ``take`` of whole rows is several times as fast as indexing.
        parts = [(run.ids.take(places), run.codes.take(places, axis=0)) for run, places in chosen]
        if not parts:
            return np.empty(0, dtype=np.int64), np.empty((0, self._width), dtype=np.uint8)
        if len(parts) == 1:
            return parts[0]
        found = np.concatenate([part[0] for part in parts])
        order = np.argsort(found, kind="stable")
        return found[order], np.concatenate([part[1] for part in parts])[order]

    def _merge_last(self) -> None:
        second, first = self._runs.pop(), self._runs.pop()
        ids = np.concatenate([first.ids, second.ids])
        codes = np.concatenate([first.codes, second.codes])
        if first.ids[-1] > second.ids[0]:
            order = np.argsort(ids, kind="stable")  # timsort merges two sorted halves in one pass
            ids, codes = ids[order], codes[order]
        self._runs.append(_SortedRun(ids, codes))


def _places(run: _SortedRun, ids: Ids) -> tuple[np.ndarray, np.ndarray]:
    """Return which of the sorted ids are in the run, and the places of those that are."""
    if not len(ids) or ids[0] > run.ids[-1] or ids[-1] < run.ids[0]:  # usual case: new ids are larger than all before
        return np.zeros(len(ids), dtype=bool), np.empty(0, dtype=np.intp)
    if int(run.ids[-1]) - int(run.ids[0]) == len(run.ids) - 1:  # no id is missing, so each tells its place
        hit = (ids >= run.ids[0]) & (ids <= run.ids[-1])
        return hit, ids[hit] - run.ids[0]
    places = np.searchsorted(run.ids, ids)
    hit = run.ids[np.minimum(places, len(run.ids) - 1)] == ids
    return hit, places[hit]
