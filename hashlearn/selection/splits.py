"""Splits of a sample: rows to fit on, and left-out rows and classes, of which some search and others are searched."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hashlearn.selection.sample import Sample
from hashlearn.typing import IntArray

FIT_SHARE = 0.7
MOST_QUERIES = 1000
LEAST_CLASSES = 6
"""With fewer classes none is left out: too few would remain to learn from."""
UNKNOWN_SHARE = 1 / 8


@dataclass(frozen=True)
class Search:
    """Rows of the sample that search, and rows that are searched."""

    queries: IntArray
    database: IntArray


@dataclass(frozen=True)
class Split:
    """Rows of the sample to fit on, and searches among rows left out.

    ``searches`` has the part "known" (rows of classes that are fitted on), and "unknown" if classes are left out.
    """

    fit: IntArray
    searches: dict[str, Search]


def make_splits(sample: Sample, seed: int) -> list[Split]:
    """Split the sample several times if it has few labeled rows; return no split if nothing could be found in one."""
    n_labeled = int(np.count_nonzero(sample.group >= 0))
    rounds = 5 if n_labeled < 1000 else 2 if n_labeled < 2500 else 1
    rng = np.random.default_rng(seed)
    splits = [_split(sample, rng) for _ in range(rounds)]
    return [split for split in splits if _usable(split, sample)]


def split_unlabeled(n_rows: int, seed: int) -> Split:
    """Split rows without labels."""
    order = np.random.default_rng(seed).permutation(n_rows)
    n_fit = int(FIT_SHARE * n_rows)
    n_queries = min(MOST_QUERIES, (n_rows - n_fit) // 3)
    queries, database = order[n_fit : n_fit + n_queries], order[n_fit + n_queries :]
    return Split(np.sort(order[:n_fit]), {"known": Search(queries, database)})


def _split(sample: Sample, rng: np.random.Generator) -> Split:
    group, plain = sample.group, sample.labeled_rows.plain
    labeled = rng.permutation(np.flatnonzero(group >= 0))
    searches = {}
    present = np.unique(group[labeled])
    if plain and len(present) >= LEAST_CLASSES:
        left_out = rng.permutation(present)[: max(2, int(UNKNOWN_SHARE * len(present)))]
        unknown = np.isin(group[labeled], left_out)
        searches["unknown"] = _search(labeled[unknown], group, plain)
        labeled = labeled[~unknown]
    fitted = _turn(labeled, group, plain) < FIT_SHARE
    searches["known"] = _search(labeled[~fitted], group, plain)
    unlabeled = np.flatnonzero(group < 0)
    return Split(np.sort(np.concatenate([labeled[fitted], unlabeled])), searches)


def _turn(rows: IntArray, group: IntArray, plain: bool) -> np.ndarray:
    """Return in [0, 1) when it is the turn of each row: among the rows of its class, or among all with label sets."""
    own = group[rows] if plain else np.zeros(len(rows), dtype=np.intp)
    order = np.argsort(own, kind="stable")
    sizes = np.bincount(own)
    first = np.cumsum(sizes) - sizes
    turn = np.empty(len(rows))
    # The end of a row's turn, so that of 2 rows of a class one is left out, and of 5 rows two.
    turn[order] = (np.arange(len(rows)) - first[own[order]] + 1) / sizes[own[order]]
    return turn


def _search(rows: IntArray, group: IntArray, plain: bool) -> Search:
    """Divide rows into queries, at most a third, and database. Each class sends equally many queries if it can.

    Frequent classes must not outvote rare ones, and the mean over such queries is about the mean over classes.
    """
    n_queries = min(MOST_QUERIES, len(rows) // 3)
    if not plain:
        return Search(rows[:n_queries], rows[n_queries:])
    own = group[rows]
    order = np.argsort(own, kind="stable")
    sizes = np.bincount(own)
    first = np.cumsum(sizes) - sizes
    rank = np.empty(len(rows), dtype=np.intp)
    rank[order] = np.arange(len(rows)) - first[own[order]]
    able = np.flatnonzero(rank < sizes[own] // 2)
    queries = able[np.argsort(rank[able], kind="stable")[:n_queries]]
    is_query = np.zeros(len(rows), dtype=bool)
    is_query[queries] = True
    return Search(rows[is_query], rows[~is_query])


def _usable(split: Split, sample: Sample) -> bool:
    """Whether several groups are fitted on, and every search has a query that can find something."""
    fitted = sample.group[split.fit]
    if len(np.unique(fitted[fitted >= 0])) < 2:
        return False
    return all(len(search.queries) and len(search.database) for search in split.searches.values())
