"""GSDH_P for any pairwise loss: one bit of a batch at a time, every pair weighed by its own slope.

Bit j of row i moves to sgn(g_i + beta h_ij) with g = -L h_A,j, where L holds the slopes of the loss at the
inner products without bit j (see ``losses.GeneralLoss.slope``). Anchors outside the batch that agree in kind
and code are merged into one *state* with a weight: after a sweep or two only a handful are left.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hashlearn.solvers.greedy import strongest_half
from hashlearn.solvers.losses import GeneralLoss
from hashlearn.solvers.problem import AnchorProblem, Batches, Trace, keeps_ground

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]
MAX_TABLE = 2**20


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
    """Codes of the problem's rows, from ``start`` in {-1, +1}, batch by batch until no bit changes."""
    codes = np.array(start, dtype=np.float64)
    slopes = Slopes(loss, problem.table, codes.shape[1])
    trace = Trace(codes)
    for iteration in range(max_iter):
        before = codes.copy()
        for batch in batches(iteration):
            codes[batch] = _update_batch(problem, codes, batch, slopes, beta, residual, inner_iter)
        trace.objective.append(_objective(problem, codes, loss))
        trace.changes.append(int(np.count_nonzero(codes != before)))
        if trace.changes[-1] == 0:
            trace.converged = True
            break
    return trace


@dataclass
class States:
    """Distinct (column kind, code) states of a set of anchors, with how many anchors are in each."""

    column: IntArray
    codes: FloatArray
    weight: FloatArray

    @classmethod
    def of(cls, column: IntArray, codes: FloatArray) -> States:
        packed = np.packbits(codes > 0, axis=1)
        keys = np.concatenate([packed, np.ascontiguousarray(column[:, None]).view(np.uint8)], axis=1)
        rows = np.ascontiguousarray(keys).view([("", np.uint8, keys.shape[1])]).ravel()
        _, first, count = np.unique(rows, return_index=True, return_counts=True)
        return cls(column[first], codes[first], count.astype(np.float64))


class Slopes:
    """Slopes of the loss over an S block, looked up by (similarity, inner product) where S takes few values.

    Label sets give few distinct similarities, so the loss is evaluated once for each instead of for every
    pair and bit; with too many of them (real-valued S) it is evaluated in place.
    """

    def __init__(self, loss: GeneralLoss, s: FloatArray, n_bits: int) -> None:
        self.loss, self.n_bits, self.s = loss, n_bits, s
        self.slopes: FloatArray | None = None
        values, place = np.unique(s, return_inverse=True)
        width = 2 * n_bits - 1
        if len(values) * width <= MAX_TABLE:
            rest = np.arange(-(n_bits - 1), n_bits, dtype=np.float64)
            each = np.repeat(values, width), np.tile(rest, len(values))
            self.slopes = loss.slope(each[0], each[1], n_bits)
            self.place = place.reshape(s.shape) * width + (n_bits - 1)

    def rows(self, kinds: IntArray, columns: IntArray) -> Slopes:
        """The slopes of some rows and columns of the block."""
        part = copy(self)
        if self.slopes is None:
            part.s = self.s[kinds[:, None], columns]
        else:
            part.place = self.place[kinds[:, None], columns]
        return part

    def at(self, rest: IntArray) -> FloatArray:
        """Slopes at the inner products without one bit."""
        if self.slopes is None:
            return self.loss.slope(self.s, rest.astype(np.float64), self.n_bits)
        return self.slopes.take(self.place + rest)


def _update_batch(
    problem: AnchorProblem,
    codes: FloatArray,
    batch: IntArray,
    slopes: Slopes,
    beta: float,
    residual: str,
    inner_iter: int,
) -> FloatArray:
    """New codes of a batch. Its own anchors are kept apart from the merged others, since they move."""
    outside = problem.is_anchor.copy()
    outside[batch] = False
    states = States.of(problem.column_kind[outside], codes[outside])
    inside = np.flatnonzero(problem.is_anchor[batch])
    place = np.full(len(batch), -1, dtype=np.intp)
    place[inside] = np.arange(len(inside))
    bits = codes[batch].T.astype(np.intp)
    # Columns are the states, then the batch's own anchors.
    others = np.concatenate([states.codes, codes[batch[inside]]]).T.astype(np.intp)
    fixed, own = slice(len(states.weight)), slice(len(states.weight), None)
    columns = np.concatenate([states.column, problem.column_kind[batch[inside]]])
    local = slopes.rows(problem.row_kind[batch], columns)
    stagewise = residual == "stagewise"
    u = np.zeros((len(batch), len(columns)), dtype=np.intp) if stagewise else _inner(bits.T, others)
    for j in range(len(bits)):
        products = bits[j][:, None] * others[j]
        slope = local.at(u if stagewise else u - products)
        pull = -(slope[:, fixed] @ (states.weight * others[j, fixed]))
        new = _update_bit(bits[j].astype(np.float64), pull, -slope[:, own], place, beta, inner_iter).astype(np.intp)
        if not np.array_equal(new, bits[j]):
            bits[j], others[j, own] = new, new[inside]
            moved = new[:, None] * others[j]
            u += moved if stagewise else moved - products
        elif stagewise:
            u += products
    return bits.T.astype(np.float64)


