"""Relevance between rows from their label sets; learning and scores share this definition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from hashlearn.typing import FloatArray

RelevanceName = Literal["count", "jaccard", "binary"]
RelevanceFunction = Callable[[Any, Any], ArrayLike]
RelevanceRule = RelevanceName | RelevanceFunction
RELEVANCES: tuple[str, ...] = get_args(RelevanceName)


def check_relevance(relevance: Any) -> None:
    """Raise ValueError unless ``relevance`` is a known name or a function."""
    if not callable(relevance) and relevance not in RELEVANCES:
        raise ValueError(f"relevance must be one of {RELEVANCES} or a function. Got {relevance!r} instead.")


def named_relevance(left: Any, right: Any, name: RelevanceName) -> FloatArray:
    """Return the relevance (a, b) between label sets (a, c) and (b, c), both CSR of 0/1.

    "count" is the number of shared labels (the paper), "binary" is 1 if there is any, and "jaccard" is the number of
    shared labels divided by the number of labels that either row has.
    """
    shared = (left @ right.T).toarray()
    if name == "binary":
        return (shared > 0).astype(np.float64)
    if name == "jaccard":
        united = set_sizes(left)[:, None] + set_sizes(right)[None, :] - shared
        return np.divide(shared, united, out=np.zeros_like(shared), where=united > 0)
    return shared


def called_relevance(function: RelevanceFunction, left: Any, right: Any) -> FloatArray:
    """Return the relevances of a user's function as a dense array; raise ValueError unless they are finite (a, b)."""
    result: Any = function(left, right)
    table = np.array(result.toarray() if sparse.issparse(result) else result, dtype=np.float64)
    expected = (left.shape[0], right.shape[0])
    if table.shape != expected:
        raise ValueError(f"The relevance function must return an array of shape {expected}. Got {table.shape}.")
    if not np.isfinite(table).all():
        raise ValueError("The relevance function must return finite numbers.")
    return table


def set_sizes(sets: Any) -> FloatArray:
    """Return the number of labels of each row."""
    return np.asarray(sets.sum(axis=1), dtype=np.float64).ravel()
