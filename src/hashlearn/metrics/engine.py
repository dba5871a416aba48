"""Compute the scores of each query from keys and relevance, one block of queries at a time.

Only rows that can reach the cut-off are used. A few large array operations handle them for the whole block, because
with many small operations the threads would wait for each other.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.metrics.rankings import Keys, Progress, map_blocks, nearest, true_places
from hashlearn.metrics.relevance import Relevance
from hashlearn.metrics.rules import Depths, Gain, Rules, Ties
from hashlearn.metrics.scores import (
    TieGroups,
    average_precision,
    dcg,
    divide,
    expected_average_precision,
    expected_dcg,
    expected_hits,
    gains,
    ideal_dcg,
)
from hashlearn.typing import FloatArray, IntArray


class Merged(NamedTuple):
    """Which queries and database rows the keys have, where equal ones are merged.

    ``sizes`` is the number of database rows that each one represents; None means one each.
    """

    queries: IntArray
    rows: IntArray
    sizes: FloatArray | None


def score_queries(
    keys: Keys,
    relevance: Relevance,
    rules: Rules,
    n_jobs: int | None = None,
    progress: Progress | None = None,
    merged: Merged | None = None,
) -> dict[str, FloatArray]:
    """Score every query of ``keys``: one number per query, by the name of the score.

    ``ap_defined`` is the probability that AP is not 0/0; ``answerable`` is 1 if any row is relevant. Scores of the
    Hamming ball, whose names begin with ``ball``, exist only if the rules have a radius.
    """
    group_sizes = relevance.group_sizes.astype(np.float64)
    depths = rules.depths(int(relevance.group_sizes.sum()))
    query_groups, database_groups, sizes = relevance.query_groups, relevance.database_groups, None
    if merged is not None:
        query_groups, database_groups = query_groups[merged.queries], database_groups[merged.rows]
        sizes = merged.sizes

    def work(start: int, stop: int) -> dict[str, FloatArray]:
        labels, member = np.unique(query_groups[start:stop], return_inverse=True)
        table = relevance.table(labels)
        block = QueryBlock(
            keys=keys.block(start, stop),
            exact=keys.exact,
            relevance=table[:, database_groups],
            member=member,
            sizes=sizes,
            graded=relevance.graded,
        )
        return _score_block(block, table, group_sizes, rules, depths)

    # The first term is for keys, relevance and temporary arrays, the second for the rows that reach the cut-off. Tie
    # groups of Hamming distances are so few that their memory does not matter.
    listed = 0 if keys.exact and rules.ties == "expected" else max(depths)
    bytes_per_query = 16 * keys.n_database + 128 * listed
    blocks = map_blocks(keys.n_queries, bytes_per_query, work, n_jobs, progress)
    return {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]}


def _score_block(
    block: QueryBlock, relevance: FloatArray, group_sizes: FloatArray, rules: Rules, depths: Depths
) -> dict[str, FloatArray]:
    """Score a block; ``relevance`` is the table of the block's distinct query labels and all database groups."""
    total = ((relevance > 0) @ group_sizes)[block.member]
    best = np.array([ideal_dcg(row, group_sizes, depths.ndcg_at, rules.gain) for row in relevance])[block.member]
    top = top_rows(block, max(depths), rules.radius)
    if rules.ties == "expected":
        groups = tie_groups(block, top, rules.gain)
        ap, ap_defined = expected_average_precision(groups, total, depths.at, rules.denominator)
        first_hits, hits = expected_hits(groups, depths.precision_at), expected_hits(groups, depths.at)
        gained = expected_dcg(groups, depths.ndcg_at, rules.gain)
    else:
        found = ordered(block, top, rules.ties, max(depths))
        hit = found > 0
        ap, ap_defined = average_precision(hit, total, depths.at, rules.denominator)
        first_hits = hit[:, : depths.precision_at].sum(axis=1, dtype=np.float64)
        hits = hit[:, : depths.at].sum(axis=1, dtype=np.float64)
        gained = dcg(found, depths.ndcg_at, rules.gain)
    recall, answerable = divide(hits, total)
    scores = {
        "ap": ap,
        "ap_defined": ap_defined,
        "precision": first_hits / depths.precision_at,
        "recall": recall,
        "ndcg": divide(gained, best)[0],
        "answerable": answerable,
    }
    return scores if rules.radius is None else scores | _ball_scores(block, top, rules.radius, total)


