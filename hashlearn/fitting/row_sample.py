"""A random sample of the labelled rows with their features, drawn in one pass that also finds the features' mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

import hashlearn.rowkeys as rowkeys
from hashlearn.fitting.frames.gram import Training
from hashlearn.fitting.grouping import GivenGroups
from hashlearn.fitting.job import Job, memory_source
from hashlearn.fitting.sources import Cut
from hashlearn.fitting.sums import add_up, block_rows, blocks
from hashlearn.kernel import PlainFeatures
from hashlearn.typing import Arrays, FloatArray


@dataclass
class Candidates:
    """Rows that may be in the sample (numbers, keys, groups, features not centred), and sums over all rows seen."""

    n_rows: int
    total: FloatArray
    rows: list[NDArray[np.intp]]
    keys: list[rowkeys.Keys]
    groups: list[NDArray[np.intp]]
    features: list[NDArray[np.float32]]

    def __iadd__(self, other: Self) -> Self:
        self.n_rows += other.n_rows
        self.total += other.total
        self.rows += other.rows
        self.keys += other.keys
        self.groups += other.groups
        self.features += other.features
        return self

    def state(self) -> Arrays:
        lists = {name: np.concatenate(value) for name, value in vars(self).items() if isinstance(value, list)}
        return {"n_rows": np.array(self.n_rows), "total": self.total, **lists}

    @classmethod
    def of_state(cls, state: Arrays) -> Self:
        lists = {name: [state[name]] for name in ("rows", "keys", "groups", "features")}
        return cls(int(state["n_rows"]), state["total"], **lists)

    @property
    def mean(self) -> FloatArray:
        return self.total / self.n_rows

    def drawn(self, count: int) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.float32]]:
        """``count`` rows, their groups and features, in row order."""
        chosen = rowkeys.lowest(np.concatenate(self.keys), count)
        return (
            np.concatenate(self.rows)[chosen],
            np.concatenate(self.groups)[chosen],
            np.concatenate(self.features)[chosen],
        )


def draw(training: Training, count: int, job: Job) -> Candidates:
    """The pass. Means are counted from ``training.center``."""
    plan = DrawPlan(training, rowkeys.limit(count, training.n_rows - training.n_unlabelled))
    return add_up(training.source, draw_rows, plan, job, "draw rows", Candidates)


def small_training(
    training: Training, group: NDArray[np.intp], features: NDArray[np.float32], center: NDArray[np.float32]
) -> Training:
    """A sample as the rows of a fit: in memory, with the label sets that occur in it."""
    met, own = np.unique(group, return_inverse=True)
    source = memory_source(features, own)
    table, counts = training.labels[met], np.bincount(own)
    return Training(source, PlainFeatures(), center, GivenGroups(), table, counts, 0, training.seed)


@dataclass
class DrawPlan:
    training: Training
    limit: np.uint64


def draw_rows(plan: DrawPlan, cut: Cut) -> tuple[Candidates, slice, None]:
    """One task of the pass."""
    training = plan.training
    result: Candidates | None = None
    for rows in blocks(cut, block_rows(training.n_rows)):
        x = training.view.map_block(cut.read(rows.start, rows.stop))
        key = rowkeys.row_keys(training.seed, rowkeys.SAMPLE, rows.start, rows.stop)
        group = training.group(cut, rows)
        chosen = np.flatnonzero((key <= plan.limit) & (group >= 0))
        own = x[chosen]
        x -= training.center
        total = x.sum(axis=0, dtype=np.float64)
        part = Candidates(len(x), total, [chosen + rows.start], [key[chosen]], [group[chosen]], [own])
        result = part if result is None else result.__iadd__(part)
    assert result is not None
    return result, slice(cut.start, cut.stop), None
