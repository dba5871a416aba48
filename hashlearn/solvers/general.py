"""GSDH_P for any pairwise loss: it updates one bit of a batch at a time and weighs each pair by its slope.

Bit j of row i moves to sgn(g_i + beta h_ij) with g = -L h_A,j, where L holds the slopes of the loss at the
inner products without bit j (see ``losses.GeneralLoss.slope``). Rows that agree in kind and code are merged into
one *state* with a weight, because their bits always flip together. After one or two sweeps few states are left.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hashlearn.progress import report
from hashlearn.solvers.greedy import strongest_half
from hashlearn.solvers.losses import GeneralLoss
from hashlearn.solvers.problem import AnchorProblem, Batches, Trace, keeps_ground
from hashlearn.solvers.slopes import Bits, Slopes
from hashlearn.typing import FloatArray, IntArray


def learn(
    problem: AnchorProblem,
    start: FloatArray,
    batches: Batches,
    loss: GeneralLoss,
    *,
    beta: float,
    residual: str = "full",
    max_iter: int = 20,
    inner_iter: int = 3,
) -> Trace:
    """Learn the codes of the problem's rows from ``start`` in {-1, +1}, batch by batch, until no bit changes."""
    codes = np.array(start, dtype=np.float64)
    table = problem.dense_table()
    slopes = Slopes(loss, table, codes.shape[1])
    trace = Trace(codes)
    for iteration in range(max_iter):
        report("learn anchors", iteration + 1, max_iter)
        before = codes.copy()
        for batch in batches(iteration):
            codes[batch] = _update_batch(problem, codes, batch, slopes, beta, residual, inner_iter)
        trace.objective.append(_objective(problem, table, codes, loss))
        trace.changes.append(int(np.count_nonzero(codes != before)))
        if trace.changes[-1] == 0:
            trace.converged = True
            break
    return trace


@dataclass
class States:
    """Distinct (column kind, code) states of a set of anchors, and the number of anchors in each state."""

    column: IntArray
    codes: FloatArray
    weight: FloatArray

    @classmethod
    def of(cls, column: IntArray, codes: FloatArray) -> States:
        first, _, count = _distinct(codes, column)
        return cls(column[first], codes[first], count)


def _distinct(codes: FloatArray, *kinds: IntArray) -> tuple[IntArray, IntArray, FloatArray]:
    """Group rows with equal code and kinds.

    Returns
    -------
    first : the first row of each group.
    number : the group of each row.
    count : the number of rows per group.
    """
    packed = np.packbits(codes > 0, axis=1)
    padded = np.pad(packed, ((0, 0), (0, -packed.shape[1] % 8)))
    keys = np.concatenate([padded.view(np.int64).T, np.stack(kinds).astype(np.int64)])
    order = np.lexsort(keys)
    keys = keys[:, order]
    starts = np.flatnonzero(np.append(True, (keys[:, 1:] != keys[:, :-1]).any(axis=0))[: len(codes)])
    count = np.diff(np.append(starts, len(codes)))
    number = np.empty(len(codes), dtype=np.intp)
    number[order] = np.repeat(np.arange(len(starts)), count)
    return order[starts], number, count.astype(np.float64)


def _update_batch(
    problem: AnchorProblem,
    codes: FloatArray,
    batch: IntArray,
    slopes: Slopes,
    beta: float,
    residual: str,
    inner_iter: int,
) -> FloatArray:
    """Compute new codes of a batch. Its own anchors stay separate from the merged states, because they change."""
    outside = problem.is_anchor.copy()
    outside[batch] = False
    states = States.of(problem.column_kind[outside], codes[outside])
    first, number, count = _distinct(codes[batch], problem.row_kind[batch], problem.column_kind[batch])
    rows = batch[first]
    is_anchor = problem.is_anchor[rows]
    inside = np.flatnonzero(is_anchor)
    bits = _as_bits(codes[rows])
    # The first columns are the states, the others are the anchors of the batch.
    others = _as_bits(np.concatenate([states.codes, codes[rows[inside]]]))
    fixed, own = slice(len(states.weight)), slice(len(states.weight), None)
    columns = np.concatenate([states.column, problem.column_kind[rows[inside]]])
    stagewise = residual == "stagewise"
    pairs = slopes.pairs(problem.row_kind[rows], columns, _inner(bits, others, stagewise))
    nothing = np.zeros(len(rows), dtype=np.int32)
    for j in range(len(bits)):
        counted = nothing if stagewise else bits[j]
        pull, between = pairs.sums(counted, others[j], states.weight * others[j, fixed])
        new = _update_bit(bits[j].astype(np.float64), pull, between, is_anchor, count, beta, inner_iter)
        if stagewise or not np.array_equal(new, bits[j]):
            before = others[j].copy()
            others[j, own] = new[inside]
            bit = new.astype(np.int32)
            pairs.move(counted, before, bit, others[j])
            bits[j] = bit
    return bits.T.astype(np.float64)[number]


