"""Codes sorted by id. Because rows are sorted, ties are ranked by id whatever the order of insertion."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hashlearn.typing import Ids, PackedCodes

SomeIds = range | NDArray[np.uint32] | NDArray[np.int64]
"""Increasing ids in as little memory as they need: none if no id is missing, 4 bytes below 2 ** 32, 8 otherwise."""


def compact_ids(ids: Ids | SomeIds) -> SomeIds:
    """Return increasing ids in the smallest form."""
    if isinstance(ids, range) or not len(ids):
        return ids if isinstance(ids, range) else range(0)
    first, last = int(ids[0]), int(ids[-1])
    if last - first == len(ids) - 1:
        return range(first, last + 1)
    return ids.astype(np.uint32) if last < 2**32 else ids


def id_array(ids: SomeIds) -> Ids:
    """Return ids as an array of int64."""
    if isinstance(ids, range):
        return np.arange(ids.start, ids.stop, dtype=np.int64)
    return ids.astype(np.int64, copy=False)


def ids_at(ids: SomeIds, places: NDArray[np.integer]) -> Ids:
    """Return the ids at some places as int64."""
    if isinstance(ids, range):
        return places.astype(np.int64) + ids.start
    return ids[places].astype(np.int64)


@dataclass(frozen=True)
class _SortedRun:
    """Rows sorted by id; no id occurs twice."""

    ids: SomeIds
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
    def from_sorted(cls, ids: SomeIds, codes: PackedCodes) -> SortedRows:
        """Make rows of arrays that are sorted already, such as those of a mapped file. A change copies them."""
        rows = cls(codes.shape[1])
        if len(ids):
            rows._runs = [_SortedRun(compact_ids(ids), codes)]
        return rows

    def copy(self) -> SortedRows:
        """Return a copy that shares no memory with this table, nor with a mapped file."""
        ids, codes = self.all_rows()
        return SortedRows.from_sorted(ids if isinstance(ids, range) else id_array(ids).copy(), np.array(codes))

    def __len__(self) -> int:
        return sum(len(run.ids) for run in self._runs)

    def known(self, ids: Ids) -> np.ndarray:
        """Return a boolean per sorted id: whether it exists."""
        known = np.zeros(len(ids), dtype=bool)
        for run in self._runs:
            known |= _places(run, ids)[0]
        return known

    def places(self, ids: Ids) -> np.ndarray:
        """Return the places among ``all_rows`` of those of the sorted ids that exist."""
        self.all_rows()
        return _places(self._runs[0], ids)[1] if self._runs else np.empty(0, dtype=np.intp)

    def put(self, ids: Ids, codes: PackedCodes) -> None:
        """Insert or overwrite rows with sorted distinct ids. The table keeps both arrays: do not change them later.

        If an exception comes at any moment, the table holds either all of these rows or none of them.
        """
        known = self.known(ids)
        runs = list(self._runs)
        if not known.all():
            new = (ids, codes) if not known.any() else (ids[~known], codes[~known])
            runs.append(_SortedRun(compact_ids(new[0]), new[1]))
        while len(runs) > 1 and 2 * len(runs[-1].ids) > len(runs[-2].ids):
            runs[-2:] = [_merged(*runs[-2:])]
        self._overwrite_and_swap(runs, ids[known], codes[known])

    def _overwrite_and_swap(self, runs: list[_SortedRun], ids: Ids, codes: PackedCodes) -> None:
        """Write codes in place into the given runs, which hold these ids, and make them the runs of the table."""
        writes = []
        for number, run in enumerate(runs):
            hit, places = _places(run, ids)
            if not len(places):
                continue
            if not run.codes.flags.writeable:  # the array may be mapped from a file, which must not change
                run = runs[number] = _SortedRun(run.ids, np.array(run.codes))
            writes.append((run.codes, places, codes[hit], run.codes[places]))
        before = self._runs
        try:
            for array, places, new, _ in writes:
                array[places] = new
            self._runs = runs
        except BaseException:
            self._runs = before
            for array, places, _, old in writes:
                array[places] = old
            raise

    def remove(self, ids: Ids) -> int:
        """Remove the rows with these sorted ids and return how many there were."""
        before, runs = len(self), []
        for run in self._runs:
            places = _places(run, ids)[1]
            if len(places):
                keep = np.ones(len(run.ids), dtype=bool)
                keep[places] = False
                run = _SortedRun(compact_ids(id_array(run.ids)[keep]), run.codes[keep])
            if len(run.ids):
                runs.append(run)
        self._runs = runs
        return before - len(self)

    def all_rows(self) -> tuple[SomeIds, PackedCodes]:
        """Return ids and codes of all rows in order of id."""
        runs = self._runs
        while len(runs) > 1:
            runs = [*runs[:-2], _merged(*runs[-2:])]
        self._runs = runs
        if not self._runs:
            return range(0), np.empty((0, self._width), dtype=np.uint8)
        return self._runs[0].ids, self._runs[0].codes

    @property
    def last_id(self) -> int:
        """The largest id; -1 if there are no rows."""
        return max((int(run.ids[-1]) for run in self._runs), default=-1)

    def select(self, ids: Ids) -> tuple[Ids, PackedCodes]:
        """Return ids and codes of the rows whose ids are among the sorted ``ids``."""
        chosen = [(run, places) for run in self._runs if len(places := _places(run, ids)[1])]
        # ``take`` of whole rows is several times as fast as indexing.
        parts = [(ids_at(run.ids, places), run.codes.take(places, axis=0)) for run, places in chosen]
        if not parts:
            return np.empty(0, dtype=np.int64), np.empty((0, self._width), dtype=np.uint8)
        if len(parts) == 1:
            return parts[0]
        found = np.concatenate([part[0] for part in parts])
        order = np.argsort(found, kind="stable")
        return found[order], np.concatenate([part[1] for part in parts])[order]


def _merged(first: _SortedRun, second: _SortedRun) -> _SortedRun:
    """Return the rows of both runs as a new run."""
    codes = np.concatenate([first.codes, second.codes])
    if first.ids[-1] < second.ids[0]:
        if isinstance(first.ids, range) and isinstance(second.ids, range) and first.ids.stop == second.ids.start:
            return _SortedRun(range(first.ids.start, second.ids.stop), codes)
        return _SortedRun(compact_ids(np.concatenate([id_array(first.ids), id_array(second.ids)])), codes)
    ids = np.concatenate([id_array(first.ids), id_array(second.ids)])
    order = np.argsort(ids, kind="stable")  # timsort merges two sorted halves in one pass
    return _SortedRun(compact_ids(ids[order]), codes[order])


def _places(run: _SortedRun, ids: Ids) -> tuple[NDArray[np.bool_], NDArray[np.intp]]:
    """Return which of the sorted ids are in the run, and the places of those that are."""
    first, last = int(run.ids[0]), int(run.ids[-1])
    if not len(ids) or ids[0] > last or ids[-1] < first:  # usual case: new ids are larger than all before
        return np.zeros(len(ids), dtype=bool), np.empty(0, dtype=np.intp)
    hit = (ids >= first) & (ids <= last)
    if isinstance(run.ids, range):  # no id is missing, so each tells its place
        return hit, ids[hit] - first
    wanted = ids[hit].astype(run.ids.dtype)
    places = np.searchsorted(run.ids, wanted)
    found = run.ids[places] == wanted
    hit[hit] = found
    return hit, places[found]
