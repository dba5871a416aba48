"""Relevance of database rows to queries, from the labels of both.

Rows with the same labels form a group, so relevance is a table (query groups, database groups), computed for a few
query groups at a time. ``hashlearn.labels`` defines what labels mean: an unlabeled row has no group, because it is not
known whether it would be a hit; a row with an empty label set is relevant to nothing.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from hashlearn.labels import UNKNOWN, Classes, LabelSets, as_labels, group_rows, match_labels
from hashlearn.metrics.rules import Rules
from hashlearn.similarity import RelevanceRule, called_relevance, check_relevance, named_relevance
from hashlearn.typing import FloatArray, IntArray


class Relevance:
    """Relevance between query groups and database groups.

    Attributes
    ----------
    n_queries, n_database : int
        Number of rows, including unlabeled ones.
    query_rows, database_rows : int array
        Numbers of the labeled rows.
    query_groups, database_groups : int array
        Group of each labeled row.
    group_sizes : int array
        Number of database rows per database group.
    graded : bool
        False if relevance can only be 0 or 1.
    """

    def __init__(
        self, query_y: Any, database_y: Any, relevance: RelevanceRule = "count", unlabeled: Hashable = None
    ) -> None:
        check_relevance(relevance)
        self._relevance = relevance
        queries, database = match_labels(
            as_labels(query_y, unlabeled, "query_y"),
            as_labels(database_y, unlabeled, "database_y"),
            ("query_y", "database_y"),
        )
        self.n_queries, self.n_database = len(queries.known), len(database.known)
        self.query_rows, self.database_rows = np.flatnonzero(queries.known), np.flatnonzero(database.known)
        self.query_groups, self._queries = _grouped(queries)
        self.database_groups, self._database = _grouped(database)
        self.group_sizes = np.bincount(self.database_groups, minlength=self._database.shape[0])
        self._classes = isinstance(queries, Classes)
        if callable(relevance):
            self._queries = _shown(queries, self._queries, sparse.issparse(query_y))
            self._database = _shown(database, self._database, sparse.issparse(database_y))
        self.graded = callable(relevance) or (not self._classes and relevance != "binary")

    def table(self, query_groups: IntArray) -> FloatArray:
        """Return the relevance (len(query_groups), database groups) of these query groups."""
        queries = self._queries[query_groups]
        if callable(self._relevance):
            table = called_relevance(self._relevance, queries, self._database)
            if (table < 0).any():
                raise ValueError("The relevance function must return numbers that are not negative.")
            return table
        if self._classes:
            return (queries[:, None] == self._database[None, :]).astype(np.float64)
        return named_relevance(queries, self._database, self._relevance)

    def hits(self, start: int, stop: int) -> NDArray[np.bool_]:
        """Return which labeled database rows (stop - start, n) are relevant to some labeled queries."""
        distinct, member = np.unique(self.query_groups[start:stop], return_inverse=True)
        return (self.table(distinct) > 0)[:, self.database_groups][member]


def relevance_between(query_y: Any, database_y: Any, rules: Rules, n_queries: int, n_database: int) -> Relevance:
    """Return the relevance; raise ValueError unless labels match the rows and each side has a labeled row."""
    if n_queries == 0 or n_database == 0:
        raise ValueError(f"There must be queries and database rows. Got {n_queries} and {n_database}.")
    labels = Relevance(query_y, database_y, rules.relevance, rules.unlabeled)
    for side, rows, found, labeled in (
        ("query", n_queries, labels.n_queries, labels.query_rows),
        ("database", n_database, labels.n_database, labels.database_rows),
    ):
        if found != rows:
            raise ValueError(f"{side}_y must have one row for each {side} row. Got {found} for {rows}.")
        if len(labeled) == 0:
            raise ValueError(f"No {side} row has a label, so there is nothing to score.")
    return labels


def _grouped(labels: Classes | LabelSets) -> tuple[NDArray[np.intp], Any]:
    """Return the group of each labeled row, and the class number or label set of each group."""
    if isinstance(labels, Classes):
        numbers, groups = np.unique(labels.numbers[labels.known], return_inverse=True)
        return groups, numbers
    sets = labels.sets if labels.known.all() else labels.sets[labels.known]
    groups, rows = group_rows(sets)
    empty = np.flatnonzero(groups == UNKNOWN)
    if len(empty):
        groups[empty] = len(rows)
        rows = np.append(rows, empty[0])
    return groups, sets[rows]


def _shown(labels: Classes | LabelSets, groups: Any, as_sparse: bool) -> Any:
    """Return the labels of groups for a user's function: class values, or label sets (sparse if the user's are)."""
    if isinstance(labels, LabelSets):
        return sparse.csr_array(groups) if as_sparse else groups.toarray()
    names = labels.names
    plain = not names or isinstance(names[0], (bool, int, float, str))
    return (np.array(names) if plain else np.fromiter(names, dtype=object, count=len(names)))[groups]
