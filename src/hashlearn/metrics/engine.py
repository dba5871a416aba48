"""Compute the scores of each query from keys and relevance, one block of queries at a time.

Only rows that can reach the cut-off are used. A few large array operations handle them for the whole block, because
with many small operations the threads would wait for each other.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
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


@dataclass(frozen=True)
class QueryScores:
    """Scores with one number per query.

    ``ap_defined`` is the probability that AP is not 0/0; ``answerable`` is 1 if any row is relevant.
    """

    ap: FloatArray
    ap_defined: FloatArray
    precision: FloatArray
    recall: FloatArray
    ndcg: FloatArray
    answerable: FloatArray
    ball_precision: FloatArray
    ball_recall: FloatArray
    ball_acg: FloatArray
    ball_empty: FloatArray


def score_queries(
    keys: Keys,
    relevance: Relevance,
    query_groups: NDArray[np.intp],
    database_groups: NDArray[np.intp],
    sizes: FloatArray | None,
    rules: Rules,
    depths: Depths,
    n_jobs: int | None = None,
    progress: Progress | None = None,
) -> QueryScores:
    """Score every query of ``keys``.

    ``keys`` may have fewer rows than the caller has, because equal rows are merged; the groups are those of the rows of
    ``keys``. ``sizes`` is the number of the caller's database rows that each database row of ``keys`` represents; None
    means one each.
    """
    group_sizes = relevance.group_sizes.astype(np.float64)

    def work(start: int, stop: int) -> QueryScores:
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
    return QueryScores(
        **{
            field.name: np.concatenate([getattr(block, field.name) for block in blocks])
            for field in fields(QueryScores)
        }
    )


def _score_block(
    block: QueryBlock, relevance: FloatArray, group_sizes: FloatArray, rules: Rules, depths: Depths
) -> QueryScores:
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
    inside, hits_inside, relevance_inside = balls(block, top, rules.radius)
    return QueryScores(
        ap=ap,
        ap_defined=ap_defined,
        precision=first_hits / max(1, depths.precision_at),
        recall=recall,
        ndcg=divide(gained, best)[0],
        answerable=answerable,
        ball_precision=divide(hits_inside, inside)[0],
        ball_recall=divide(hits_inside, total)[0],
        ball_acg=divide(relevance_inside, inside)[0],
        ball_empty=(inside == 0).astype(np.float64),
    )


def radius_counts(
    keys: Keys,
    relevance: Relevance,
    n_distances: int,
    n_jobs: int | None = None,
    progress: Progress | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Count rows and hits at each distance 0 … n_distances − 1, summed over the queries. The keys must be exact."""

    def work(start: int, stop: int) -> tuple[FloatArray, FloatArray]:
        distinct, member = np.unique(relevance.query_groups[start:stop], return_inverse=True)
        hits = (relevance.table(distinct) > 0)[:, relevance.database_groups]
        block = keys.block(start, stop)
        found = [block[query][hits[member[query]]] for query in range(len(block))]
        width = n_distances
        counted = np.bincount(block.ravel(), minlength=width), np.bincount(np.concatenate(found), minlength=width)
        return counted[0].astype(np.float64), counted[1].astype(np.float64)

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
    if top is None:
        return np.stack(
            [
                relevance[_order(keys, relevance, ties)[:depth]]
                for keys, relevance in zip(block.keys, block.relevance[block.member], strict=True)
            ]
        )
    query = _queries(top).astype(np.uint16 if len(top.counts) < 2**16 else np.intp)
    order = _order(top.keys, top.relevance, ties)
    # The last sort is by query. It is stable, and fast because NumPy sorts small integers by counting.
    order = order[np.argsort(query[order], kind="stable")]
    starts = np.cumsum(top.counts) - top.counts
    return top.relevance[order[starts[:, None] + np.arange(depth)]]


def balls(block: QueryBlock, top: TopRows | None, radius: int | None) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return rows, hits and summed relevance within the radius of each query."""
    n_queries, n = block.keys.shape
    if radius is None:
        return np.zeros(n_queries), np.zeros(n_queries), np.zeros(n_queries)
    if top is None:
        top = _top(block, *true_places(block.keys <= radius))
    within = np.flatnonzero(top.keys <= radius)
    query, relevance = _queries(top)[within], top.relevance[within]
    sizes = np.ones(len(within)) if block.sizes is None else block.sizes[top.places[within] % n]
    rows, hits, summed = (
        np.bincount(query, weights, n_queries).astype(np.float64, copy=False)
        for weights in (sizes, sizes * (relevance > 0), sizes * relevance)
    )
    return rows, hits, summed


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
