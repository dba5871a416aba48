"""GSDH_P for any pairwise loss: one bit of a batch at a time, with every pair weighed by the slope of its loss.

Bit j of anchor i moves to sgn(g_i + beta h_ij) with g = -L h_A,j, where L holds the slopes of the loss at the inner
products without bit j (see ``losses.GeneralLoss.slope``). Anchors that agree in kind and code are merged into one
*state* with a weight, because their bits always flip together. After one or two rounds few states are left.

The sums of slopes are compiled (``_slopes.c``). The NumPy code beside them does the same where they cannot be built.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hashlearn.compiled import compiled_part
from hashlearn.pairwise.losses import GeneralLoss
from hashlearn.pairwise.solver import AnchorState, PairwiseSolver, keeps_ground, strongest_half
from hashlearn.pairwise.supervision import AnchorProblem
from hashlearn.similarity import Similarity
from hashlearn.typing import Float32Array, FloatArray, IntArray

_slopes = compiled_part("hashlearn.pairwise._slopes")

Bits = NDArray[np.int32]
MAX_TABLE = 2**20


class GeneralAnchors(AnchorState):
    """The anchors while they are learned."""

    def __init__(
        self, solver: PairwiseSolver, stagewise: bool, problem: AnchorProblem, start: FloatArray, loss: GeneralLoss
    ) -> None:
        self.solver, self.stagewise, self.problem, self.loss = solver, stagewise, problem, loss
        self.codes = np.array(start, dtype=np.float64)
        self.table = problem.dense_table()
        self.slopes = Slopes(loss, self.table, self.codes.shape[1])

    def update(self, batch: IntArray) -> None:
        """Update the codes of a batch. Its anchors stay separate from the merged states, because they change."""
        problem, codes = self.problem, self.codes
        outside = np.ones(len(codes), dtype=bool)
        outside[batch] = False
        states = States.from_codes(problem.column_kind[outside], codes[outside])
        first, number, count = _distinct(codes[batch], problem.row_kind[batch], problem.column_kind[batch])
        rows = batch[first]
        bits = _as_bits(codes[rows])
        # The first columns are the states, the others are the anchors of the batch.
        others = _as_bits(np.concatenate([states.codes, codes[rows]]))
        fixed, own = slice(len(states.weight)), slice(len(states.weight), None)
        columns = np.concatenate([states.column, problem.column_kind[rows]])
        pairs = self.slopes.pairs(problem.row_kind[rows], columns, _inner(bits, others, self.stagewise))
        nothing = np.zeros(len(rows), dtype=np.int32)
        for j in range(len(bits)):
            counted = nothing if self.stagewise else bits[j]
            pull, between = pairs.sums(counted, others[j], states.weight * others[j, fixed])
            new = self._moved_bit(bits[j].astype(np.float64), pull, between, count)
            if self.stagewise or not np.array_equal(new, bits[j]):
                before = others[j].copy()
                others[j, own] = new
                bit = new.astype(np.int32)
                pairs.move(counted, before, bit, others[j])
                bits[j] = bit
        codes[batch] = bits.T.astype(np.float64)[number]

    def _moved_bit(self, bit: FloatArray, fixed: FloatArray, between: FloatArray, count: FloatArray) -> FloatArray:
        """Take up to ``inner_iter`` steps of one bit of a batch, none of which worsens the objective.

        ``fixed`` is the pull of anchors outside the batch, ``between`` holds the slopes of pairs inside it, and
        ``count`` says how many equal anchors a row stands for.
        """
        gain = fixed + between @ (count * bit)
        for _ in range(self.solver.inner_iter):
            flips = np.flatnonzero((gain + self.solver.beta * bit >= 0) != (bit > 0))
            while len(flips):
                trial = bit.copy()
                trial[flips] *= -1
                moved = fixed + between @ (count * trial)
                step = count[flips] * (trial[flips] - bit[flips])
                if keeps_ground(step, gain[flips], moved[flips]):
                    bit, gain = trial, moved
                    break
                flips = strongest_half(flips, gain, count)
            else:
                break
        return bit

    def objective(self) -> float:
        problem, codes = self.problem, self.codes
        states = States.from_codes(problem.column_kind, codes)
        total = 0.0
        for start in range(0, len(codes), 1024):
            rows = slice(start, start + 1024)
            s = self.table[problem.row_kind[rows][:, None], states.column]
            value = self.loss.value(s, codes[rows] @ states.codes.T, problem.scale, codes.shape[1])
            total += float((value @ states.weight).sum())
        return total


class GeneralRows:
    """Codes rows that are not anchors. The anchors enter through their distinct states."""

    def __init__(
        self,
        solver: PairwiseSolver,
        stagewise: bool,
        similarity: Similarity,
        anchors: IntArray,
        anchor_codes: FloatArray,
        loss: GeneralLoss,
    ) -> None:
        self.solver, self.stagewise = solver, stagewise
        self.similarity, self.loss, self.n_bits = similarity, loss, anchor_codes.shape[1]
        self.code_weight = solver.beta
        self.columns, kind = np.unique(similarity.columns(anchors), return_inverse=True)
        self.states = States.from_codes(kind.ravel().astype(np.intp), anchor_codes)

    def code(self, group: IntArray, start: Float32Array) -> Float32Array:
        slopes, kind = self._slopes(group)
        codes = np.array(start, dtype=np.float32)
        states, others = self.states, _as_bits(self.states.codes)
        active = np.arange(len(codes))
        for _ in range(self.solver.max_iter):
            bits = _as_bits(codes[active])
            old = bits.copy()
            pairs = slopes.pairs(kind[active], states.column, _inner(bits, others, self.stagewise))
            nothing = np.zeros(len(active), dtype=np.int32)
            for j in range(len(bits)):
                counted = nothing if self.stagewise else bits[j]
                other = others[j]
                gain, _ = pairs.sums(counted, other, states.weight * other)
                new = np.where(gain + self.solver.beta * bits[j] >= 0, 1, -1).astype(np.int32)
                if self.stagewise or not np.array_equal(new, bits[j]):
                    pairs.move(counted, other, new, other)
                    bits[j] = new
            codes[active] = bits.T
            active = active[(bits != old).any(axis=0)]
            if not len(active):
                break
        return codes

    def gain(self, group: IntArray, codes: Float32Array) -> Float32Array:
        """Compute -L h_A per row and bit, at the rows' present codes."""
        slopes, kind = self._slopes(group)
        states, bits, others = self.states, _as_bits(codes), _as_bits(self.states.codes)
        pairs = slopes.pairs(kind, states.column, _inner(bits, others))
        result = np.empty_like(codes)
        for j in range(len(bits)):
            result[:, j] = pairs.sums(bits[j], others[j], states.weight * others[j])[0]
        return result

    def _slopes(self, group: IntArray) -> tuple[Slopes, IntArray]:
        """Return slopes of only the groups that occur in a chunk, and the places of the rows' groups among them."""
        present, kind = np.unique(group, return_inverse=True)
        table = self.similarity.table(present, self.columns)
        return Slopes(self.loss, table, self.n_bits), kind.ravel()


