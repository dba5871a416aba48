"""The rows of a fit as methods see them, and the tasks that sum, collect and project them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import reduce
from operator import iadd
from typing import Any

import numpy as np
from scipy import sparse

import hashlearn.rowkeys as rowkeys
from hashlearn.fitting.group_sums import GroupedFeatureSums, GroupSums
from hashlearn.fitting.grouping import GivenGroups
from hashlearn.fitting.passes import FeatureSums, RowBlock, RowView
from hashlearn.fitting.sources import AnySource, RowRange, memory_source
from hashlearn.functions.linear import RidgeSums
from hashlearn.kernel import PlainFeatures
from hashlearn.typing import Float32Array, FloatArray, Int64Array, IntArray


@dataclass
class Training:
    """The rows of a fit, as methods see them.

    Attributes
    ----------
    source : the rows and labels. Tasks bring the rows that they need, so it is not sent to workers.
    view : how tasks see rows; its center is roughly the mean of the features.
    table, counts : the label set of every group and the number of its rows; None without labels.
    seed : of what is drawn by row numbers.
    """

    source: AnySource
    view: RowView
    table: sparse.csr_matrix | None = None
    counts: Int64Array | None = None
    n_unlabeled: int = 0
    seed: int = 0

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "source": None}

    @property
    def n_rows(self) -> int:
        return self.view.n_rows

    @property
    def n_features(self) -> int:
        """Features after the feature map."""
        return len(self.center)

    @property
    def center(self) -> Float32Array:
        assert self.view.center is not None
        return self.view.center

    @property
    def n_groups(self) -> int:
        """Groups of rows with equal labels; one without labels."""
        return 1 if self.table is None else int(self.table.shape[0])

    @property
    def labels(self) -> sparse.csr_matrix:
        """The label set of every group."""
        assert self.table is not None
        return self.table

    def of_sample(self, group: IntArray, features: Float32Array, center: Float32Array) -> Training:
        """Return the training on a sample of the rows, in memory, with the label sets that occur in it."""
        present, own = np.unique(group, return_inverse=True)
        view = RowView(PlainFeatures(), center, GivenGroups(), len(features))
        counts = np.bincount(own)
        return Training(memory_source(features, own), view, self.labels[present], counts, 0, self.seed)

    def centered_at(self, center: Float32Array | None) -> RowView:
        """Return a view of features minus another center; None for features as they are."""
        return replace(self.view, center=center)


@dataclass
class GramSums:
    """Sums over the labeled rows (all rows without labels) of centered features x and label sets y.

    ``groups`` (n_groups, d) are the sums of x by group, for methods that ask for them by ``by_group``.
    """

    count: int
    x: FloatArray
    xx: FloatArray
    xy: FloatArray
    y: FloatArray
    yy: FloatArray
    groups: FloatArray = field(default_factory=lambda: np.empty((0, 0)))


def centered_sums(found: FeatureSums, training: Training, shift: FloatArray) -> GramSums:
    """Return the sums for features less ``shift``."""
    s, yy = found.sums.recentered(shift), np.zeros((0, 0))
    result = GramSums(s.count, s.x, s.xx, s.xt, s.t, yy)
    if training.table is not None and training.counts is not None:
        counts = training.counts.astype(np.float64)
        result.yy = (training.table.T @ sparse.diags(counts) @ training.table).toarray()
        if isinstance(found, GroupedFeatureSums):
            result.groups = found.groups.all() - np.outer(counts, shift)
            result.xy, result.y = np.asarray(training.table.T @ result.groups).T, training.table.T @ counts
    return result


@dataclass
class SumPlan:
    """What every task of adding up needs."""

    training: Training
    by_group: bool


def sum_rows(plan: SumPlan, rows: RowRange) -> tuple[FeatureSums, slice, None]:
    """One task: sums of features and label sets."""
    sums = reduce(iadd, (_block_sums(plan, block) for block in plan.training.view.blocks(rows)))
    return sums, slice(rows.start, rows.stop), None


def _block_sums(plan: SumPlan, block: RowBlock) -> FeatureSums:
    table, x, group, labeled = plan.training.table, block.x, block.group, block.labeled
    n_rows, total = len(x), x.sum(axis=0, dtype=np.float64)
    y = np.zeros((len(labeled), 0))
    if table is not None:
        x, group = x[labeled], group[labeled]
        if not plan.by_group:
            y = table[group].toarray()
    # In double precision, because some methods divide by small differences of these sums.
    wide = x.astype(np.float64)
    sums = RidgeSums.of(wide, y)
    if plan.by_group:
        return GroupedFeatureSums(n_rows, total, sums, GroupSums.of(group, wide, plan.training.n_groups))
    return FeatureSums(n_rows, total, sums)


def collect_features(view: RowView, rows: RowRange) -> tuple[slice, Float32Array]:
    """One task: the features of its rows."""
    return slice(rows.start, rows.stop), np.concatenate([block.x for block in view.blocks(rows)])


@dataclass
class ProjectionPlan:
    """What projecting a sample needs: rows with keys up to ``limit`` may be in it."""

    view: RowView
    weights: FloatArray
    seed: int
    limit: np.uint64


def project_sample(plan: ProjectionPlan, rows: RowRange) -> tuple[rowkeys.Keys, FloatArray, int]:
    """One task: keys and projections of its rows that may be in the sample."""
    keys, parts = [], []
    # Whole blocks are mapped, so that the features are those of the other passes to the last bit.
    for block in plan.view.blocks(rows):
        key = rowkeys.row_keys(plan.seed, rowkeys.SAMPLE, block.rows.start, block.rows.stop)
        chosen = np.flatnonzero((key <= plan.limit) & (block.group >= 0))
        keys.append(key[chosen])
        parts.append(block.x[chosen] @ plan.weights)
    return np.concatenate(keys), np.concatenate(parts), rows.stop
