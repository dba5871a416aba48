"""Slopes of a loss for pairs of rows and columns, at the inner products without one bit."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hashlearn.compiled import compiled_part
from hashlearn.solvers.losses import GeneralLoss
from hashlearn.typing import FloatArray, IntArray

_slopes = compiled_part("hashlearn.solvers._slopes")

Bits = NDArray[np.int32]
MAX_TABLE = 2**20


class Slopes:
    """Slopes of the loss for a block of S, from a lookup table if S takes few values.

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
        if self.table is None:
            return EvaluatedPairs(self.loss, self.s[kinds[:, None], columns], inner, self.n_bits)
        return LookedUpPairs(self.table, self.place[kinds[:, None], columns] + inner)


class EvaluatedPairs:
    """Pairs whose slopes are computed on request."""

    def __init__(self, loss: GeneralLoss, s: FloatArray, inner: Bits, n_bits: int) -> None:
        self.loss, self.s, self.at, self.n_bits = loss, s, inner, n_bits

    def sums(self, bit: Bits, other: Bits, weight: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Compute the negative slopes at the inner products without bit x other.

        The first columns are summed with ``weight``; the other columns are returned one by one. A bit of 0 means
        that the inner products do not contain this bit yet.
        """
        slope = self._slope(self.at - bit[:, None] * other)
        return -(slope[:, : len(weight)] @ weight), -slope[:, len(weight) :]

    def _slope(self, rest: Bits) -> FloatArray:
        return self.loss.slope(self.s, rest.astype(np.float64), self.n_bits)

    def move(self, old: Bits, before: Bits, new: Bits, after: Bits) -> None:
        """Add new x after - old x before to the inner products."""
        if after is before:
            rows = np.flatnonzero(new != old)
            self.at[rows] += (new - old)[rows, None] * after
        else:
            self.at += new[:, None] * after - old[:, None] * before


class LookedUpPairs(EvaluatedPairs):
    """Pairs that look their slopes up in a table; ``at`` is the position that belongs to the inner product."""

    def __init__(self, table: FloatArray, at: Bits) -> None:
        self.table, self.at = table, at

    def sums(self, bit: Bits, other: Bits, weight: FloatArray) -> tuple[FloatArray, FloatArray]:
        if _slopes is None:
            return super().sums(bit, other, weight)
        pull, own = np.empty(len(bit)), np.empty((len(bit), len(other) - len(weight)))
        _slopes.sums(self.table, self.at, bit, other, weight, pull, own)
        return pull, own

    def _slope(self, rest: Bits) -> FloatArray:
        return self.table.take(rest)

    def move(self, old: Bits, before: Bits, new: Bits, after: Bits) -> None:
        if _slopes is None:
            super().move(old, before, new, after)
        else:
            _slopes.move(self.at, old, before, new, after)


Pairs = EvaluatedPairs | LookedUpPairs
