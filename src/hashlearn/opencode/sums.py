"""The passes over all rows of a fit: one adds up sums and keeps candidates of a sample, and one codes the rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from operator import iadd
from typing import Self

import numpy as np
from scipy import sparse

import hashlearn.rowkeys as rowkeys
from hashlearn.functions.linear import RidgeSums
from hashlearn.kernel import LandmarkKernel, PlainFeatures, dense_rows
from hashlearn.opencode.coder import OpenCoder
from hashlearn.opencode.metric import LabelMetric, LabelSums, unit_rows
from hashlearn.parallel import row_blocks
from hashlearn.rows.groups import GroupLookup
from hashlearn.rows.reduce import AdditiveSums, block_rows, read_groups
from hashlearn.rows.source import RowRange
from hashlearn.rows.survey import Survey
from hashlearn.typing import Float32Array, FloatArray, Int64Array, IntArray, Matrix, PackedCodes

SAMPLE_ROWS = 16_384
"""Axes, books and left-out scores are learned from at most this number of rows, drawn at random."""
LEAST_LABELED = 256
"""Labeled rows that are kept beside the sample: it has fewer where few rows have labels."""


class UnitRows(PlainFeatures):
    """Rows of unit length as features: a survey adds up their moments."""

    def moments(self, X: Matrix) -> tuple[FloatArray, float]:
        rows = unit_rows(X)
        return rows.sum(axis=0, dtype=np.float64), float(np.einsum("ij,ij->", rows, rows, dtype=np.float64))


@dataclass
class LabelPlan:
    """How tasks read labels.

    Attributes
    ----------
    groups : the group of any row: rows of a group have equal labels.
    table, counts : label set and number of rows of every group.
    single : whether every row has one label at most.
    kernel : its landmarks are labeled rows.
    """

    groups: GroupLookup
    table: sparse.csr_matrix
    counts: Int64Array
    single: bool
    kernel: LandmarkKernel

    @property
    def table_with_none(self) -> sparse.csr_matrix:
        """The label sets of groups with an empty one at the end, for the group -1."""
        return sparse.vstack([self.table, sparse.csr_matrix((1, self.table.shape[1]))]).tocsr()


@dataclass
class PassPlan:
    """What tasks know of all rows.

    Attributes
    ----------
    mean : of the unit rows.
    labels : None without labels.
    seed, limit, labeled_limit : rows with keys of this seed up to the limit may be in the sample, and labeled rows up
        to the other limit in that of labeled ones.
    """

    n_rows: int
    mean: FloatArray
    labels: LabelPlan | None
    seed: int
    limit: np.uint64
    labeled_limit: np.uint64

    @classmethod
    def after(cls, found: Survey, seed: int) -> Self:
        """Plan the passes after a survey."""
        labels, labeled_limit = None, np.uint64(0)
        if found.table is not None and found.groups is not None and found.counts is not None:
            labeled_limit = rowkeys.limit(LEAST_LABELED, max(1, int(found.counts.sum())))
            kernel = LandmarkKernel()
            kernel.set_landmarks(found.anchor_rows, found.total, found.squares, found.n_rows)
            kernel.center_ = kernel.typical()  # until the mean is known
            single = bool((np.diff(found.table.indptr) == 1).all())
            labels = LabelPlan(found.groups, found.table, found.counts, single, kernel)
        mean, limit = found.total / found.n_rows, rowkeys.limit(SAMPLE_ROWS, found.n_rows)
        return cls(found.n_rows, mean, labels, seed, limit, labeled_limit)

    def blocks(self, rows: RowRange) -> Iterator[tuple[slice, Float32Array, IntArray]]:
        """Read a range block by block: rows, and their groups (-1 without labels)."""
        for block in row_blocks(rows.stop - rows.start, block_rows(self.n_rows)):
            start, stop = rows.start + block.start, rows.start + block.stop
            group = np.full(stop - start, -1, dtype=np.intp)
            if self.labels is not None:
                group = read_groups(self.labels.groups, rows, start, stop)
            yield slice(start, stop), dense_rows(rows.read(start, stop)), group


@dataclass
class RowSums(AdditiveSums):
    """Sums over rows, and the rows that may be in the sample.

    Attributes
    ----------
    unlabeled : sum of x x' over unit rows x less their mean, of rows without labels.
    labeled : sums over the other rows.
    kernel : sums of the kernel features of labeled rows, from a provisional center.
    rows, keys, groups : of the candidates of the sample, in blocks.
    """

    n_rows: int
    unlabeled: FloatArray
    labeled: LabelSums
    kernel: RidgeSums
    rows: list[Float32Array]
    keys: list[rowkeys.Keys]
    groups: list[IntArray]

    def sample(self) -> tuple[Float32Array, IntArray]:
        """Return the sampled rows and their groups, in the order of their keys: the first of them are a sample too."""
        keys = np.concatenate(self.keys)
        return self._first(np.arange(len(keys)), keys, SAMPLE_ROWS)

    def labeled_sample(self) -> tuple[Float32Array, IntArray]:
        """Return some labeled rows and their groups: the first ones in the order of keys."""
        keys = np.concatenate(self.keys)
        return self._first(np.flatnonzero(np.concatenate(self.groups) >= 0), keys, LEAST_LABELED)

    def _first(self, places: IntArray, keys: rowkeys.Keys, count: int) -> tuple[Float32Array, IntArray]:
        chosen = places[rowkeys.lowest(keys[places], count)]
        chosen = chosen[np.argsort(keys[chosen], kind="stable")]
        return np.concatenate(self.rows)[chosen], np.concatenate(self.groups)[chosen]

    def metric(self, mean: FloatArray) -> LabelMetric:
        """Learn the scales of the metric."""
        covariance = (self.unlabeled + self.labeled.xx) / self.n_rows
        return LabelMetric.learn(mean, covariance, self.labeled if self.labeled.count else None)


def sum_rows(plan: PassPlan, rows: RowRange) -> tuple[RowSums, slice, None]:
    """One task: the sums of its rows."""
    return reduce(iadd, (_block_sums(plan, *block) for block in plan.blocks(rows))), slice(rows.start, rows.stop), None


def _block_sums(plan: PassPlan, numbers: slice, rows: Float32Array, group: IntArray) -> RowSums:
    known = np.flatnonzero(group >= 0)
    centered = unit_rows(rows).astype(np.float64) - plan.mean
    rest = np.delete(centered, known, axis=0)
    labels, features, single = sparse.csr_matrix((0, 0)), np.empty((0, 0), dtype=np.float32), True
    if plan.labels is not None:
        labels, single = plan.labels.table[group[known]], plan.labels.single
        features = plan.labels.kernel.map_block(rows[known]) - plan.labels.kernel.center_
    key = rowkeys.row_keys(plan.seed, rowkeys.SAMPLE, numbers.start, numbers.stop)
    chosen = (key <= plan.limit) | ((group >= 0) & (key <= plan.labeled_limit))
    return RowSums(
        len(rows),
        rest.T @ rest,
        LabelSums.from_rows(centered[known], labels, single),
        RidgeSums.from_rows(features, labels.toarray().astype(np.float32)),
        [rows[chosen]],
        [key[chosen]],
        [group[chosen]],
    )


def code_range(task: tuple[OpenCoder, PassPlan], rows: RowRange) -> tuple[slice, PackedCodes]:
    """One task: the codes of its rows, with the labels that are known."""
    coder, plan = task
    table = None if plan.labels is None else plan.labels.table_with_none
    packed = [coder.encode(part, None if table is None else table[group]) for _, part, group in plan.blocks(rows)]
    return slice(rows.start, rows.stop), np.concatenate(packed)
