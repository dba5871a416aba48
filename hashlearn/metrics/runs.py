"""A ranking problem as the caller states it, checked, with equal rows merged, and its scores."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hashlearn.codes import as_words, check_packed
from hashlearn.metrics.engine import QueryScores, Rules, score_queries
from hashlearn.metrics.rankings import FloatKeys, HammingKeys, Keys, Metric, Progress, asymmetric_keys
from hashlearn.metrics.relevance import Relevance, RelevanceFunction, RelevanceName
from hashlearn.metrics.scores import mean
from hashlearn.typing import FloatArray

# Merging equal database rows pays when few remain: all of those are looked at, of others only the near ones.
_MERGE_SHARE = 0.25
# Scores that are 0/0 for some queries, and what says for which.
_DEFINED_BY = {"ap": "ap_defined", "recall": "answerable", "ndcg": "answerable", "ball_recall": "answerable"}


@dataclass(frozen=True)
class Run:
    """Scores of the distinct queries; ``weights`` says how many queries each stands for."""

    per_query: QueryScores
    weights: FloatArray
    rules: Rules
    ranking: str
    n_database: int

    @property
    def n_queries(self) -> int:
        return int(self.weights.sum())

    def mean(self, name: str) -> float:
        """Mean over the queries, by the rule for empty ones."""
        counted = None
        if self.rules.empty_queries == "drop" and name in _DEFINED_BY:
            counted = getattr(self.per_query, _DEFINED_BY[name])
        return mean(getattr(self.per_query, name), self.weights, counted)


def hamming_problem(
    query_codes: ArrayLike,
    database_codes: ArrayLike,
    query_y: Any,
    database_y: Any,
    n_bits: int | None,
    relevance: RelevanceName | RelevanceFunction,
) -> tuple[NDArray[np.uint8], NDArray[np.uint8], Relevance]:
    """Both sides' packed codes and their relevance, checked against each other."""
    queries = check_packed(query_codes, n_bits, "query_codes")
    database = check_packed(database_codes, n_bits, "database_codes")
    if queries.shape[1] != database.shape[1]:
        raise ValueError(
            "query_codes and database_codes must have the same number of bytes a row. "
            f"Got {queries.shape[1]} and {database.shape[1]}."
        )
    return queries, database, _relevance(len(queries), len(database), query_y, database_y, relevance)


def run_codes(
    query_codes: ArrayLike,
    database_codes: ArrayLike,
    query_y: Any,
    database_y: Any,
    n_bits: int | None,
    relevance: RelevanceName | RelevanceFunction,
    rules: Rules,
    n_jobs: int | None = None,
    progress: Progress | None = None,
) -> Run:
    """Rank packed database codes for packed queries, or for float projections (then without a radius)."""
    projections = np.asarray(query_codes)
    if projections.dtype.kind == "f":
        return _run_asymmetric(
            projections, database_codes, query_y, database_y, n_bits, relevance, rules, n_jobs, progress
        )
    queries, database, labels = hamming_problem(query_codes, database_codes, query_y, database_y, n_bits, relevance)
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
    return Run(per_query, weights, rules, "hamming", len(database))


def _run_asymmetric(
    projections: NDArray[Any],
    database_codes: ArrayLike,
    query_y: Any,
    database_y: Any,
    n_bits: int | None,
    relevance: RelevanceName | RelevanceFunction,
    rules: Rules,
    n_jobs: int | None,
    progress: Progress | None,
) -> Run:
    columns = projections.shape[1] if projections.ndim == 2 else n_bits
    if n_bits is not None and columns != n_bits:
        raise ValueError(f"Float query_codes of {n_bits} bits must have {n_bits} columns. Got {columns} instead.")
    database = check_packed(database_codes, columns, "database_codes")
    keys = asymmetric_keys(projections, database, int(database.shape[1] * 8 if columns is None else columns))
    return _run_keys(keys, "asymmetric", query_y, database_y, relevance, rules, n_jobs, progress)


def run_floats(
    queries: NDArray[Any],
    database: NDArray[Any],
    query_y: Any,
    database_y: Any,
    metric: Metric,
    relevance: RelevanceName | RelevanceFunction,
    rules: Rules,
    n_jobs: int | None = None,
    progress: Progress | None = None,
) -> Run:
    """Rank float rows by ``metric``."""
    keys = FloatKeys(queries, database, metric)
    return _run_keys(keys, metric, query_y, database_y, relevance, rules, n_jobs, progress)


def _run_keys(
    keys: Keys,
    ranking: str,
    query_y: Any,
    database_y: Any,
    relevance: RelevanceName | RelevanceFunction,
    rules: Rules,
    n_jobs: int | None,
    progress: Progress | None,
) -> Run:
    labels = _relevance(keys.n_queries, keys.n_database, query_y, database_y, relevance)
    rules = replace(rules, radius=None)
    per_query = score_queries(keys, labels, labels.query_groups, labels.database_groups, None, rules, n_jobs, progress)
    return Run(per_query, np.ones(keys.n_queries), rules, ranking, keys.n_database)


def _relevance(
    n_queries: int, n_database: int, query_y: Any, database_y: Any, relevance: RelevanceName | RelevanceFunction
) -> Relevance:
    if n_queries == 0 or n_database == 0:
        raise ValueError(f"There must be queries and database rows. Got {n_queries} and {n_database}.")
    labels = Relevance(query_y, database_y, relevance)
    for side, rows, groups in (
        ("query", n_queries, labels.query_groups),
        ("database", n_database, labels.database_groups),
    ):
        if len(groups) != rows:
            raise ValueError(f"{side}_y must have one row for each {side} row. Got {len(groups)} for {rows}.")
    return labels


def _distinct(codes: NDArray[np.uint8], groups: NDArray[np.intp]) -> tuple[NDArray[np.intp], FloatArray]:
    """One row of each distinct (code, label group), and how many rows are equal to it."""
    words = as_words(codes)
    # Groups last, so that queries with the same labels end up in the same block.
    order = np.lexsort((*words.T, groups))
    words, groups = words[order], groups[order]
    starts = np.flatnonzero(np.any(words[1:] != words[:-1], axis=1) | (groups[1:] != groups[:-1])) + 1
    bounds = np.concatenate([[0], starts, [len(order)]])
    return order[bounds[:-1]], np.diff(bounds).astype(np.float64)
