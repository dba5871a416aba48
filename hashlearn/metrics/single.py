"""One function per score. Parameters mean what they mean in ``evaluate``; only what the score needs is computed."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from hashlearn.codes import check_packed
from hashlearn.metrics.engine import EmptyQueries, Rules, Ties, cutoff, radius_counts
from hashlearn.metrics.ranking_scores import RelevanceLabels, hamming_problem, score_code_ranking
from hashlearn.metrics.rankings import HammingKeys, Progress
from hashlearn.metrics.scores import Denominator, Gain, divide
from hashlearn.relevance import RelevanceRule
from hashlearn.typing import FloatArray


class RadiusScores(NamedTuple):
    """Precision and recall within a Hamming radius, and the share of queries with an empty ball."""

    precision: float
    recall: float
    empty_share: float


class Curve(NamedTuple):
    """Precision and recall within each Hamming radius 0, 1, … n_bits."""

    radius: np.ndarray
    precision: FloatArray
    recall: FloatArray


def mean_average_precision(
    query_codes: ArrayLike,
    database_codes: ArrayLike,
    query_y: Any,
    database_y: Any,
    *,
    n_bits: int | None = None,
    at: int | None = 500,
    ties: Ties = "expected",
    denominator: Denominator = "retrieved",
    empty_queries: EmptyQueries = "zero",
    relevance: RelevanceRule = "count",
    unlabeled: Hashable = None,
    n_jobs: int | None = None,
    progress: Progress | None = None,
) -> float:
    """Return MAP@at; ``at=None`` means the whole database. The parameters are those of ``evaluate``."""
    rules = Rules(
        at=cutoff("at", at),
        ties=ties,
        denominator=denominator,
        empty_queries=empty_queries,
    )
    given_labels = RelevanceLabels(query_y, database_y, relevance, unlabeled)
    scored = score_code_ranking(query_codes, database_codes, given_labels, n_bits, rules, n_jobs, progress)
    return scored.mean("ap")


def ndcg(
    query_codes: ArrayLike,
    database_codes: ArrayLike,
    query_y: Any,
    database_y: Any,
    *,
    n_bits: int | None = None,
    at: int | None = 50,
    gain: Gain = "exp",
    ties: Ties = "expected",
    empty_queries: EmptyQueries = "zero",
    relevance: RelevanceRule = "count",
    unlabeled: Hashable = None,
    n_jobs: int | None = None,
    progress: Progress | None = None,
) -> float:
    """Return NDCG@at with the ideal ranking of the whole database. The parameters are those of ``evaluate``."""
    rules = Rules(ndcg_at=cutoff("at", at), gain=gain, ties=ties, empty_queries=empty_queries)
    given_labels = RelevanceLabels(query_y, database_y, relevance, unlabeled)
    scored = score_code_ranking(query_codes, database_codes, given_labels, n_bits, rules, n_jobs, progress)
    return scored.mean("ndcg")


def precision_at(
    query_codes: ArrayLike,
    database_codes: ArrayLike,
    query_y: Any,
    database_y: Any,
    k: int = 10,
    *,
    n_bits: int | None = None,
    ties: Ties = "expected",
    relevance: RelevanceRule = "count",
    unlabeled: Hashable = None,
    n_jobs: int | None = None,
    progress: Progress | None = None,
) -> float:
    """Return the share of relevant rows among the first k, or among all rows if the database is smaller.

    The other parameters are those of ``evaluate``.
    """
    rules = Rules(precision_at=cutoff("k", k), ties=ties)
    given_labels = RelevanceLabels(query_y, database_y, relevance, unlabeled)
    scored = score_code_ranking(query_codes, database_codes, given_labels, n_bits, rules, n_jobs, progress)
    return scored.mean("precision")


def acg(
    query_codes: ArrayLike,
    database_codes: ArrayLike,
    query_y: Any,
    database_y: Any,
    *,
    n_bits: int | None = None,
    radius: int = 2,
    relevance: RelevanceRule = "count",
    unlabeled: Hashable = None,
    n_jobs: int | None = None,
    progress: Progress | None = None,
) -> float:
    """Return the mean relevance of the rows within a Hamming radius; an empty ball has 0.

    The parameters are those of ``evaluate``.
    """
    _check_packed_queries(query_codes)
    rules = Rules(radius=radius)
    given_labels = RelevanceLabels(query_y, database_y, relevance, unlabeled)
    scored = score_code_ranking(query_codes, database_codes, given_labels, n_bits, rules, n_jobs, progress)
    return scored.mean("ball_acg")


def precision_recall_at_radius(
    query_codes: ArrayLike,
    database_codes: ArrayLike,
    query_y: Any,
    database_y: Any,
    *,
    n_bits: int | None = None,
    radius: int = 2,
    empty_queries: EmptyQueries = "zero",
    relevance: RelevanceRule = "count",
    unlabeled: Hashable = None,
    n_jobs: int | None = None,
    progress: Progress | None = None,
) -> RadiusScores:
    """Return mean precision and recall within a Hamming radius; an empty ball has precision 0.

    The parameters are those of ``evaluate``; ``empty_queries`` concerns only recall.

    Returns
    -------
    RadiusScores
    """
    _check_packed_queries(query_codes)
    rules = Rules(radius=radius, empty_queries=empty_queries)
    given_labels = RelevanceLabels(query_y, database_y, relevance, unlabeled)
    scored = score_code_ranking(query_codes, database_codes, given_labels, n_bits, rules, n_jobs, progress)
    return RadiusScores(scored.mean("ball_precision"), scored.mean("ball_recall"), scored.mean("ball_empty"))


def precision_recall_curve(
    query_codes: ArrayLike,
    database_codes: ArrayLike,
    query_y: Any,
    database_y: Any,
    *,
    n_bits: int | None = None,
    relevance: RelevanceRule = "count",
    unlabeled: Hashable = None,
    n_jobs: int | None = None,
    progress: Progress | None = None,
) -> Curve:
    """Return precision and recall within every radius, micro-averaged. The parameters are those of ``evaluate``.

    At each radius the (query, row) pairs of all queries are pooled. Precision is the share of retrieved pairs that are
    relevant (0 if no pair is retrieved); recall is the share of relevant pairs that are retrieved. Queries with full
    balls weigh more, so the values differ from ``precision_recall_at_radius``, which averages over queries. Without
    ``n_bits`` the radius goes up to the number of bits in the bytes.

    Returns
    -------
    Curve
    """
    _check_packed_queries(query_codes)
    given_labels = RelevanceLabels(query_y, database_y, relevance, unlabeled)
    queries, database, labels = hamming_problem(query_codes, database_codes, given_labels, n_bits)
    n_distances = 8 * queries.shape[1] + 1
    rows, hits = radius_counts(HammingKeys(queries, database), labels, n_distances, n_jobs, progress)
    radius = np.arange(n_distances if n_bits is None else n_bits + 1)
    rows, hits = np.cumsum(rows)[radius], np.cumsum(hits)[radius]
    total = np.full(len(radius), hits[-1])
    return Curve(radius, divide(hits, rows)[0], divide(hits, total)[0])


def _check_packed_queries(query_codes: ArrayLike) -> None:
    # Float queries have no Hamming radius.
    check_packed(query_codes, name="query_codes")
