"""Random keys of rows that depend only on the seed and the row number, and random draws by these keys.

A draw takes the rows with the lowest keys. The lowest keys of two parts together are among the lowest keys of each
part, so a draw does not depend on how the rows are split into chunks or in which order they are read.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hashlearn.typing import IntArray

Keys = NDArray[np.uint64]

ANCHORS, LANDMARKS, SAMPLE, CODES = range(4)
"""Purposes of keys. Keys for different purposes are independent."""

_UNIT = 2.0**-64


def row_keys(seed: int, purpose: int, start: int, stop: int) -> Keys:
    """Compute the keys of rows start..stop-1 with a counter-based generator, which can start at any row."""
    generator = np.random.Philox(key=np.array([seed, purpose], dtype=np.uint64))
    generator.advance(start // 4)  # each counter step yields four keys
    lead = start % 4
    return generator.random_raw(stop - start + lead)[lead:]


def lowest(keys: Keys, count: int) -> IntArray:
    """Return the positions of the ``count`` lowest keys in ascending order; of equal keys the first ones win."""
    if count >= len(keys):
        return np.arange(len(keys))
    if count <= 0:
        return np.empty(0, dtype=np.intp)
    places = np.flatnonzero(keys <= np.partition(keys, count - 1)[count - 1])
    if len(places) > count:
        places = np.sort(places[np.argsort(keys[places], kind="stable")[:count]])
    return places


def limit(count: int, seen: int, slack: int = 24) -> np.uint64:
    """Return a key that the ``count`` lowest keys of ``seen`` or more rows almost surely do not exceed."""
    share = (count + 8 * np.sqrt(count) + slack) / seen
    return np.uint64(2**64 - 1) if share >= 1 else np.uint64(share * 2.0**64)


def draw_rows(seed: int, purpose: int, n_rows: int, count: int) -> IntArray:
    """Draw ``count`` of ``n_rows`` rows at random, in row order."""
    return lowest(row_keys(seed, purpose, 0, n_rows), count)


def draw_evenly(group: IntArray, count: int, seed: int) -> IntArray:
    """Draw ``count`` rows that have a group, all if there are fewer: each group in proportion, in row order."""
    rows = np.flatnonzero(group >= 0)
    if count >= len(rows):
        return rows
    keys = row_keys(seed, ANCHORS, 0, len(group))[rows]
    order = np.lexsort((keys, group[rows]))
    sorted_group = group[rows][order]
    chosen = choose_evenly(sorted_group, keys[order], np.bincount(sorted_group), count)
    return np.sort(rows[order[chosen]])


class Incomplete(Exception):
    """Too few candidates were kept to determine which rows a draw takes."""


def choose_evenly(
    group: IntArray, keys: Keys, counts: IntArray, count: int, known_below: Keys | None = None
) -> IntArray:
    """Choose ``count`` candidates such that each group gets its share, rounded down or up; return their positions.

    Candidates are sorted by group and key; ``counts`` holds the sizes of the groups. The lowest keys of a group fill
    its share. The places that rounding down leaves free go to random groups, in proportion to what they lost by
    rounding: the gap to the next key of a group is exponentially distributed (Rényi), and the smallest gaps win.

    ``known_below`` (one key per group) says below which keys the candidates are complete. If that does not determine
    the result, ``Incomplete`` is raised.
    """
    total = int(counts.sum())
    sure, lost = np.divmod(counts.astype(np.int64) * min(count, total), total)
    first = np.searchsorted(group, np.arange(len(counts)))
    usable = np.diff(np.append(first, len(group)))
    if known_below is not None:
        usable = np.bincount(group[keys < known_below[group]], minlength=len(counts))
    if np.any(usable < sure):
        raise Incomplete
    rank = np.arange(len(group)) - first[group]
    chosen = rank < sure[group]
    left = min(count, total) - int(sure.sum())
    if left > 0:
        waiting = np.flatnonzero(lost > 0)
        has_next = usable[waiting] > sure[waiting]
        before, after = np.zeros(len(waiting)), np.full(len(waiting), 1.0)
        begun = sure[waiting] > 0
        before[begun] = keys[first[waiting[begun]] + sure[waiting[begun]] - 1] * _UNIT
        after[has_next] = keys[first[waiting[has_next]] + sure[waiting[has_next]]] * _UNIT
        if known_below is not None:
            # The next key of such a group is unknown, but at least this one. If the group wins, the result is open.
            after[~has_next] = known_below[waiting[~has_next]] * _UNIT
        ends = np.nextafter(1.0, 0.0)  # log1p(-1) is infinite
        spacing = np.log1p(-np.minimum(before, ends)) - np.log1p(-np.minimum(after, ends))
        wait = (counts[waiting] - sure[waiting]) * spacing / (lost[waiting] / total)
        winners = np.argsort(wait, kind="stable")[:left]
        if not has_next[winners].all():
            raise Incomplete
        chosen[first[waiting[winners]] + sure[waiting[winners]]] = True
    return np.flatnonzero(chosen)
