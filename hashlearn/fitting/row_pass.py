"""The pass of the pairwise methods: codes of all rows that are not anchors, and the sums for the hash function."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import iadd

import numpy as np
from numpy.typing import NDArray

from hashlearn import codes
from hashlearn.fitting.passes import FeatureSums, RowBlock, RowView
from hashlearn.fitting.sources import RowRange
from hashlearn.functions.linear import RidgeSums
from hashlearn.solvers.rows import RowCoder
from hashlearn.typing import Float32Array, FloatArray, IntArray, PackedCodes


@dataclass
class StartingCodes:
    """Where rows start: the signs of their centered features times ``directions``.

    The rows ``learned_rows``, which are sorted, have codes already: ``learned`` in {-1, +1}.
    """

    directions: Float32Array
    learned_rows: IntArray
    learned: NDArray[np.int8]

    @classmethod
    def of(cls, directions: FloatArray, rows: IntArray, learned: FloatArray) -> StartingCodes:
        order = np.argsort(rows)
        return cls(directions.astype(np.float32), rows[order], learned[order].astype(np.int8))


@dataclass
class RowPassPlan:
    """What every task of the pass needs."""

    view: RowView
    start: StartingCodes
    coder: RowCoder


@dataclass
class RowPassSums(FeatureSums):
    """What the pass adds up. The targets in ``sums`` are the gains, then the codes: they are mixed afterwards."""

    gain_times_code: FloatArray
    code_gram: FloatArray

    def projection_sums(self, own_weight: float) -> RidgeSums:
        """Return the sums for the targets gain + own_weight * code, with features counted from their mean."""
        m = len(self.gain_times_code)
        s = self.sums
        mixed = RidgeSums(
            s.count,
            s.x,
            s.xx,
            s.xt[:, :m] + own_weight * s.xt[:, m:],
            s.t[:m] + own_weight * s.t[m:],
            s.tt[:m] + 2 * own_weight * self.gain_times_code + own_weight**2 * s.tt[m:],
        )
        return mixed.recentered(self.mean)


def code_rows(plan: RowPassPlan, rows: RowRange) -> tuple[RowPassSums, slice, PackedCodes]:
    """One task: the sums of its rows, which they are, and their packed codes.

    Rows without a group count for the mean of the features only, and their codes are zeros.
    """
    packed = np.zeros((rows.stop - rows.start, codes.n_bytes(plan.start.directions.shape[1])), dtype=np.uint8)
    parts = (code_block(plan, block, packed[block.rows.start - rows.start :]) for block in plan.view.blocks(rows))
    return reduce(iadd, parts), slice(rows.start, rows.stop), packed


def code_block(plan: RowPassPlan, block: RowBlock, packed: PackedCodes) -> RowPassSums:
    """Code one block: its sums, and the codes in the first rows of ``packed``."""
    start, x, group = plan.start, block.x, block.group
    n_rows, total = len(x), x.sum(axis=0, dtype=np.float64)
    place = np.full(n_rows, -1, dtype=np.intp)
    first, last = np.searchsorted(start.learned_rows, (block.rows.start, block.rows.stop))
    place[start.learned_rows[first:last] - block.rows.start] = np.arange(first, last)
    labeled = block.labeled
    if len(labeled) < n_rows:
        x, group, place = x[labeled], group[labeled], place[labeled]
    has_code = place >= 0
    code = np.empty((len(x), start.directions.shape[1]), dtype=np.float32)
    code[has_code] = start.learned[place[has_code]]
    signs = np.where(x @ start.directions >= 0, np.float32(1), np.float32(-1))
    code[~has_code] = plan.coder.code(group[~has_code], signs[~has_code])
    gain = plan.coder.gain(group, code)
    packed[labeled] = codes.pack(code > 0)
    sums = RidgeSums.of(x, np.concatenate([gain, code], axis=1))
    gain_times_code = np.einsum("ij,ij->j", gain, code, dtype=np.float64)
    return RowPassSums(n_rows, total, sums, gain_times_code, (code.T @ code).astype(np.float64))
