"""How relevant a database row is to a query, from the labels of both.

Rows with the same labels form a group, so relevance is a table of (query groups, database groups), made a few
query groups at a time. No class is special: -1 or None is a label like any other, and rows that carry it are
relevant to each other. A row with an empty label set is relevant to nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

RelevanceFunction = Callable[[Any, Any], ArrayLike]
RelevanceName = Literal["count", "binary", "jaccard"]
_NAMES = ("count", "binary", "jaccard")


class Relevance:
    """Relevance between query groups and database groups.

    Attributes
    ----------
    query_groups, database_groups : group of each row
    group_sizes : database rows in each database group
    graded : False when relevance can only be 0 or 1
    """

    def __init__(self, query_y: Any, database_y: Any, relevance: RelevanceName | RelevanceFunction = "count") -> None:
        if not callable(relevance) and relevance not in _NAMES:
            raise ValueError(f"relevance must be one of {_NAMES} or a function. Got {relevance!r} instead.")
        self._relevance = relevance
        queries, database = _as_labels(query_y, "query_y"), _as_labels(database_y, "database_y")
        if queries.ndim != database.ndim:
            raise ValueError(
                "query_y and database_y must both be classes (1-D) or both be label sets (2-D). "
                f"Got {queries.ndim}-D and {database.ndim}-D."
            )
        self._classes = queries.ndim == 1
        if self._classes:
            query_keys, database_keys = queries.tolist(), database.tolist()
        else:
            if queries.shape[1] != database.shape[1]:
                raise ValueError(
                    "query_y and database_y must have the same number of labels. "
                    f"Got {queries.shape[1]} and {database.shape[1]}."
                )
            query_sets, database_sets = _as_sets(queries, "query_y"), _as_sets(database, "database_y")
            query_keys, database_keys = _row_keys(query_sets), _row_keys(database_sets)
            # A function sees dense labels if it was given dense labels; the named relevances use the sparse form.
            if not (callable(relevance) and isinstance(queries, np.ndarray)):
                queries = query_sets
            if not (callable(relevance) and isinstance(database, np.ndarray)):
                database = database_sets
        self.query_groups, query_rows = _grouped(query_keys)
        self.database_groups, database_rows = _grouped(database_keys)
        self.group_sizes = np.bincount(self.database_groups, minlength=len(database_rows))
        self._query_labels, self._database_labels = queries[query_rows], database[database_rows]
        if self._classes:
            # One numbering for both sides, so that equal numbers mean equal classes.
            classes: dict[Hashable, int] = {}
            self._query_ids = _numbered((query_keys[row] for row in query_rows), classes)
            self._database_ids = _numbered((database_keys[row] for row in database_rows), classes)
        self.graded = callable(relevance) or (not self._classes and relevance != "binary")

    def table(self, query_groups: NDArray[np.intp]) -> NDArray[np.float64]:
        """Relevance (len(query_groups), database groups) of these query groups."""
        if callable(self._relevance):
            return self._called(self._relevance, query_groups)
        if self._classes:
            return (self._query_ids[query_groups, None] == self._database_ids[None, :]).astype(np.float64)
        queries = self._query_labels[query_groups]
        shared = (queries @ self._database_labels.T).toarray()
        if self._relevance == "binary":
            return (shared > 0).astype(np.float64)
        if self._relevance == "jaccard":
            united = _set_sizes(queries)[:, None] + _set_sizes(self._database_labels)[None, :] - shared
            return np.divide(shared, united, out=shared, where=united > 0)
        return shared

    def _called(self, function: RelevanceFunction, query_groups: NDArray[np.intp]) -> NDArray[np.float64]:
        queries = self._query_labels[query_groups]
        result: Any = function(queries, self._database_labels)
        table = np.array(result.toarray() if sparse.issparse(result) else result, dtype=np.float64)
        expected = (len(query_groups), len(self.group_sizes))
        if table.shape != expected:
            raise ValueError(f"The relevance function must return an array of shape {expected}. Got {table.shape}.")
        if not (np.isfinite(table).all() and (table >= 0).all()):
            raise ValueError("The relevance function must return finite numbers that are not negative.")
        return table


def _as_labels(y: Any, name: str) -> Any:
    """The labels as an array or sparse array of 1 or 2 dimensions."""
    if sparse.issparse(y):
        return y
    labels = np.asarray(y)
    if labels.ndim not in (1, 2):
        raise ValueError(f"{name} must be 1-D classes or 2-D label sets. Got {labels.ndim}-D instead.")
    if labels.ndim == 1 and labels.dtype.kind == "f" and np.isnan(labels).any():
        raise ValueError(f"{name} must not contain NaN.")
    return labels


def _as_sets(y: Any, name: str) -> Any:
    """Label sets as a new CSR array of ones in canonical form; the caller's stays as it is."""
    sets = sparse.csr_array(y, copy=True)
    sets.sum_duplicates()
    sets.eliminate_zeros()
    if np.any(sets.data != 1):
        raise ValueError(f"{name} must hold only 0 and 1 when it is 2-D.")
    return sets.astype(np.float64)


def _row_keys(sets: Any) -> list[bytes]:
    bounds = sets.indptr.tolist()
    return [sets.indices[start:stop].tobytes() for start, stop in pairwise(bounds)]


def _numbered(keys: Iterable[Hashable], numbers: dict[Hashable, int]) -> NDArray[np.intp]:
    """A number for each key, new keys being added to ``numbers``."""
    try:
        return np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.intp)
    except TypeError as error:
        raise ValueError(f"Classes must be hashable: {error}.") from error


def _grouped(keys: Iterable[Hashable]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Group of each row, and one row of each group."""
    groups = _numbered(keys, {})
    return groups, np.unique(groups, return_index=True)[1]


def _set_sizes(sets: Any) -> NDArray[np.float64]:
    return np.asarray(sets.sum(axis=1), dtype=np.float64).ravel()
