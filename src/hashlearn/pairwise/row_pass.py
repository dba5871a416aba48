"""The one pass over all rows, which codes those that are not anchors, and the hash function from its sums."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import iadd
from typing import Any

import numpy as np

import hashlearn.rowkeys as rowkeys
from hashlearn import codes
from hashlearn.functions.calibration import Calibration
from hashlearn.functions.linear import (
    FeatureSums,
    HashFunction,
    HeldOutPlan,
    HeldOutRows,
    LinearFunction,
    RidgeSums,
    calibrated_ridge,
)
from hashlearn.functions.posterior import ClassSums, fit_posterior
from hashlearn.pairwise.solver import LearnedAnchors
from hashlearn.rows.reduce import FeatureReader, GroupSums, RowBlock
from hashlearn.rows.source import RowRange
from hashlearn.typing import Float32Array, FloatArray, IntArray, PackedCodes

SUMMED_FUNCTIONS = ("linear", "posterior")
"""Functions that can be fitted to sums over rows; others need the rows."""


@dataclass
class RowPass:
    """What every task of the pass needs.

    Attributes
    ----------
    reader : how to read rows: their features, minus a provisional center, and their groups.
    held_out : which rows are held out.
    n_classes : if positive, features and codes are also summed by class.
    """

    reader: FeatureReader
    anchors: LearnedAnchors
    held_out: HeldOutPlan
    n_classes: int = 0


@dataclass
class RowPassSums(FeatureSums):
    """What the pass sums. The targets in ``sums`` are the gains, then the codes, which are mixed after the pass.

    ``keys`` to ``held_targets`` belong to the rows that may be held out, in blocks.
    """

    gain_times_code: FloatArray
    code_gram: FloatArray
    keys: list[rowkeys.Keys]
    groups: list[IntArray]
    held_x: list[Float32Array]
    held_targets: list[Float32Array]

    def ridge_sums(self, code_weight: float) -> RidgeSums:
        """Return the sums for the targets gain + code_weight * code."""
        s, m = self.sums, len(self.gain_times_code)
        xt = s.xt[:, :m] + code_weight * s.xt[:, m:]
        t = s.t[:m] + code_weight * s.t[m:]
        tt = s.tt[:m] + 2 * code_weight * self.gain_times_code + code_weight**2 * s.tt[m:]
        return RidgeSums(s.count, s.x, s.xx, xt, t, tt)

    def held_out_rows(self, plan: HeldOutPlan, code_weight: float) -> HeldOutRows:
        """Return the rows that are held out, with the targets gain + code_weight * code."""
        m = len(self.gain_times_code)
        keys = np.concatenate(self.keys)
        chosen = rowkeys.lowest(keys, plan.count)
        rank = np.empty(len(chosen), dtype=np.intp)
        rank[np.argsort(keys[chosen], kind="stable")] = np.arange(len(chosen))
        targets = np.concatenate(self.held_targets)[chosen]
        gain, code = targets[:, :m], targets[:, m:]
        mixed = gain + np.float32(code_weight) * code
        group = np.concatenate(self.groups)[chosen]
        return HeldOutRows(np.concatenate(self.held_x)[chosen], mixed, code, group, rank % plan.n_folds)


@dataclass
class ClassPassSums(RowPassSums):
    """The same, and sums by class of the features, the codes and the number of rows, side by side."""

    classes: GroupSums

    def class_sums(self) -> tuple[ClassSums, FloatArray]:
        """Return what class posteriors are learned from, and the code of each class: the bits that most rows have."""
        table, width = self.classes.all(), len(self.total)
        codes = np.where(table[:, width:-1] >= 0, 1.0, -1.0)
        return ClassSums(self.sums, table[:, :width], table[:, -1]), codes


def code_rows(plan: RowPass, rows: RowRange) -> tuple[RowPassSums, slice, PackedCodes]:
    """Run one task: return the sums of its rows, which rows they are, and their packed codes.

    Rows without a group count for the mean of the features only, and their codes are zeros.
    """
    n_bytes = codes.n_bytes(plan.anchors.directions.shape[1])
    packed = np.zeros((rows.stop - rows.start, n_bytes), dtype=np.uint8)
    parts = (code_block(plan, block, packed[block.rows.start - rows.start :]) for block in plan.reader.blocks(rows))
    return reduce(iadd, parts), slice(rows.start, rows.stop), packed


def code_block(plan: RowPass, block: RowBlock, packed: PackedCodes) -> RowPassSums:
    """Code one block: return its sums, and write the codes to the first rows of ``packed``."""
    anchors, x, group = plan.anchors, block.x, block.group
    n_rows, total = len(x), x.sum(axis=0, dtype=np.float64)
    place = np.full(n_rows, -1, dtype=np.intp)
    first, last = np.searchsorted(anchors.rows, (block.rows.start, block.rows.stop))
    place[anchors.rows[first:last] - block.rows.start] = np.arange(first, last)
    labeled = np.flatnonzero(group >= 0)
    if len(labeled) < n_rows:
        x, group, place = x[labeled], group[labeled], place[labeled]
    is_anchor = place >= 0
    code = np.empty((len(x), anchors.directions.shape[1]), dtype=np.float32)
    code[is_anchor] = anchors.codes[place[is_anchor]]
    signs = np.where(x @ anchors.directions >= 0, np.float32(1), np.float32(-1))
    code[~is_anchor] = anchors.coder.code(group[~is_anchor], signs[~is_anchor])
    gain = anchors.coder.gain(group, code)
    packed[labeled] = codes.pack(code > 0)
    targets = np.concatenate([gain, code], axis=1)
    gain_times_code = np.einsum("ij,ij->j", gain, code, dtype=np.float64)
    code_gram = (code.T @ code).astype(np.float64)
    keys = rowkeys.row_keys(plan.held_out.seed, rowkeys.SAMPLE, block.rows.start, block.rows.stop)[labeled]
    out = np.flatnonzero(keys <= plan.held_out.limit)
    kept = [keys[out]], [group[out]], [x[out]], [targets[out]]
    sums = RowPassSums(n_rows, total, RidgeSums.from_rows(x, targets), gain_times_code, code_gram, *kept)
    if plan.n_classes:
        values = np.concatenate([x, code, np.ones((len(x), 1), dtype=np.float32)], axis=1)
        return ClassPassSums(**vars(sums), classes=GroupSums.from_rows(group, values, plan.n_classes))
    return sums


def fit_function(
    function: str,
    ridge: float | str,
    sums: RidgeSums,
    held: HeldOutRows,
    mean: FloatArray,
    classes: tuple[ClassSums, FloatArray] | None,
    n_jobs: int | None,
) -> HashFunction:
    """Fit a linear function to sums over rows, or a posterior to sums by class and the codes of the classes.

    Features are counted from a provisional center, and ``mean`` is their mean.
    """
    if function == "posterior" and classes is not None:
        return fit_posterior(*classes, held, mean)
    if ridge == "auto":
        return calibrated_ridge(sums, held, mean, n_jobs)
    return LinearFunction.solve(sums.recentered(mean), ridge)


def log_odds(function: Any, ridge: float | str, n_bits: int) -> Calibration | None:
    """Return the calibration of a function whose projections are log odds of the bits; None for other functions."""
    if function == "posterior" or (function == "linear" and ridge == "auto"):
        return Calibration(np.ones(n_bits), np.zeros(n_bits))
    return None
