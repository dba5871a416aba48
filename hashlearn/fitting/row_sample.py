"""A random sample of the labeled rows with their features, drawn in one pass that also finds the features' mean.

Rows are drawn by their keys (see ``rowkeys``), so the sample is the same in memory and in chunks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from operator import iadd

import numpy as np

import hashlearn.rowkeys as rowkeys
from hashlearn.fitting.job import Job
from hashlearn.fitting.passes import AdditiveSums, RowBlock, RowView, add_up
from hashlearn.fitting.sources import AnySource, RowRange
from hashlearn.rowkeys import Keys
from hashlearn.typing import Float32Array, FloatArray, IntArray


@dataclass
class SampleCandidates(AdditiveSums):
    """Rows that may be in the sample, and the sum over all rows.

    Attributes
    ----------
    total : of the features of all rows, minus the provisional center.
    rows, keys, groups, features : of the candidates, in blocks; their features are not centered.
    """

    n_rows: int
    total: FloatArray
    rows: list[IntArray]
    keys: list[Keys]
    groups: list[IntArray]
    features: list[Float32Array]

    @property
    def mean(self) -> FloatArray:
        return self.total / self.n_rows

    def draw(self, count: int) -> tuple[IntArray, IntArray, Float32Array]:
        """Return ``count`` rows, their groups and their features, in row order."""
        chosen = rowkeys.lowest(np.concatenate(self.keys), count)
        return (
            np.concatenate(self.rows)[chosen],
            np.concatenate(self.groups)[chosen],
            np.concatenate(self.features)[chosen],
        )


def find_candidates(
    source: AnySource, view: RowView, count: int, n_labeled: int, seed: int, job: Job
) -> SampleCandidates:
    """Make the pass that finds the candidates of a sample of ``count`` labeled rows."""
    assert view.center is not None
    plan = SamplePlan(replace(view, center=None), view.center, seed, rowkeys.limit(count, n_labeled))
    return add_up(source, candidates_of_range, plan, job, "draw rows", SampleCandidates)


@dataclass
class SamplePlan:
    """What every task of the pass needs; the view's features are not centered."""

    view: RowView
    center: Float32Array
    seed: int
    limit: np.uint64


def candidates_of_range(plan: SamplePlan, rows: RowRange) -> tuple[SampleCandidates, slice, None]:
    """One task of the pass."""
    candidates = reduce(iadd, (_block_candidates(plan, block) for block in plan.view.blocks(rows)))
    return candidates, slice(rows.start, rows.stop), None


def _block_candidates(plan: SamplePlan, block: RowBlock) -> SampleCandidates:
    key = rowkeys.row_keys(plan.seed, rowkeys.SAMPLE, block.rows.start, block.rows.stop)
    chosen = np.flatnonzero((key <= plan.limit) & (block.group >= 0))
    features = block.x[chosen]
    block.x -= plan.center
    total = block.x.sum(axis=0, dtype=np.float64)
    rows, keys, groups = [chosen + block.rows.start], [key[chosen]], [block.group[chosen]]
    return SampleCandidates(len(block.x), total, rows, keys, groups, [features])