@dataclass
class States:
    """Distinct (column kind, code) states of a set of anchors, and the number of anchors in each state."""

    column: IntArray
    codes: FloatArray
    weight: FloatArray

    @classmethod
    def from_codes(cls, column: IntArray, codes: FloatArray) -> States:
        """Merge anchors that agree in column kind and code."""
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


def _as_bits(codes: NDArray[np.floating]) -> Bits:
    """Convert codes to integers, one line per bit."""
    return np.ascontiguousarray(codes.T, dtype=np.int32)


def _inner(bits: Bits, others: Bits, stagewise: bool = False) -> Bits:
    """Return inner products at the start; 0 for the stagewise residual, which adds bits one by one.

    The product uses floats, because BLAS computes those, and is exact.
    """
    if stagewise:
        return np.zeros((bits.shape[1], others.shape[1]), dtype=np.int32)
    return (bits.T.astype(np.float32) @ others.astype(np.float32)).astype(np.int32)


class Slopes:
    """Slopes of the loss for a block of S at inner products without one bit, from a table if S takes few values.

    Label sets give few distinct similarities, so the loss is evaluated once per (similarity, inner product)
    instead of once per pair and bit. If S has too many values, the loss is evaluated per pair.
    """

    def __init__(self, loss: GeneralLoss, s: FloatArray, n_bits: int) -> None:
        self.loss, self.n_bits, self.s = loss, n_bits, s
        self.table: FloatArray | None = None
        values, place = np.unique(s, return_inverse=True)
        width = 2 * n_bits - 1
        if len(values) * width <= MAX_TABLE:
            rest = np.arange(-(n_bits - 1), n_bits, dtype=np.float64)
            each = np.repeat(values, width), np.tile(rest, len(values))
            self.table = np.ascontiguousarray(loss.slope(each[0], each[1], n_bits))
            self.place = (place.reshape(s.shape) * width + (n_bits - 1)).astype(np.int32)

    def pairs(self, kinds: IntArray, columns: IntArray, inner: Bits) -> Pairs:
        """Return pairs of rows and columns of the block, with their inner products."""
        if self.table is not None:
            return Pairs(self.place[kinds[:, None], columns] + inner, self.table.take, self.table)
        s = self.s[kinds[:, None], columns]
        return Pairs(inner, lambda rest: self.loss.slope(s, rest.astype(np.float64), self.n_bits))


class Pairs:
    """Pairs of rows and columns, and the slopes of their loss.

    ``at`` holds their inner products, or the positions in ``table`` that belong to these.
    """

    def __init__(self, at: Bits, slope: Callable[[Bits], FloatArray], table: FloatArray | None = None) -> None:
        self.at, self.slope, self.table = at, slope, table

    def sums(self, bit: Bits, other: Bits, weight: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Compute the negative slopes at the inner products without bit x other.

        The first columns are summed with ``weight``; the other columns are returned one by one. A bit of 0 means
        that the inner products do not contain this bit yet.
        """
        if self.table is not None and _slopes is not None:
            pull, own = np.empty(len(bit)), np.empty((len(bit), len(other) - len(weight)))
            _slopes.sums(self.table, self.at, bit, other, weight, pull, own)
            return pull, own
        slope = self.slope(self.at - bit[:, None] * other)
        return -(slope[:, : len(weight)] @ weight), -slope[:, len(weight) :]

    def move(self, old: Bits, before: Bits, new: Bits, after: Bits) -> None:
        """Add new x after - old x before to the inner products."""
        if self.table is not None and _slopes is not None:
            _slopes.move(self.at, old, before, new, after)
        elif after is before:
            rows = np.flatnonzero(new != old)
            self.at[rows] += (new - old)[rows, None] * after
        else:
            self.at += new[:, None] * after - old[:, None] * before
