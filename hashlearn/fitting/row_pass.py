"""The pass of the pairwise methods: codes of all rows that are not anchors, and the sums for the hash function."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import iadd

import numpy as np
from numpy.typing import NDArray

import hashlearn.rowkeys as rowkeys
from hashlearn import codes
from hashlearn.fitting.group_sums import GroupSums
from hashlearn.fitting.passes import FeatureSums, RowBlock, RowView
from hashlearn.fitting.sources import RowRange
from hashlearn.functions.held_out import HeldOutRows
from hashlearn.functions.linear import RidgeSums
from hashlearn.functions.posterior import ClassSums
from hashlearn.solvers.rows import RowCoder
from hashlearn.typing import Float32Array, FloatArray, IntArray, PackedCodes

MOST_HELD_OUT = 2048
"""Rows left out at most; a fifth of the rows if they are fewer."""
FEW_ROWS, N_FOLDS = 2500, 5
"""With fewer labeled rows than this, every row is left out once, in one of so many folds."""


@dataclass
class HeldOutPlan:
    """Which rows are left out: the ``count`` labeled rows with the lowest keys. Keys beyond ``limit`` are not."""

    seed: int
    count: int
    n_folds: int
    limit: np.uint64

    @classmethod
    def of(cls, n_labeled: int, seed: int) -> HeldOutPlan:
        few = n_labeled < FEW_ROWS
        count = n_labeled if few else min(MOST_HELD_OUT, n_labeled // N_FOLDS)
        return cls(seed, count, min(N_FOLDS, n_labeled) if few else 1, rowkeys.limit(count, n_labeled))


@dataclass
class StartingCodes:
    """Where rows start: the signs of their centered features times ``directions``.

    The rows ``learned_rows``, which are sorted, have codes already: ``learned`` in {-1, +1}.
    """

    directions: Float32Array
    learned_rows: IntArray
    learned: NDArray[np.int8]

    @classmethod
    def of(cls, directions: NDArray[np.floating], rows: IntArray, learned: FloatArray) -> StartingCodes:
        order = np.argsort(rows)
        return cls(directions.astype(np.float32), rows[order], learned[order].astype(np.int8))


@dataclass
class RowPassPlan:
    """What every task of the pass needs."""

    view: RowView
    start: StartingCodes
    coder: RowCoder
    held_out: HeldOutPlan | None = None
    n_classes: int = 0
    """If positive, features and codes are also summed by class."""


@dataclass
class RowPassSums(FeatureSums):
    """What the pass adds up. The targets in ``sums`` are the gains, then the codes: they are mixed afterwards.

    ``keys`` to ``held_targets`` are of the rows that may be left out, in blocks.
    """

    gain_times_code: FloatArray
    code_gram: FloatArray
    keys: list[rowkeys.Keys]
    groups: list[IntArray]
    held_x: list[Float32Array]
    held_targets: list[Float32Array]

    def projection_sums(self, own_weight: float) -> RidgeSums:
        """Return the sums for the targets gain + own_weight * code."""
        m = len(self.gain_times_code)
        s = self.sums
        return RidgeSums(
            s.count,
            s.x,
            s.xx,
            s.xt[:, :m] + own_weight * s.xt[:, m:],
            s.t[:m] + own_weight * s.t[m:],
            s.tt[:m] + 2 * own_weight * self.gain_times_code + own_weight**2 * s.tt[m:],
        )

    def held_out(self, plan: HeldOutPlan, own_weight: float) -> HeldOutRows:
        """Return the rows that are left out, with the targets gain + own_weight * code."""
        m = len(self.gain_times_code)
        keys = np.concatenate(self.keys)
        chosen = rowkeys.lowest(keys, plan.count)
        rank = np.empty(len(chosen), dtype=np.intp)
        rank[np.argsort(keys[chosen], kind="stable")] = np.arange(len(chosen))
        targets = np.concatenate(self.held_targets)[chosen]
        gain, code = targets[:, :m], targets[:, m:]
        mixed = gain + np.float32(own_weight) * code
        group = np.concatenate(self.groups)[chosen]
        return HeldOutRows(np.concatenate(self.held_x)[chosen], mixed, code, group, rank % plan.n_folds)


@dataclass
class ClassPassSums(RowPassSums):
    """The same, and sums by class of the features, the codes and the number of rows, side by side."""

    classes: GroupSums

    def class_sums(self, n_features: int) -> tuple[ClassSums, FloatArray]:
        """Return what class posteriors are learned from, and the code of each class: the bits that most rows have."""
        table = self.classes.all()
        codes = np.where(table[:, n_features:-1] >= 0, 1.0, -1.0)
        return ClassSums(self.sums, table[:, :n_features], table[:, -1]), codes


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
    targets = np.concatenate([gain, code], axis=1)
    gain_times_code = np.einsum("ij,ij->j", gain, code, dtype=np.float64)
    sums = RowPassSums(
        n_rows, total, RidgeSums.of(x, targets), gain_times_code, (code.T @ code).astype(np.float64), [], [], [], []
    )
    if plan.held_out is not None:
        keys = rowkeys.row_keys(plan.held_out.seed, rowkeys.SAMPLE, block.rows.start, block.rows.stop)[labeled]
        chosen = np.flatnonzero(keys <= plan.held_out.limit)
        sums.keys, sums.groups = [keys[chosen]], [group[chosen]]
        sums.held_x, sums.held_targets = [x[chosen]], [targets[chosen]]
    if plan.n_classes:
        values = np.concatenate([x, code, np.ones((len(x), 1), dtype=np.float32)], axis=1)
        return ClassPassSums(**vars(sums), classes=GroupSums.of(group, values, plan.n_classes))
    return sums