def _inner(left: IntArray, right: IntArray) -> IntArray:
    """Inner products of codes, as whole numbers; the product itself runs in floats, where BLAS is."""
    return (left.astype(np.float64) @ right.astype(np.float64)).astype(np.intp)


def _update_bit(
    bit: FloatArray, fixed: FloatArray, between: FloatArray, place: IntArray, beta: float, inner_iter: int
) -> FloatArray:
    """Up to ``inner_iter`` steps of one bit; anchors of the batch flip only if that loses nothing.

    ``place`` is a row's place among the batch's anchors, the columns of ``between``, or -1.
    """
    inside = np.flatnonzero(place >= 0)
    gain = fixed + between @ bit[inside]
    for _ in range(inner_iter):
        flips = np.flatnonzero((gain + beta * bit >= 0) != (bit > 0))
        anchors = flips[place[flips] >= 0]
        bit[flips[place[flips] < 0]] *= -1
        while len(anchors):
            trial = bit.copy()
            trial[anchors] *= -1
            moved = fixed + between @ trial[inside]
            step = trial[anchors] - bit[anchors]
            if keeps_ground(step, gain[anchors], moved[anchors]):
                bit, gain = trial, moved
                break
            anchors = strongest_half(anchors, gain)
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
    """Codes of rows that are no anchors. ``slopes`` spans their groups and the states' columns."""
    codes = np.array(start, dtype=np.float32)
    others = states.codes.T.astype(np.intp)
    stagewise = residual == "stagewise"
    active = np.arange(len(codes))
    for _ in range(max_iter):
        bits = codes[active].T.astype(np.intp)
        old = bits.copy()
        local = slopes.rows(group[active], states.column)
        u = np.zeros((len(active), len(others[0])), dtype=np.intp) if stagewise else _inner(bits.T, others)
        for j in range(len(bits)):
            products = bits[j][:, None] * others[j]
            gain = -(local.at(u if stagewise else u - products) @ (states.weight * others[j]))
            bits[j] = np.where(gain + beta * bits[j] >= 0, 1, -1)
            changed = np.flatnonzero(bits[j] != old[j])
            if stagewise:
                u += bits[j][:, None] * others[j]
            elif len(changed):
                u[changed] -= 2 * products[changed]
        codes[active] = bits.T
        active = active[(bits != old).any(axis=0)]
        if not len(active):
            break
    return codes


def gains(states: States, slopes: Slopes, group: IntArray, codes: NDArray[np.float32]) -> NDArray[np.float32]:
    """-L h_A for every row and bit, at the rows' present codes."""
    local = slopes.rows(group, states.column)
    bits, others = codes.T.astype(np.intp), states.codes.T.astype(np.intp)
    u = _inner(bits.T, others)
    result = np.empty_like(codes)
    for j in range(len(bits)):
        result[:, j] = -(local.at(u - bits[j][:, None] * others[j]) @ (states.weight * others[j]))
    return result


def _objective(problem: AnchorProblem, codes: FloatArray, loss: GeneralLoss) -> float:
    """The loss summed over all rows and anchors."""
    anchors = problem.is_anchor
    states = States.of(problem.column_kind[anchors], codes[anchors])
    total = 0.0
    for start in range(0, len(codes), 1024):
        rows = slice(start, start + 1024)
        s = problem.table[problem.row_kind[rows][:, None], states.column]
        value = loss.value(s, codes[rows] @ states.codes.T, problem.scale, codes.shape[1])
        total += float((value @ states.weight).sum())
    return total
