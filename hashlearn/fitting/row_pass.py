"""One pass over the training rows: features, codes and the sums for the hash function, block by block.

Blocks have a size that depends on the number of rows alone. The sums of a task's blocks are added up in order, and
those of the tasks in order: the same sums, bit for bit, on any number of threads, processes or machines of one kind.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from hashlearn import codes
from hashlearn.fitting.base import HashFunction, project_block
from hashlearn.fitting.grouping import Groups
from hashlearn.fitting.job import Job
from hashlearn.fitting.sources import AnySource, Cut
from hashlearn.fitting.sums import FeatureSums, add_up, block_rows, blocks, unit_rows
from hashlearn.functions.linear import RidgeSums
from hashlearn.kernel import FeatureMap
from hashlearn.solvers.rows import RowCoder
from hashlearn.typing import Float32Array, FloatArray


@dataclass
class Start:
    """Where rows start: the signs of centred features times directions.

    ``known`` holds codes that are learned already (the anchors'), of the rows ``rows``, which are sorted.
    """

    directions: Float32Array
    rows: NDArray[np.intp]
    known: NDArray[np.int8]

    @classmethod
    def of(cls, directions: FloatArray, rows: NDArray[np.intp], known: FloatArray) -> Start:
        order = np.argsort(rows)
        return cls(directions.astype(np.float32), rows[order], known[order].astype(np.int8))


@dataclass
class RowView:
    """How tasks see rows: their group numbers, and their features minus a provisional center."""

    features: FeatureMap
    groups: Groups
    center: Float32Array
    n_rows: int


@dataclass
class PassPlan:
    """What every task needs."""

    view: RowView
    start: Start
    coder: RowCoder


@dataclass
class RowSums(FeatureSums):
    """What the pass adds up. Targets in ``sums`` are the gains, then the codes: their mix is chosen afterwards."""

    gain_times_code: FloatArray
    code_gram: FloatArray

    def __iadd__(self, other: Self) -> Self:
        super().__iadd__(other)
        self.gain_times_code += other.gain_times_code
        self.code_gram += other.code_gram
        return self

    def projection_sums(self, own_weight: float, shift: FloatArray) -> RidgeSums:
        """Sums for the targets gain + own_weight * code, with features centred by ``shift``."""
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
        return mixed.recentered(shift)


def run(source: AnySource, plan: PassPlan, job: Job) -> RowSums:
    """The pass. Rows of group -1 count for the features' mean only and get no code here."""
    return add_up(source, code_rows, plan, job, "code rows", RowSums)


def code_rows(plan: PassPlan, cut: Cut) -> tuple[RowSums, slice, NDArray[np.uint8]]:
    """One task: the sums of its rows, which they are, and their packed codes."""
    result: RowSums | None = None
    packed: list[NDArray[np.uint8]] = []
    for rows in blocks(cut, block_rows(plan.view.n_rows)):
        sums, coded = _code_block(plan, cut, rows)
        packed.append(coded)
        result = sums if result is None else result.__iadd__(sums)
    assert result is not None
    return result, slice(cut.start, cut.stop), np.concatenate(packed)


def _code_block(plan: PassPlan, cut: Cut, rows: slice) -> tuple[RowSums, NDArray[np.uint8]]:
    """The sums of one block, and its packed codes: zeros for rows without a group."""
    view, start = plan.view, plan.start
    x = view.features.map_block(cut.read(rows.start, rows.stop))
    x -= view.center
    total = x.sum(axis=0, dtype=np.float64)
    group = view.groups.of(cut.read_labels(rows.start, rows.stop))
    n_rows, n_bits = len(x), start.directions.shape[1]
    learned = np.full(n_rows, -1, dtype=np.intp)
    begin, end = np.searchsorted(start.rows, (rows.start, rows.stop))
    learned[start.rows[begin:end] - rows.start] = np.arange(begin, end)
    known = np.flatnonzero(group >= 0)
    if len(known) < n_rows:
        x, group, learned = x[known], group[known], learned[known]
    code = np.empty((len(x), n_bits), dtype=np.float32)
    is_learned = learned >= 0
    code[is_learned] = start.known[learned[is_learned]]
    first = np.where(x @ start.directions >= 0, np.float32(1), np.float32(-1))
    code[~is_learned] = plan.coder.code(group[~is_learned], first[~is_learned])
    gain = plan.coder.gain(group, code)
    packed = np.zeros((n_rows, codes.n_bytes(n_bits)), dtype=np.uint8)
    packed[known] = codes.pack(code > 0)
    sums = RidgeSums.of(x, np.concatenate([gain, code], axis=1))
    mixed = np.einsum("ij,ij->j", gain, code, dtype=np.float64)
    return RowSums(n_rows, total, sums, mixed, (code.T @ code).astype(np.float64)), packed


@dataclass
class HashPlan:
    """What hashing rows needs: how to project a block, and which rows have labels."""

    features: FeatureMap
    function: HashFunction
    groups: Groups | None
    block_rows: int


def hash_rest(source: AnySource, features: FeatureMap, function: HashFunction, groups: Groups | None, job: Job) -> None:
    """Codes of the rows without labels (of all rows where ``groups`` is None) by the learned function."""
    if job.room is None:
        return
    assert source.n_rows is not None
    plan = HashPlan(features, function, groups, block_rows(source.n_rows))
    for rows, coded in job.run(hash_rows, plan, source.cuts(unit_rows(source))):
        if len(rows):
            job.room[rows] = coded


def hash_rows(plan: HashPlan, cut: Cut) -> tuple[NDArray[np.intp], NDArray[np.uint8]]:
    """One task: its rows without labels and their codes."""
    numbers: list[NDArray[np.intp]] = []
    found: list[NDArray[np.uint8]] = []
    for rows in blocks(cut, plan.block_rows):
        unknown = np.arange(rows.stop - rows.start)
        if plan.groups is not None:
            unknown = np.flatnonzero(plan.groups.of(cut.read_labels(rows.start, rows.stop)) < 0)
        if len(unknown):
            numbers.append(unknown + rows.start)
            block = cut.read(rows.start, rows.stop)[unknown]
            found.append(codes.pack(project_block(plan.features, plan.function, block) >= 0))
    if not numbers:
        return np.empty(0, dtype=np.intp), np.empty((0, 0), dtype=np.uint8)
    return np.concatenate(numbers), np.concatenate(found)
