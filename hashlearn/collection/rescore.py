"""Rescoring: rank the rows with the nearest codes again by the float vectors that the collection keeps.

Hamming distances take few distinct values, so many rows may tie at the end of the list of candidates. All rows of that
tie are candidates: otherwise their ids would decide which of them are rescored.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from hashlearn.collection.store import Vectors
from hashlearn.index import Hits
from hashlearn.index.inputs import checked_count
from hashlearn.parallel import row_blocks
from hashlearn.typing import FloatArray, Ids, Metric

DEFAULT_FACTOR = 10
MAX_CANDIDATES = 16_384  # the most that Milvus returns at once; also keeps a query below some tenths of a second
_WIDEN = 8
_IDS_AT_ONCE = 4_000_000  # candidates of all queries of one block
_FLOATS_AT_ONCE = 16_000_000
_COSINE_DECIMALS = 12  # rounding errors of a cosine are far smaller, and must not decide the order of rows

SearchQueries = Callable[[Ids, int], Hits]
"""Returns the nearest rows for (numbers of queries, how many rows per query)."""
ReadVectors = Callable[[Ids], tuple[Ids, Vectors]]
"""Returns for some ids those of the rows that exist, in increasing order, and their vectors."""


class CandidatePlan(NamedTuple):
    """Which rows to look at.

    nearest : how many rows to take by code; rows that tie with the last of them are taken too.
    max_rows : the limit of both together. It is larger than ``nearest``, because one more row shows whether there is a
        tie.
    """

    nearest: int
    max_rows: int


class RescorePlan(NamedTuple):
    """How to rescore.

    k : how many rows the caller gets per query.
    candidates : which rows to look at.
    metric : how vectors are compared.
    """

    k: int
    candidates: CandidatePlan
    metric: Metric


def checked_factor(rescore: Any) -> float:
    """How many times k rows to rescore; True means the default factor."""
    if rescore is True:
        return DEFAULT_FACTOR
    number = isinstance(rescore, (int, float, np.number)) and not isinstance(rescore, bool)
    if not number or not 1 <= rescore < np.inf:
        raise ValueError(f"rescore must be True or a number from 1, how many times k to look at. Got {rescore!r}.")
    return float(rescore)


def checked_metric(metric: Any) -> Metric:
    if metric not in get_args(Metric):
        raise ValueError(f"metric must be 'cosine', 'euclidean' or 'dot'. Got {metric!r} instead.")
    return metric


def make_rescore_plan(k: int, rescore: Any, metric: Any, max_candidates: int) -> RescorePlan:
    """Check what a caller asked for and return the plan for it."""
    nearest = max(k, int(np.ceil(k * checked_factor(rescore))))
    max_rows = max(checked_count(max_candidates, "max_candidates", 1), nearest + 1)
    return RescorePlan(k, CandidatePlan(nearest, max_rows), checked_metric(metric))


def rescored(queries: Vectors, asked: Sequence[SearchQueries], read: ReadVectors, plan: RescorePlan) -> Hits:
    """Return the k best of each query's candidates, ordered by (distance of vectors, id).

    Candidates are the nearest rows by any of the searches ``asked``.
    """
    shape = (len(queries), plan.k)
    found = Hits(np.full(shape, -1, dtype=np.int64), np.full(shape, np.inf, dtype=np.float32))
    cut, limits = 0, plan.candidates
    for block in row_blocks(len(queries), max(1, _IDS_AT_ONCE // limits.max_rows)):
        found_by = [nearest_with_ties(ask, block, limits) for ask in asked]
        cut += max(cut_here for _, cut_here in found_by)
        candidates = [np.unique(np.concatenate(ids)) for ids in zip(*(ids for ids, _ in found_by), strict=True)]
        for place, (ids, distances) in enumerate(_ranked(queries[block], candidates, read, plan), block.start):
            found.ids[place, : len(ids)] = ids
            found.distances[place, : len(ids)] = distances
    if cut:
        warnings.warn(
            f"For {cut:,} of {len(queries):,} queries {limits.max_rows:,} rows or more are as near as the last of the "
            f"{limits.nearest:,} rows to rescore; only {limits.max_rows:,} were looked at, those of smallest id. Raise "
            "max_candidates, or use a hasher that gives more distinct codes.",
            stacklevel=4,  # skips this function, Collection.search and its decorator renamed_bit_order
        )
    return found


def nearest_with_ties(ask: SearchQueries, block: slice, plan: CandidatePlan) -> tuple[list[Ids], int]:
    """For each query of the block the ids of the ``nearest`` rows and of all that tie with the last.

    Also returns for how many queries the tie was cut at ``max_rows`` rows.
    """
    found: list[Ids] = [np.empty(0, dtype=np.int64)] * (block.stop - block.start)
    limit, places, cut = min(plan.max_rows, 2 * plan.nearest + 50), np.arange(block.start, block.stop), 0
    while len(places):
        hits = ask(places, limit)
        last = hits.distances[:, plan.nearest - 1]
        # Distances increase along a list, so a tie that reaches the end of the list may continue beyond it.
        open_ended = (hits.ids[:, -1] >= 0) & (hits.distances[:, -1] == last)
        if limit == plan.max_rows:
            cut = int(open_ended.sum())
            open_ended[:] = False
        near = (hits.ids >= 0) & ((hits.distances <= last[:, None]) | (hits.ids[:, plan.nearest - 1] < 0)[:, None])
        for row in np.flatnonzero(~open_ended):
            found[places[row] - block.start] = np.sort(hits.ids[row][near[row]])
        places, limit = places[open_ended], min(plan.max_rows, _WIDEN * limit)
    return found, cut


def _ranked(
    queries: Vectors, candidates: Sequence[Ids], read: ReadVectors, plan: RescorePlan
) -> list[tuple[Ids, FloatArray]]:
    """Ids and distances of each query's best candidates. Vectors are read in parts that fit in memory."""
    wanted = np.unique(np.concatenate(candidates))
    best = [(np.empty(0, dtype=np.int64), np.empty((2, 0)))] * len(queries)
    step = max(1, _FLOATS_AT_ONCE // max(1, queries.shape[1]))
    for start in range(0, len(wanted), step):
        ids, vectors = read(wanted[start : start + step])
        for number, query in enumerate(queries):
            places = places_of(ids, candidates[number])
            all_ids = np.concatenate([best[number][0], ids[places]])
            keys = np.concatenate([best[number][1], _keys(query, vectors[places], plan.metric)], axis=1)
            order = np.lexsort((all_ids, keys[1], keys[0]))[: plan.k]
            best[number] = all_ids[order], keys[:, order]
    return [(ids, keys[0]) for ids, keys in best]


def places_of(ids: Ids, candidates: Ids) -> Ids:
    """Where the candidates stand in ``ids``; both increase, and candidates may be missing."""
    places = np.searchsorted(ids, candidates)
    there = places < len(ids)
    there[there] = ids[places[there]] == candidates[there]
    return places[there]


def _keys(query: NDArray[np.float32], vectors: Vectors, metric: Metric) -> FloatArray:
    """Two sort keys per row, as an array (2, rows): the distance, and a second key for rows of equal distance."""
    one, many = query.astype(np.float64), vectors.astype(np.float64)
    squares = np.square(many - one).sum(axis=1)
    if metric == "euclidean":
        return np.stack([np.sqrt(squares), squares])
    products = many @ one
    if metric == "dot":
        return np.stack([-products, squares])
    sizes = np.sqrt(np.square(many).sum(axis=1)) * np.sqrt(np.square(one).sum())
    # A vector of zeros has no direction: it is as far as one at a right angle.
    cosines = np.divide(products, sizes, out=np.zeros_like(products), where=sizes > 0)
    return np.stack([np.round(1 - cosines, _COSINE_DECIMALS) + 0.0, squares])  # + 0.0 makes -0.0 plain
