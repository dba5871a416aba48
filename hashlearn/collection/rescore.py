"""Second look at the nearest codes: rank them again by the float vectors that the collection keeps."""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from hashlearn.collection.store import Vectors
from hashlearn.index import Hits
from hashlearn.typing import Ids

Metric = Literal["cosine", "euclidean", "dot"]
DEFAULT_FACTOR = 10


def checked_factor(rescore: Any) -> float:
    """By how much to oversample: True is the usual factor."""
    if rescore is True:
        return DEFAULT_FACTOR
    number = isinstance(rescore, (int, float, np.number)) and not isinstance(rescore, bool)
    if not number or not 1 <= rescore < np.inf:
        raise ValueError(f"rescore must be True or a number from 1, how many times k to look at. Got {rescore!r}.")
    return float(rescore)


def checked_metric(metric: Any) -> Metric:
    if metric not in get_args(Metric):
        raise ValueError(f"metric must be 'cosine', 'euclidean' or 'dot'. Got {metric!r} instead.")
    return metric


def rescored(queries: Vectors, candidates: Ids, ids: Ids, vectors: Vectors, k: int, metric: Metric) -> Hits:
    """The k best of each query's candidates by (distance, id).

    candidates : (queries, m) ids with -1 in empty places. ids, vectors : the rows that are still there, by id.
    """
    found = Hits(np.full((len(queries), k), -1, dtype=np.int64), np.full((len(queries), k), np.inf, dtype=np.float32))
    for number, query in enumerate(queries):
        places = np.searchsorted(ids, candidates[number])
        there = (candidates[number] >= 0) & (places < len(ids))
        there[there] = ids[places[there]] == candidates[number][there]
        rows = np.sort(places[there])
        distances = _distances(query, vectors[rows], metric)
        best = np.lexsort((ids[rows], distances))[:k]
        found.ids[number, : len(best)] = ids[rows[best]]
        found.distances[number, : len(best)] = distances[best]
    return found


def _distances(query: NDArray[np.float32], vectors: Vectors, metric: Metric) -> NDArray[np.float32]:
    one, many = query.astype(np.float64), vectors.astype(np.float64)
    if metric == "euclidean":
        return np.sqrt(np.square(many - one).sum(axis=1)).astype(np.float32)
    products = many @ one
    if metric == "dot":
        return (-products).astype(np.float32)
    sizes = np.sqrt(np.square(many).sum(axis=1)) * np.sqrt(np.square(one).sum())
    # A vector of zeros has no direction: it is as far as one at a right angle.
    return (1 - np.divide(products, sizes, out=np.zeros_like(products), where=sizes > 0)).astype(np.float32)
