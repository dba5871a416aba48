"""Scores of ordered lists, and the parts of scores that do not depend on the order.

``hits`` and ``relevance`` are (queries, positions) matrices, best position first. Each score is one number per query;
``mean`` averages them.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from hashlearn.typing import FloatArray

Denominator = Literal["retrieved", "min", "relevant"]
Gain = Literal["exp", "linear"]


def average_precision(
    hits: NDArray[np.bool_], total: FloatArray, at: int, denominator: Denominator
) -> tuple[FloatArray, FloatArray]:
    """Return AP@at, and per query 1 where it is defined or 0 where it is 0/0, which counts as 0.

    AP@at is the sum of the precisions at the hits among the first ``at`` positions, divided by the number of those hits
    (``retrieved``), by min(total relevant, at) (``min``) or by the total relevant (``relevant``).
    """
    hits = hits[:, :at]
    found = np.cumsum(hits, axis=1, dtype=np.float64)
    summed = (found / np.arange(1, hits.shape[1] + 1) * hits).sum(axis=1)
    return divide(summed, ap_denominator(denominator, hits.sum(axis=1).astype(np.float64), total, at))


def ap_denominator(denominator: Denominator, retrieved: FloatArray, total: FloatArray, at: int) -> FloatArray:
    """Return the denominator of AP@at with this name."""
    if denominator == "retrieved":
        return retrieved
    return np.minimum(total, at) if denominator == "min" else total


def gains(relevance: FloatArray, gain: Gain) -> FloatArray:
    """Return what rows of this relevance add to the DCG before the discount of their position."""
    return np.exp2(relevance) - 1 if gain == "exp" else relevance


@lru_cache(maxsize=8)
def summed_discounts(at: int, gain: Gain) -> FloatArray:
    """Return the sums of the discounts of the first 0, 1, … ``at`` positions.

    ``exp`` discounts position k by log2(k + 1); ``linear``, as printed in the paper, by log2(k) from position 2 on.
    """
    positions = np.arange(1, at + 1)
    logs = np.log2(positions + 1) if gain == "exp" else np.log2(np.maximum(positions, 2))
    return np.concatenate([[0.0], np.cumsum(1 / logs)])


def dcg(relevance: FloatArray, at: int, gain: Gain) -> FloatArray:
    """Return DCG@at of ordered lists."""
    relevance = relevance[:, :at]
    # Not a matrix product: its rounding would depend on how many queries are in the block.
    return (gains(relevance, gain) * np.diff(summed_discounts(relevance.shape[1], gain))).sum(axis=1)


def ideal_dcg(relevance: FloatArray, sizes: FloatArray, at: int, gain: Gain) -> float:
    """Return DCG@at of the best order of the whole database, given the relevance and size of its groups."""
    groups = np.flatnonzero(relevance > 0)
    if len(groups) > at:
        # A group has at least one row, so the best ``at`` rows are in the best ``at`` groups.
        groups = groups[np.argpartition(-relevance[groups], at)[:at]]
    groups = groups[np.argsort(-relevance[groups])]
    ends = np.minimum(np.cumsum(sizes[groups]), at).astype(np.intp)
    sums = summed_discounts(at, gain)[np.concatenate([[0], ends])]
    return float(gains(relevance[groups], gain) @ np.diff(sums))


def divide(numerator: FloatArray, denominator: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return numerator / denominator with 0/0 = 0, and 1 where it is defined or 0 where it is not."""
    defined = denominator > 0
    quotient = np.divide(numerator, denominator, out=np.zeros_like(numerator, dtype=np.float64), where=defined)
    return quotient, defined.astype(np.float64)


def mean(values: FloatArray, weights: FloatArray, counted: FloatArray | None = None) -> float:
    """Return the weighted mean over the queries, with ``counted`` as further weights; NaN if all weights are 0."""
    weight = weights.sum() if counted is None else weights @ counted
    return float(weights @ values / weight) if weight > 0 else float("nan")
