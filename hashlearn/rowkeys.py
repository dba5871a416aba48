"""Random keys of rows that depend on the seed and the row's number alone, and draws made from them.

A draw takes the rows with the lowest keys. So it does not matter in which chunks rows come, who sees them and in
which order: the lowest keys of two parts together are among the lowest of either.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hashlearn.typing import IntArray

Keys = NDArray[np.uint64]

ANCHORS, LANDMARKS, SAMPLE, CODES = range(4)
"""What a key is for: keys of different purposes are independent."""

_UNIT = 2.0**-64


def row_keys(seed: int, purpose: int, start: int, stop: int) -> Keys:
    """Keys of rows start..stop-1, from a counter-based generator that can begin anywhere."""
    generator = np.random.Philox(key=np.array([seed, purpose], dtype=np.uint64))
    generator.advance(start // 4)  # a step of its counter gives four keys
    lead = start % 4
    return generator.random_raw(stop - start + lead)[lead:]


def lowest(keys: Keys, count: int) -> IntArray:
    """Places of the ``count`` lowest keys, in order of place; of equal keys the first ones."""
    if count >= len(keys):
        return np.arange(len(keys))
    if count <= 0:
        return np.empty(0, dtype=np.intp)
    places = np.flatnonzero(keys <= np.partition(keys, count - 1)[count - 1])
    if len(places) > count:
        places = np.sort(places[np.argsort(keys[places], kind="stable")[:count]])
    return places


def limit(count: int, seen: int, slack: int = 24) -> np.uint64:
    """A key that the ``count`` lowest of ``seen`` or more rows are almost surely not above."""
    share = (count + 8 * np.sqrt(count) + slack) / seen
    return np.uint64(2**64 - 1) if share >= 1 else np.uint64(share * 2.0**64)


def draw_rows(seed: int, purpose: int, n_rows: int, count: int) -> IntArray:
    """``count`` rows of ``n_rows`` at random, in row order."""
    return lowest(row_keys(seed, purpose, 0, n_rows), count)


class Incomplete(Exception):
    """Too few candidates were kept to tell which rows a draw takes."""


def choose_evenly(
    group: IntArray, keys: Keys, counts: IntArray, count: int, known_below: Keys | None = None
) -> IntArray:
    """Places of ``count`` candidates so that every group has its share of them, rounded down or up.

    Candidates come sorted by group and key; ``counts`` are the sizes of the groups. A group's share goes to its lowest
    keys. What rounding down leaves over goes to groups at random, in proportion to what they lost: their next key has a
    waiting time that is exponentially distributed (Rényi), and the shortest waits win.

    ``known_below`` (one a group): candidates were kept only below these keys. Where that leaves the outcome open,
    ``Incomplete`` is raised.
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
            # The next key is at least this: if even that wins, who knows whether the true one does.
            after[~has_next] = known_below[waiting[~has_next]] * _UNIT
        ends = np.nextafter(1.0, 0.0)  # log1p(-1) is no number
        spacing = np.log1p(-np.minimum(before, ends)) - np.log1p(-np.minimum(after, ends))
        wait = (counts[waiting] - sure[waiting]) * spacing / (lost[waiting] / total)
        winners = np.argsort(wait, kind="stable")[:left]
        if not has_next[winners].all():
            raise Incomplete
        chosen[first[waiting[winners]] + sure[waiting[winners]]] = True
    return np.flatnonzero(chosen)
