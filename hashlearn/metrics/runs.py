"""A ranking problem as the caller states it, checked, with equal rows merged, and its scores."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hashlearn.codes import as_words, check_packed
from hashlearn.metrics.engine import QueryScores, Rules, score_queries
from hashlearn.metrics.rankings import FloatKeys, HammingKeys, Keys, Metric, Progress, asymmetric_keys, check_floats
from hashlearn.metrics.relevance import Relevance
from hashlearn.metrics.scores import mean
from hashlearn.relevance import RelevanceRule
from hashlearn.typing import FloatArray

# Merging equal database rows pays when few remain: all of those are looked at, of others only the near ones.
_MERGE_SHARE = 0.25
# Scores that are 0/0 for some queries, and what says for which.
_DEFINED_BY = {"ap": "ap_defined", "recall": "answerable", "ndcg": "answerable", "ball_recall": "answerable"}


@dataclass(frozen=True)
class Run:
    """Scores of the distinct labeled queries; ``weights`` says how many queries each stands for."""

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
        """Mean over the queries, by the rule for empty ones."""
        counted = None
        if self.rules.empty_queries == "drop" and name in _DEFINED_BY:
            counted = getattr(self.per_query, _DEFINED_BY[name])
        return mean(getattr(self.per_query, name), self.weights, counted)


@dataclass(frozen=True)
class Question:
    """What both sides' labels ask for: which rows are relevant to which.

    ``unlabeled`` is the class that means none; rows without a label are neither asked for nor ranked.
    """

    query_y: Any
    database_y: Any
    relevance: RelevanceRule = "count"
    unlabeled: Hashable = None

    def between(self, n_queries: int, n_database: int) -> Relevance:
        """The relevance between so many rows; ValueError if there are not as many labels, or all of a side lack one."""
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
    query_codes: ArrayLike, database_codes: ArrayLike, question: Question, n_bits: int | None
) -> tuple[NDArray[np.uint8], NDArray[np.uint8], Relevance]:
    """Packed codes of both sides' labeled rows and their relevance, checked against each other."""
    queries = check_packed(query_codes, n_bits, "query_codes")
    database = check_packed(database_codes, n_bits, "database_codes")
    if queries.shape[1] != database.shape[1]:
        raise ValueError(
            "query_codes and database_codes must have the same number of bytes a row. "
            f"Got {queries.shape[1]} and {database.shape[1]}."
        )
    labels = question.between(len(queries), len(database))
    return taken(queries, labels.query_rows), taken(database, labels.database_rows), labels


def run_codes(
    query_codes: ArrayLike,
    database_codes: ArrayLike,
    question: Question,
    n_bits: int | None,
    rules: Rules,
    n_jobs: int | None = None,
    progress: Progress | None = None,
) -> Run:
    """Rank packed database codes for packed queries, or for float projections (then without a radius)."""
    projections = np.asarray(query_codes)
    if projections.dtype.kind == "f":
        return _run_asymmetric(projections, database_codes, question, n_bits, rules, n_jobs, progress)
    queries, database, labels = hamming_problem(query_codes, database_codes, question, n_bits)
    rules = rules.within(len(database))
    # The scores of a query depend on its code and labels only.
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
    return Run(per_query, weights, rules, "hamming", labels)


def _run_asymmetric(
    projections: NDArray[Any],
    database_codes: ArrayLike,
    question: Question,
    n_bits: int | None,
    rules: Rules,
    n_jobs: int | None,
    progress: Progress | None,
) -> Run:
    columns = projections.shape[1] if projections.ndim == 2 else n_bits
    if n_bits is not None and columns != n_bits:
        raise ValueError(f"Float query_codes of {n_bits} bits must have {n_bits} columns. Got {columns} instead.")
    database = check_packed(database_codes, columns, "database_codes")
    queries = check_floats(projections, "query_codes")
    labels = question.between(len(queries), len(database))
    keys = asymmetric_keys(
        taken(queries, labels.query_rows), taken(database, labels.database_rows), int(queries.shape[1])
    )
    return _run_keys(keys, "asymmetric", labels, rules, n_jobs, progress)


def run_floats(
    queries: NDArray[Any],
    database: NDArray[Any],
    question: Question,
    metric: Metric,
    rules: Rules,
    n_jobs: int | None = None,
    progress: Progress | None = None,
) -> Run:
    """Rank float rows by ``metric``."""
    labels = question.between(len(queries), len(database))
    keys = FloatKeys(taken(queries, labels.query_rows), taken(database, labels.database_rows), metric)
    return _run_keys(keys, metric, labels, rules, n_jobs, progress)


def _run_keys(
    keys: Keys, ranking: str, labels: Relevance, rules: Rules, n_jobs: int | None, progress: Progress | None
) -> Run:
    rules = replace(rules.within(keys.n_database), radius=None)
    per_query = score_queries(keys, labels, labels.query_groups, labels.database_groups, None, rules, n_jobs, progress)
    return Run(per_query, np.ones(keys.n_queries), rules, ranking, labels)


def taken(array: NDArray[Any], rows: NDArray[np.intp]) -> NDArray[Any]:
    """Some rows of an array; the array itself, without a copy, when they are all of them."""
    return array if len(rows) == len(array) else array[rows]


def _distinct(codes: NDArray[np.uint8], groups: NDArray[np.intp]) -> tuple[NDArray[np.intp], FloatArray]:
    """One row of each distinct (code, label group), and how many rows are equal to it."""
    words = as_words(codes)
    # Groups last, so that queries with the same labels end up in the same block.
    order = np.lexsort((*words.T, groups))
    words, groups = words[order], groups[order]
    starts = np.flatnonzero(np.any(words[1:] != words[:-1], axis=1) | (groups[1:] != groups[:-1])) + 1
    bounds = np.concatenate([[0], starts, [len(order)]])
    return order[bounds[:-1]], np.diff(bounds).astype(np.float64)
