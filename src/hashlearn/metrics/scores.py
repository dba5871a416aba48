"""Scores of ordered lists, and their expected values where rows at the same distance are in uniformly random order.

``hits`` and ``relevance`` are (queries, positions) matrices, best position first. Each score is one number per query;
``mean`` averages them. The expected values are in closed form, without sampling. They follow from three numbers per tie
group, nearest group first: rows n, relevant rows h and summed gain g, as (queries, groups) matrices. Groups may be
empty.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from hashlearn.metrics.rules import Denominator, Gain
from hashlearn.typing import FloatArray

# Number of (query, outcome) pairs that are computed together where the cut-off splits a tie group.
_OUTCOMES = 2**18


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


class TieGroups(NamedTuple):
    """Rows, relevant rows and summed gain of each tie group."""

    rows: FloatArray
    hits: FloatArray
    gain: FloatArray


def expected_hits(groups: TieGroups, at: int) -> FloatArray:
    """Return the expected number of relevant rows among the first ``at``."""
    return _total(groups.hits * _divided(_inside(groups.rows, at), groups.rows))


def expected_dcg(groups: TieGroups, at: int, gain: Gain) -> FloatArray:
    """Return the expected DCG@at: the expected gain at every position of a group is the group's mean gain."""
    ends = np.minimum(np.cumsum(groups.rows, axis=1), at).astype(np.intp)
    sums = summed_discounts(at, gain)[ends]
    return _total(_divided(groups.gain, groups.rows) * np.diff(sums, axis=1, prepend=0.0))


def expected_average_precision(
    groups: TieGroups, total: FloatArray, at: int, denominator: Denominator
) -> tuple[FloatArray, FloatArray]:
    """Return the expected AP@at, and per query the probability that it is defined (that its denominator is not 0)."""
    rows, hits = groups.rows, groups.hits
    rows_before = np.cumsum(rows, axis=1) - rows
    hits_before = np.cumsum(hits, axis=1) - hits
    inside = _inside(rows, at)
    numerators = _numerator(rows, hits, inside, rows_before, hits_before, _harmonic(at))
    if denominator != "retrieved":
        return divide(_total(numerators), ap_denominator(denominator, total, total, at))

    whole = inside == rows
    settled = _total(np.where(whole, numerators, 0))
    certain = _total(np.where(whole, hits, 0))
    precision, defined = divide(settled, certain)
    # The cut-off falls inside at most one group. The score is random only if that group has hits.
    query, group = np.nonzero((inside > 0) & ~whole & (hits > 0))
    if len(query):
        outcomes = int(np.minimum(hits, inside)[query, group].max()) + 1
        step = max(1, _OUTCOMES // outcomes)
        for start in range(0, len(query), step):
            q, cell = query[start : start + step], (query[start : start + step], group[start : start + step])
            precision[q], defined[q] = _split_group(
                rows[cell], hits[cell], inside[cell], rows_before[cell], certain[q], settled[q], outcomes, at
            )
    return precision, defined


def _split_group(
    rows: FloatArray,
    hits: FloatArray,
    inside: FloatArray,
    rows_before: FloatArray,
    certain: FloatArray,
    settled: FloatArray,
    outcomes: int,
    at: int,
) -> tuple[FloatArray, FloatArray]:
    """Return the expected AP over retrieved hits when only ``inside`` rows of the last group are within the cut-off.

    The number of hits among them is hypergeometric. Given that number their order is uniform, so the numerator has
    the same closed form as a whole group; each outcome then has its own denominator.
    """
    rows, hits, inside, rows_before, certain, settled = (
        column[:, None] for column in (rows, hits, inside, rows_before, certain, settled)
    )
    found = np.arange(outcomes, dtype=np.float64)[None, :]
    possible = (found <= np.minimum(hits, inside)) & (inside - found <= rows - hits)
    logs = _log_choose(hits, found) + _log_choose(rows - hits, inside - found)
    logs = np.where(possible, logs, -np.inf)
    chances = np.exp(logs - logs.max(axis=1, keepdims=True))
    # Normalizing removes the constant factor and the rounding errors of large log-factorials.
    chances /= _total(chances)[:, None]
    numerators = settled + _numerator(inside, found, inside, rows_before, certain, _harmonic(at))
    precision, defined = divide(numerators, np.broadcast_to(certain + found, numerators.shape))
    return _total(chances * precision), _total(chances * defined)


def _numerator(
    rows: FloatArray,
    hits: FloatArray,
    inside: FloatArray,
    rows_before: FloatArray,
    hits_before: FloatArray,
    harmonic: FloatArray,
) -> FloatArray:
    """Return the expected sum of the precisions at the hits among the first ``inside`` rows of a group.

    Position j of the group is a hit with probability h/n, and then (j − 1)(h − 1)/(n − 1) earlier hits of the group are
    expected, so the sum is Σ_j h/n · (hits_before + 1 + (j − 1)(h − 1)/(n − 1)) / (rows_before + j).
    """
    first = np.minimum(rows_before, len(harmonic) - 1).astype(np.intp)
    last = np.minimum(rows_before + inside, len(harmonic) - 1).astype(np.intp)
    inverse = harmonic[last] - harmonic[first]  # Σ_j 1 / (rows_before + j)
    earlier = inside - (rows_before + 1) * inverse  # Σ_j (j − 1) / (rows_before + j)
    return _divided(hits, rows) * ((hits_before + 1) * inverse + _divided(hits - 1, rows - 1) * earlier)


def _inside(rows: FloatArray, at: int) -> FloatArray:
    """Return the number of rows of each group among the first ``at``."""
    return np.clip(at - (np.cumsum(rows, axis=1) - rows), 0, rows)


@lru_cache(maxsize=8)
def _harmonic(at: int) -> FloatArray:
    """Return the harmonic numbers 0 … at."""
    return np.concatenate([[0.0], np.cumsum(1 / np.arange(1, at + 1))])


def _log_choose(n: FloatArray, k: FloatArray) -> FloatArray:
    """Return log C(n, k) where k is within 0 … n; elsewhere a finite number, which the caller masks."""
    # The size is rounded up to a power of two, so that most blocks share a cached table.
    logs = _log_factorials(1 << int(n.max()).bit_length())
    n, k = n.astype(np.intp), k.astype(np.intp)
    return logs[n] - logs[np.clip(k, 0, len(logs) - 1)] - logs[np.clip(n - k, 0, len(logs) - 1)]


@lru_cache(maxsize=4)
def _log_factorials(n: int) -> FloatArray:
    """Return log 0! … log n!. A table is many times faster than computing them for every outcome."""
    return gammaln(np.arange(n + 1) + 1.0)


def _total(values: FloatArray) -> FloatArray:
    """Sum each row from left to right, so that padding, which differs between blocks, does not change the rounding."""
    return np.cumsum(values, axis=1)[:, -1]


def _divided(numerator: FloatArray, denominator: FloatArray) -> FloatArray:
    """Return numerator / denominator, and 0 where the denominator is not positive."""
    shape = np.broadcast_shapes(numerator.shape, denominator.shape)
    return np.divide(numerator, denominator, out=np.zeros(shape), where=denominator > 0)