def _as_bits(codes: NDArray[np.floating]) -> Bits:
    """Convert codes to integers, one line per bit."""
    return np.ascontiguousarray(codes.T, dtype=np.int32)


def _inner(bits: Bits, others: Bits, stagewise: bool = False) -> Bits:
    """Inner products at the start; 0 for the stagewise residual, which adds bits one by one.

    The product uses floats, because BLAS computes those, and is exact.
    """
    if stagewise:
        return np.zeros((bits.shape[1], others.shape[1]), dtype=np.int32)
    return (bits.T.astype(np.float32) @ others.astype(np.float32)).astype(np.int32)


def _update_bit(
    bit: FloatArray,
    fixed: FloatArray,
    between: FloatArray,
    is_anchor: NDArray[np.bool_],
    count: FloatArray,
    beta: float,
    inner_iter: int,
) -> FloatArray:
    """Take up to ``inner_iter`` steps of one bit. Anchors of the batch flip only if the objective does not fall.

    ``between`` has one column per row that is an anchor; ``count`` says how many equal rows a row stands for.
    """
    weight = count[is_anchor]
    gain = fixed + between @ (weight * bit[is_anchor])
    for _ in range(inner_iter):
        flips = np.flatnonzero((gain + beta * bit >= 0) != (bit > 0))
        if not len(flips):
            break
        joint = is_anchor[flips]
        bit[flips[~joint]] *= -1
        anchors = flips[joint]
        while len(anchors):
            trial = bit.copy()
            trial[anchors] *= -1
            moved = fixed + between @ (weight * trial[is_anchor])
            step = count[anchors] * (trial[anchors] - bit[anchors])
            if keeps_ground(step, gain[anchors], moved[anchors]):
                bit, gain = trial, moved
                break
            anchors = strongest_half(anchors, gain, count)
        else:
            break
    return bit


def code_rows(
    states: States,
    slopes: Slopes,
    group: IntArray,
    start: NDArray[np.float32],
    *,
    beta: float,
    residual: str = "full",
    max_iter: int = 20,
) -> NDArray[np.float32]:
    """Code rows that are not anchors. ``slopes`` covers their groups and the columns of the states."""
    codes = np.array(start, dtype=np.float32)
    others = _as_bits(states.codes)
    stagewise = residual == "stagewise"
    active = np.arange(len(codes))
    for _ in range(max_iter):
        bits = _as_bits(codes[active])
        old = bits.copy()
        pairs = slopes.pairs(group[active], states.column, _inner(bits, others, stagewise))
        nothing = np.zeros(len(active), dtype=np.int32)
        for j in range(len(bits)):
            counted = nothing if stagewise else bits[j]
            other = others[j]
            gain, _ = pairs.sums(counted, other, states.weight * other)
            new = np.where(gain + beta * bits[j] >= 0, 1, -1).astype(np.int32)
            if stagewise or not np.array_equal(new, bits[j]):
                pairs.move(counted, other, new, other)
                bits[j] = new
        codes[active] = bits.T
        active = active[(bits != old).any(axis=0)]
        if not len(active):
            break
    return codes


def gains(states: States, slopes: Slopes, group: IntArray, codes: NDArray[np.float32]) -> NDArray[np.float32]:
    """Compute -L h_A per row and bit, at the rows' present codes."""
    bits, others = _as_bits(codes), _as_bits(states.codes)
    pairs = slopes.pairs(group, states.column, _inner(bits, others))
    result = np.empty_like(codes)
    for j in range(len(bits)):
        result[:, j] = pairs.sums(bits[j], others[j], states.weight * others[j])[0]
    return result


def _objective(problem: AnchorProblem, table: FloatArray, codes: FloatArray, loss: GeneralLoss) -> float:
    """Sum the loss over all rows and anchors; ``table`` is the problem's as an array."""
    anchors = problem.is_anchor
    states = States.of(problem.column_kind[anchors], codes[anchors])
    total = 0.0
    for start in range(0, len(codes), 1024):
        rows = slice(start, start + 1024)
        s = table[problem.row_kind[rows][:, None], states.column]
        value = loss.value(s, codes[rows] @ states.codes.T, problem.scale, codes.shape[1])
        total += float((value @ states.weight).sum())
    return total
