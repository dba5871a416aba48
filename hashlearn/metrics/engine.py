"""Compute the scores of each query from keys and relevance, one block of queries at a time."""

from __future__ import annotations

import sys
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from hashlearn.metrics.lists import QueryBlock, Ties, balls, ordered, tie_groups, top_rows
from hashlearn.metrics.rankings import Keys, Progress, map_blocks
from hashlearn.metrics.relevance import Relevance
from hashlearn.metrics.scores import Denominator, Gain, average_precision, dcg, divide, ideal_dcg
from hashlearn.metrics.ties import expected_average_precision, expected_dcg, expected_hits
from hashlearn.typing import FloatArray

EmptyQueries = Literal["zero", "drop"]
ALL = sys.maxsize
"""A cut-off that includes all database rows."""


@dataclass(frozen=True)
class Rules:
    """Which scores to compute, and by which definitions.

    A score whose cut-off is 0 or whose radius is None is not computed and is 0.
    """

    at: int = 0
    precision_at: int = 0
    ndcg_at: int = 0
    radius: int | None = None
    ties: Ties = "expected"
    denominator: Denominator = "retrieved"
    empty_queries: EmptyQueries = "zero"
    gain: Gain = "exp"

    def __post_init__(self) -> None:
        check_choice("ties", self.ties, Ties)
        check_choice("denominator", self.denominator, Denominator)
        check_choice("empty_queries", self.empty_queries, EmptyQueries)
        check_choice("gain", self.gain, Gain)
        if self.radius is not None and self.radius < 0:
            raise ValueError(f"radius must not be negative. Got {self.radius} instead.")

    def within(self, n_database: int) -> Rules:
        """Return the same rules with cut-offs limited to the number of database rows."""
        at, precision_at, ndcg_at = (min(value, n_database) for value in (self.at, self.precision_at, self.ndcg_at))
        return replace(self, at=at, precision_at=precision_at, ndcg_at=ndcg_at)

    @property
    def depth(self) -> int:
        """Number of positions of a ranking that some score needs."""
        return max(self.at, self.precision_at, self.ndcg_at)


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


def check_choice(name: str, value: str, choices: Any) -> None:
    """Raise ValueError unless ``value`` is one of the strings of the Literal type ``choices``."""
    if value not in get_args(choices):
        raise ValueError(f"{name} must be one of {get_args(choices)}. Got {value!r} instead.")


def cutoff(name: str, value: int | None) -> int:
    """Return a cut-off as a number; None means all rows of the database."""
    if value is None:
        return ALL
    if value < 1:
        raise ValueError(f"{name} must be a positive number, or None for the whole database. Got {value} instead.")
    return int(value)


def score_queries(
    keys: Keys,
    relevance: Relevance,
    query_groups: NDArray[np.intp],
    database_groups: NDArray[np.intp],
    sizes: FloatArray | None,
    rules: Rules,
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
        return _score_block(block, table, group_sizes, rules)

    # The first term is for keys, relevance and temporary arrays, the second for the rows that reach the cut-off. Tie
    # groups of Hamming distances are so few that their memory does not matter.
    listed = 0 if keys.exact and rules.ties == "expected" else min(rules.depth, keys.n_database)
    bytes_per_query = 16 * keys.n_database + 128 * listed
    blocks = map_blocks(keys.n_queries, bytes_per_query, work, n_jobs, progress)
    return QueryScores(
        **{
            field.name: np.concatenate([getattr(block, field.name) for block in blocks])
            for field in fields(QueryScores)
        }
    )


def _score_block(block: QueryBlock, relevance: FloatArray, group_sizes: FloatArray, rules: Rules) -> QueryScores:
    """Score a block; ``relevance`` is the table of the block's distinct query labels and all database groups."""
    total = ((relevance > 0) @ group_sizes)[block.member]
    best = np.array([ideal_dcg(row, group_sizes, rules.ndcg_at, rules.gain) for row in relevance])[block.member]
    top = top_rows(block, rules.depth, rules.radius)
    if rules.ties == "expected":
        groups = tie_groups(block, top, rules.gain)
        ap, ap_defined = expected_average_precision(groups, total, rules.at, rules.denominator)
        first_hits, hits = expected_hits(groups, rules.precision_at), expected_hits(groups, rules.at)
        gained = expected_dcg(groups, rules.ndcg_at, rules.gain)
    else:
        found = ordered(block, top, rules.ties, rules.depth)
        hit = found > 0
        ap, ap_defined = average_precision(hit, total, rules.at, rules.denominator)
        first_hits = hit[:, : rules.precision_at].sum(axis=1, dtype=np.float64)
        hits = hit[:, : rules.at].sum(axis=1, dtype=np.float64)
        gained = dcg(found, rules.ndcg_at, rules.gain)
    recall, answerable = divide(hits, total)
    inside, hits_inside, relevance_inside = balls(block, top, rules.radius)
    return QueryScores(
        ap=ap,
        ap_defined=ap_defined,
        precision=first_hits / max(1, rules.precision_at),
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
