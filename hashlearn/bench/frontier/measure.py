"""Measure one fitted codec: scores by labels, agreement with the floats, bytes and time."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hashlearn import metrics
from hashlearn.codecs import Codec
from hashlearn.codecs.base import best_places, unit_rows
from hashlearn.data.embedded import Dataset
from hashlearn.typing import Float32Array, IntArray, PackedCodes

K = 10
_LEAST_SECONDS = 0.05


@dataclass(frozen=True)
class FrontierPoint:
    """One way to search the codes of one fit. ``scores`` has map, ndcg and recall by split; times are per query."""

    label: str
    method: str
    asked_bytes: int
    seed: int
    supervised: bool
    bytes: int
    model_bytes: int
    fit_seconds: float
    encode_seconds: float
    search_seconds: float
    scores: dict[str, dict[str, float]]
    machine: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class SplitRows:
    """A split and the nearest database rows of its queries by the cosine of the floats."""

    name: str
    rows: Dataset
    neighbors: IntArray

    @classmethod
    def of(cls, name: str, rows: Dataset) -> SplitRows:
        cosines = unit_rows(rows.query_X) @ unit_rows(rows.database_X).T
        return cls(name, rows, best_places(cosines, K))


def split_scores(codec: Codec, split: SplitRows, codes: PackedCodes) -> dict[str, float]:
    """MAP of the whole ranking, NDCG@10, and recall@10 of the float neighbors. ``codes`` are those of the database."""
    rows = split.rows
    scores = codec.scores(rows.query_X, codes)
    found = metrics.evaluate_scores(scores, rows.query_y, rows.database_y, at=None, ndcg_at=K)
    return {"map": found.map, "ndcg": found.ndcg, "recall": neighbor_recall(scores, split.neighbors)}


def neighbor_recall(scores: Float32Array, neighbors: IntArray) -> float:
    """Mean share of the true neighbors among the first rows, expected over random orders of equal scores.

    >>> neighbor_recall(np.array([[3.0, 1.0, 1.0, 1.0]]), np.array([[0, 1]]))
    0.6666666666666666
    """
    count = neighbors.shape[1]
    last = -np.partition(-scores, count - 1, axis=1)[:, [count - 1]]
    above, tied = scores > last, scores == last
    # Of the tied rows, so many are among the first; each of them is so with the same chance.
    chance = (count - above.sum(axis=1)) / tied.sum(axis=1)
    true_above = np.take_along_axis(above, neighbors, axis=1).sum(axis=1)
    true_tied = np.take_along_axis(tied, neighbors, axis=1).sum(axis=1)
    return float(np.mean((true_above + chance * true_tied) / count))


def seconds_per_query(work: Callable[[NDArray[Any]], Any], queries: NDArray[Any]) -> float:
    """The shortest time per query of several calls, because other work on the machine only makes calls longer."""
    best, spent = float("inf"), 0.0
    while spent < _LEAST_SECONDS or best == float("inf"):
        started = time.perf_counter()
        work(queries)
        took = time.perf_counter() - started
        best, spent = min(best, took), spent + took
    return best / len(queries)
