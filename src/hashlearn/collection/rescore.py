"""Rescoring: rank the rows with the nearest codes again by the float vectors that the collection keeps.

Hamming distances take few distinct values, so many rows may tie at the end of the list of candidates. All rows of that
tie are candidates: otherwise their ids would decide which of them are rescored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from hashlearn.collection.store import Rescoring, Vectors
from hashlearn.index import Hits, ScoreTables
from hashlearn.index.inputs import checked_count
from hashlearn.parallel import row_blocks
from hashlearn.typing import FloatArray, Ids, Metric

DEFAULT_FACTOR = 10
MAX_CANDIDATES = 16_384  # the most that Milvus returns at once; also keeps a query below some tenths of a second
_WIDEN = 8
_IDS_AT_ONCE = 4_000_000  # candidates of all queries of one block
_FLOATS_AT_ONCE = 16_000_000
_COSINE_DECIMALS = 12  # rounding errors of a cosine are far smaller, and must not decide the order of rows

QueryValues = NDArray[Any] | ScoreTables
SearchQueries = Callable[[Any, int], Hits]
"""Returns the nearest rows for (queries, how many rows per query)."""
ReadVectors = Callable[[Ids], tuple[Ids, Vectors]]
"""Returns for some ids those of the rows that exist, in increasing order, and their vectors."""


def checked_rescoring(vectors: Vectors, k: int, rescore: Any, metric: Any, max_candidates: Any) -> Rescoring:
    """Check how a caller wants to rescore and return it; ``rescore`` is how many times k rows to look at, or True."""
    number = isinstance(rescore, (int, float, np.number)) and not isinstance(rescore, bool)
    if rescore is not True and not (number and 1 <= rescore < np.inf):
        raise ValueError(f"rescore must be True or a number from 1, how many times k to look at. Got {rescore!r}.")
    if metric not in get_args(Metric):
        raise ValueError(f"metric must be 'cosine', 'euclidean' or 'dot'. Got {metric!r} instead.")
    nearest = max(k, int(np.ceil(k * (DEFAULT_FACTOR if rescore is True else float(rescore)))))
    max_rows = max(checked_count(max_candidates, "max_candidates", 1), nearest + 1)
    return Rescoring(vectors, nearest, max_rows, metric)


def rescored(values: QueryValues, plan: Rescoring, k: int, ask: SearchQueries, read: ReadVectors) -> tuple[Hits, int]:
    """Return the k best of each query's candidates, ordered by (distance of vectors, id).

    Candidates are the rows nearest to the query and, if the plan has other codes, those nearest to them. Distances are
    float64: a product or a Euclidean distance of finite float32 vectors can exceed the largest float32. Also return for
    how many queries rows that tie with the last candidate were left out.
    """
    n_queries = len(plan.vectors)
    asked = [values] if plan.also is None else [values, plan.also]
    best: list[tuple[Ids, FloatArray]] = []
    cut = 0
    for block in row_blocks(n_queries, max(1, _IDS_AT_ONCE // plan.max_rows)):
        found_by = [nearest_with_ties(ask, taken(part, block), plan.nearest, plan.max_rows) for part in asked]
        cut += max(cut_here for _, cut_here in found_by)
        candidates = [np.unique(np.concatenate(ids)) for ids in zip(*(ids for ids, _ in found_by), strict=True)]
        best += _ranked(block, candidates, read, plan, k)
    return as_hits(best, np.float64), cut


def as_hits(found: Sequence[tuple[Ids, NDArray[Any]]], dtype: type[np.number] = np.int32) -> Hits:
    """Return the ids and distances of each query as hits, with a column for each row of the query that has the most."""
    shape = (len(found), max((len(ids) for ids, _ in found), default=0))
    ids = np.full(shape, -1, dtype=np.int64)
    distances = np.full(shape, np.inf if np.issubdtype(dtype, np.floating) else -1, dtype=dtype)
    for place, (row_ids, row_distances) in enumerate(found):
        ids[place, : len(row_ids)] = row_ids
        distances[place, : len(row_ids)] = row_distances
    return Hits(ids, distances)


def nearest_with_ties(ask: SearchQueries, queries: QueryValues, nearest: int, max_rows: int) -> tuple[list[Ids], int]:
    """Return for each query the ids of the ``nearest`` rows and of all that tie with the last of them.

    Also return for how many queries the tie was cut at ``max_rows`` rows.
    """
    found: list[Ids] = [np.empty(0, dtype=np.int64)] * len(queries)
    limit, places, cut = min(max_rows, 2 * nearest + 50), np.arange(len(queries)), 0
    while len(places):
        hits = ask(taken(queries, places), limit)
        near, open_ended = hits.ids >= 0, np.zeros(len(places), dtype=bool)
        if near.shape[1] >= nearest:
            last = hits.distances[:, nearest - 1]
            if near.shape[1] == limit:
                # Distances increase along a list, so a tie that reaches the end of the list may continue beyond it.
                open_ended = near[:, -1] & (hits.distances[:, -1] == last)
            near &= (hits.distances <= last[:, None]) | ~near[:, nearest - 1 : nearest]
        if limit == max_rows:
            cut = int(open_ended.sum())
            open_ended[:] = False
        for row in np.flatnonzero(~open_ended):
            found[places[row]] = np.sort(hits.ids[row][near[row]])
        places, limit = places[open_ended], min(max_rows, _WIDEN * limit)
    return found, cut


def taken(queries: QueryValues, places: Any) -> QueryValues:
    """Return the queries at some places."""
    if not isinstance(queries, ScoreTables):
        return queries[places]
    return ScoreTables(queries.nibbles[places], None if queries.words is None else queries.words[places])


def _ranked(
    block: slice, candidates: Sequence[Ids], read: ReadVectors, plan: Rescoring, k: int
) -> list[tuple[Ids, FloatArray]]:
    """Return ids and distances of each query's best candidates. Vectors are read in parts that fit in memory."""
    queries, wanted = plan.vectors[block], np.unique(np.concatenate(candidates))
    best = [(np.empty(0, dtype=np.int64), np.empty((2, 0)))] * len(queries)
    step = max(1, _FLOATS_AT_ONCE // max(1, queries.shape[1]))
    for start in range(0, len(wanted), step):
        ids, vectors = read(wanted[start : start + step])
        for number, query in enumerate(queries):
            places = places_of(ids, candidates[number])
            all_ids = np.concatenate([best[number][0], ids[places]])
            keys = np.concatenate([best[number][1], _keys(query, vectors[places], plan.metric)], axis=1)
            order = np.lexsort((all_ids, keys[1], keys[0]))[:k]
            best[number] = all_ids[order], keys[:, order]
    return [(ids, keys[0]) for ids, keys in best]


def places_of(ids: Ids, candidates: Ids) -> Ids:
    """Return where the candidates stand in ``ids``; both increase, and candidates may be missing."""
    places = np.searchsorted(ids, candidates)
    there = places < len(ids)
    there[there] = ids[places[there]] == candidates[there]
    return places[there]


def _keys(query: NDArray[np.float32], vectors: Vectors, metric: Metric) -> FloatArray:
    """Return two sort keys per row, as an array (2, rows): the distance, and a second key for equal distances."""
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
