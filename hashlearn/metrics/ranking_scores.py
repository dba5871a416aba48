"""Check a ranking problem, merge equal rows and score the ranking."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hashlearn.codes import as_words, check_packed
from hashlearn.metrics.engine import QueryScores, Rules, score_queries
from hashlearn.metrics.rankings import (
    FloatKeys,
    HammingKeys,
    Keys,
    Progress,
    ScoreKeys,
    asymmetric_keys,
    check_floats,
)
from hashlearn.metrics.relevance import Relevance
from hashlearn.metrics.scores import mean
from hashlearn.relevance import RelevanceRule
from hashlearn.typing import FloatArray, Metric

# Merging equal database rows saves time only if few remain, because all merged rows are used, not just the near ones.
_MERGE_SHARE = 0.25
# Scores that are 0/0 for some queries, and the field that says for which queries they are defined.
_DEFINED_BY = {"ap": "ap_defined", "recall": "answerable", "ndcg": "answerable", "ball_recall": "answerable"}


@dataclass(frozen=True)
class RankingScores:
    """Scores of the distinct labeled queries; ``weights`` is the number of queries that each represents."""

    per_query: QueryScores
    weights: FloatArray
    rules: Rules
    ranking: str
    labels: Relevance

    @property
    def n_database(self) -> int:
        return len(self.labels.database_rows)

    @property
    def n_queries(self) -> int:
        return int(self.weights.sum())

    def mean(self, name: str) -> float:
        """Return the mean of a score over the queries; ``rules.empty_queries`` decides how 0/0 counts."""
        counted = None
        if self.rules.empty_queries == "drop" and name in _DEFINED_BY:
            counted = getattr(self.per_query, _DEFINED_BY[name])
        return mean(getattr(self.per_query, name), self.weights, counted)


@dataclass(frozen=True)
class RelevanceLabels:
    """Labels of queries and database, and the rule that makes relevance of them.

    ``unlabeled`` is the class of rows without a label. Such rows are neither used as queries nor ranked.
    """

    query_y: Any
    database_y: Any
    relevance: RelevanceRule = "count"
    unlabeled: Hashable = None

    def relevance_between(self, n_queries: int, n_database: int) -> Relevance:
        """Return the relevance; raise ValueError unless labels match the rows and each side has a labeled row."""
        if n_queries == 0 or n_database == 0:
            raise ValueError(f"There must be queries and database rows. Got {n_queries} and {n_database}.")
        labels = Relevance(self.query_y, self.database_y, self.relevance, self.unlabeled)
        for side, rows, found, labeled in (
            ("query", n_queries, labels.n_queries, labels.query_rows),
            ("database", n_database, labels.n_database, labels.database_rows),
        ):
            if found != rows:
                raise ValueError(f"{side}_y must have one row for each {side} row. Got {found} for {rows}.")
            if len(labeled) == 0:
                raise ValueError(f"No {side} row has a label, so there is nothing to score.")
        return labels


def hamming_problem(
    query_codes: ArrayLike, database_codes: ArrayLike, given_labels: RelevanceLabels, n_bits: int | None
) -> tuple[NDArray[np.uint8], NDArray[np.uint8], Relevance]:
    """Check codes and labels, and return the packed codes of the labeled rows of both sides and their relevance."""
    queries = check_packed(query_codes, n_bits, "query_codes")
    database = check_packed(database_codes, n_bits, "database_codes")
    if queries.shape[1] != database.shape[1]:
        raise ValueError(
            "query_codes and database_codes must have the same number of bytes per row. "
            f"Got {queries.shape[1]} and {database.shape[1]}."
        )
    labels = given_labels.relevance_between(len(queries), len(database))
    return take_rows(queries, labels.query_rows), take_rows(database, labels.database_rows), labels


def score_code_ranking(
    query_codes: ArrayLike,
    database_codes: ArrayLike,
    given_labels: RelevanceLabels,
    n_bits: int | None,
    rules: Rules,
    n_jobs: int | None = None,
    progress: Progress | None = None,
) -> RankingScores:
    """Score the ranking of packed database codes by packed queries, or by float projections (then without a radius)."""
    projections = np.asarray(query_codes)
    if projections.dtype.kind == "f":
        return _score_asymmetric_ranking(projections, database_codes, given_labels, n_bits, rules, n_jobs, progress)
    queries, database, labels = hamming_problem(query_codes, database_codes, given_labels, n_bits)
    rules = rules.within(len(database))
    # The scores of a query depend only on its code and labels, so equal queries are scored once.
    first_query, weights = _distinct(queries, labels.query_groups)
    rows, sizes = np.arange(len(database)), None
    if rules.ties == "expected":
        first_row, row_sizes = _distinct(database, labels.database_groups)
        if len(first_row) <= _MERGE_SHARE * len(database):
            rows, sizes = first_row, row_sizes
    per_query = score_queries(
        HammingKeys(queries[first_query], database[rows]),
        labels,
        labels.query_groups[first_query],
        labels.database_groups[rows],
        sizes,
        rules,
        n_jobs,
        progress,
    )
    return RankingScores(per_query, weights, rules, "hamming", labels)


def _score_asymmetric_ranking(
    projections: NDArray[Any],
    database_codes: ArrayLike,
    given_labels: RelevanceLabels,
    n_bits: int | None,
    rules: Rules,
    n_jobs: int | None,
    progress: Progress | None,
) -> RankingScores:
    columns = projections.shape[1] if projections.ndim == 2 else n_bits
    if n_bits is not None and columns != n_bits:
        raise ValueError(f"Float query_codes of {n_bits} bits must have {n_bits} columns. Got {columns} instead.")
    database = check_packed(database_codes, columns, "database_codes")
    queries = check_floats(projections, "query_codes")
    labels = given_labels.relevance_between(len(queries), len(database))
    keys = asymmetric_keys(
        take_rows(queries, labels.query_rows), take_rows(database, labels.database_rows), int(queries.shape[1])
    )
    return _score_keys(keys, "asymmetric", labels, rules, n_jobs, progress)


def score_float_ranking(
    queries: NDArray[Any],
    database: NDArray[Any],
    given_labels: RelevanceLabels,
    metric: Metric,
    rules: Rules,
    n_jobs: int | None = None,
    progress: Progress | None = None,
) -> RankingScores:
    """Score the ranking of float rows by ``metric``."""
    labels = given_labels.relevance_between(len(queries), len(database))
    keys = FloatKeys(take_rows(queries, labels.query_rows), take_rows(database, labels.database_rows), metric)
    return _score_keys(keys, metric, labels, rules, n_jobs, progress)


def score_given_ranking(
    scores: NDArray[Any],
    given_labels: RelevanceLabels,
    rules: Rules,
    n_jobs: int | None = None,
    progress: Progress | None = None,
) -> RankingScores:
    """Score the ranking that a table of similarities (queries, database) gives."""
    labels = given_labels.relevance_between(*scores.shape)
    chosen = take_rows(take_rows(scores, labels.query_rows).T, labels.database_rows).T
    return _score_keys(ScoreKeys(chosen), "given", labels, rules, n_jobs, progress)


def _score_keys(
    keys: Keys, ranking: str, labels: Relevance, rules: Rules, n_jobs: int | None, progress: Progress | None
) -> RankingScores:
    rules = replace(rules.within(keys.n_database), radius=None)
    per_query = score_queries(keys, labels, labels.query_groups, labels.database_groups, None, rules, n_jobs, progress)
    return RankingScores(per_query, np.ones(keys.n_queries), rules, ranking, labels)


def take_rows(array: NDArray[Any], rows: NDArray[np.intp]) -> NDArray[Any]:
    """Return some rows of an array, or the array itself without a copy if they are all of its rows."""
    return array if len(rows) == len(array) else array[rows]


def _distinct(codes: NDArray[np.uint8], groups: NDArray[np.intp]) -> tuple[NDArray[np.intp], FloatArray]:
    """Return one row of each distinct (code, label group), and how many rows are equal to it."""
    words = as_words(codes)
    # Groups are the primary key (last in lexsort), so that queries with the same labels are in the same block.
    order = np.lexsort((*words.T, groups))
    words, groups = words[order], groups[order]
    starts = np.flatnonzero(np.any(words[1:] != words[:-1], axis=1) | (groups[1:] != groups[:-1])) + 1
    bounds = np.concatenate([[0], starts, [len(order)]])
    return order[bounds[:-1]], np.diff(bounds).astype(np.float64)