def radius_counts(
    keys: Keys,
    relevance: Relevance,
    n_distances: int,
    n_jobs: int | None = None,
    progress: Progress | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Count rows and hits at each distance 0 … n_distances − 1, summed over the queries. The keys must be exact."""

    def work(start: int, stop: int) -> tuple[FloatArray, FloatArray]:
        block = keys.block(start, stop)
        parts = block.ravel(), block[relevance.hits(start, stop)]
        rows, hits = (np.bincount(part, minlength=n_distances).astype(np.float64) for part in parts)
        return rows, hits

    blocks = map_blocks(keys.n_queries, 24 * keys.n_database, work, n_jobs, progress)
    rows, hits = zip(*blocks, strict=True)
    return np.sum(rows, axis=0), np.sum(hits, axis=0)


class QueryBlock(NamedTuple):
    """A block of queries against the database.

    ``keys`` is (queries, database), ``relevance`` (distinct query labels, database); ``member`` is the row of
    ``relevance`` for each query. ``exact`` says whether keys are small integers, ``graded`` whether relevance can be
    other than 0 and 1. ``sizes`` is the number of rows that each database row represents; None means one each.
    """

    keys: NDArray[Any]
    exact: bool
    relevance: FloatArray
    member: IntArray
    sizes: FloatArray | None
    graded: bool


class TopRows(NamedTuple):
    """The rows that can reach the cut-off, query by query.

    ``counts`` is their number per query, ``places`` their places in the flattened keys.
    """

    counts: IntArray
    places: IntArray
    keys: NDArray[Any]
    relevance: FloatArray


def top_rows(block: QueryBlock, depth: int, radius: int | None) -> TopRows | None:
    """Return the first ``depth`` rows of each query with all their ties, and its Hamming ball. None means all rows."""
    # Rows that represent several do not count positions. They are few, so using all of them costs little.
    if block.sizes is not None:
        return None
    near = nearest(block.keys, depth, radius)
    return None if near is None else _top(block, *near)


def tie_groups(block: QueryBlock, top: TopRows | None, gain: Gain) -> TieGroups:
    """Return rows, hits and summed gain of each tie group, nearest first."""
    if top is None and block.exact:
        return _whole_tie_groups(block, gain)
    if top is None:
        top = _all_rows(block)
    n_queries = len(block.keys)
    if block.exact:
        # A distance serves as the number of its group.
        width = int(top.keys.max()) + 1
        groups = np.repeat(np.arange(n_queries) * width, top.counts) + top.keys
    else:
        width, groups = _numbered_groups(top)
    hit = np.flatnonzero(top.relevance > 0)
    hit_groups = groups[hit]
    cells = n_queries * width
    rows = np.bincount(groups, minlength=cells)
    hits = np.bincount(hit_groups, minlength=cells)
    gained = np.bincount(hit_groups, gains(top.relevance[hit], gain), cells) if block.graded else hits
    return TieGroups(*(sums.reshape(n_queries, width).astype(np.float64) for sums in (rows, hits, gained)))


def ordered(block: QueryBlock, top: TopRows | None, ties: Ties, depth: int) -> FloatArray:
    """Return the relevance of the first ``depth`` rows of each query, in the order that ``ties`` names."""
    top = top or _all_rows(block)
    query = _queries(top).astype(np.uint16 if len(top.counts) < 2**16 else np.intp)
    order = _order(top.keys, top.relevance, ties)
    # The last sort is by query. It is stable, and fast because NumPy sorts small integers by counting.
    order = order[np.argsort(query[order], kind="stable")]
    starts = np.cumsum(top.counts) - top.counts
    return top.relevance[order[starts[:, None] + np.arange(depth)]]


def _ball_scores(block: QueryBlock, top: TopRows | None, radius: int, total: FloatArray) -> dict[str, FloatArray]:
    """Return the scores of the rows within the radius of each query."""
    n_queries, n = block.keys.shape
    if top is None:
        top = _top(block, *true_places(block.keys <= radius))
    within = np.flatnonzero(top.keys <= radius)
    query, relevance = _queries(top)[within], top.relevance[within]
    sizes = np.ones(len(within)) if block.sizes is None else block.sizes[top.places[within] % n]
    rows, hits, summed = (
        np.bincount(query, weights, n_queries).astype(np.float64, copy=False)
        for weights in (sizes, sizes * (relevance > 0), sizes * relevance)
    )
    return {
        "ball_precision": divide(hits, rows)[0],
        "ball_recall": divide(hits, total)[0],
        "ball_acg": divide(summed, rows)[0],
        "ball_empty": (rows == 0).astype(np.float64),
    }


def _whole_tie_groups(block: QueryBlock, gain: Gain) -> TieGroups:
    """Return tie groups over all rows, from histograms of the distances of all rows and of the relevant rows."""
    width = int(block.keys.max()) + 1
    groups = TieGroups(*np.zeros((3, len(block.keys), width)))
    relevant = [np.flatnonzero(row > 0) for row in block.relevance]
    for query, (keys, label) in enumerate(zip(block.keys, block.member, strict=True)):
        hit = relevant[label]
        hit_keys, hit_sizes = keys[hit], None if block.sizes is None else block.sizes[hit]
        groups.rows[query] = np.bincount(keys, block.sizes, width)
        groups.hits[query] = np.bincount(hit_keys, hit_sizes, width)
        if block.graded:
            gained = gains(block.relevance[label, hit], gain)
            groups.gain[query] = np.bincount(hit_keys, gained if hit_sizes is None else gained * hit_sizes, width)
    # Relevance 1 has gain 1 by either definition.
    return groups if block.graded else groups._replace(gain=groups.hits)


def _numbered_groups(top: TopRows) -> tuple[int, IntArray]:
    """Return the largest number of groups per query (width), and query * width + rank of the key for each row."""
    query = _queries(top)
    order = _order_by_query(top, query)
    keys, query = top.keys[order], query[order]
    new_query = np.concatenate([[True], query[1:] != query[:-1]])
    new_group = new_query | np.concatenate([[True], keys[1:] != keys[:-1]])
    number = np.cumsum(new_group) - 1
    rank = number - number[new_query][query]
    width = int(rank.max()) + 1
    groups = np.empty_like(order)
    groups[order] = query * width + rank
    return width, groups


def _order_by_query(top: TopRows, query: IntArray) -> IntArray:
    """Order rows by query, then by key; equal keys are in any order."""
    n_queries, longest = len(top.counts), int(top.counts.max())
    if len(top.keys) < n_queries * longest:
        return np.lexsort((top.keys, query))
    # All queries have equally many rows. Sorting a matrix by rows is several times faster than a sort by two keys.
    by_key = np.argsort(top.keys.reshape(n_queries, longest), axis=1)
    return (by_key + longest * np.arange(n_queries)[:, np.newaxis]).ravel()


def _top(block: QueryBlock, counts: IntArray, places: IntArray) -> TopRows:
    n_queries, n = block.keys.shape
    # These shifts lead from a place in the keys to the same database row in the relevance of the query's labels.
    shifts = (block.member - np.arange(n_queries)) * n
    relevance = block.relevance.ravel()[places + np.repeat(shifts, counts)]
    return TopRows(counts, places, block.keys.ravel()[places], relevance)


def _all_rows(block: QueryBlock) -> TopRows:
    n_queries, n = block.keys.shape
    return _top(block, np.full(n_queries, n), np.arange(n_queries * n))


def _queries(top: TopRows) -> IntArray:
    return np.repeat(np.arange(len(top.counts)), top.counts)


def _order(keys: NDArray[Any], relevance: FloatArray, ties: Ties) -> IntArray:
    """Order rows by key; ties are in database order, the most relevant first or the least relevant first."""
    if ties == "stable":
        return np.argsort(keys, kind="stable")
    order = np.argsort(-relevance if ties == "optimistic" else relevance, kind="stable")
    return order[np.argsort(keys[order], kind="stable")]
