"""The frame of methods whose codes come from labels alone: codes first, then a pass over features that fits them.

Codes are learned in the calling process, which holds a group number (1 to 4 bytes) and a packed code (n_bits / 8 bytes)
a row. Features stay where they are.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from hashlearn import codes
from hashlearn.fitting.frames.gram import LearnedFunction, SummedHasher, Training
from hashlearn.fitting.frames.in_memory import linear
from hashlearn.fitting.grouping import Groups
from hashlearn.fitting.job import Job
from hashlearn.fitting.sources import Cut, PartList
from hashlearn.fitting.sums import Additive, FeatureSums, add_up, block_rows, blocks, under, unit_rows
from hashlearn.functions.linear import RidgeFactor, RidgeSums
from hashlearn.progress import report
from hashlearn.typing import Arrays, FloatArray, PackedCodes

GroupNumbers = NDArray[np.signedinteger]
Sums = TypeVar("Sums", bound=Additive)


class FromLabelsHasher(SummedHasher):
    """Base of such methods. A subclass implements ``_learn_codes`` and ``_learn_weights``."""

    @abstractmethod
    def _learn_codes(
        self, group: GroupNumbers, labels: sparse.csr_matrix, rng: np.random.RandomState
    ) -> tuple[PackedCodes, Arrays]:
        """Packed codes of the labelled rows, given their groups and each group's label set; fitted attributes."""

    @abstractmethod
    def _learn_weights(self, rows: CodedRows) -> FloatArray:
        """Weights (features, bits) of the hash function."""

    def _row_seed(self, rng: np.random.RandomState) -> int:
        """Nothing is drawn by row numbers, so nothing is taken from ``rng``."""
        return 0

    def _learn_rows(self, training: Training, job: Job, rng: np.random.RandomState) -> LearnedFunction:
        # Nothing is drawn after the codes, so a fit that goes on from a checkpoint needs nothing else.
        saved = job.checkpoint.load("learn-codes")
        if saved is None:
            saved = self._learn_all_codes(training, job, rng)
            job.checkpoint.save("learn-codes", saved)
        packed, attributes = saved["packed"], under(saved, "attributes.")
        if job.room is not None:
            job.room[:] = packed
        rows = CodedRows(training, packed, self.n_bits_, job)
        rows.shift = self._set_center(training, rows.sums.mean)
        rows.center = self.features_.center_
        return LearnedFunction(linear(self._learn_weights(rows)), attributes=attributes, coded=True)

    def _learn_all_codes(self, training: Training, job: Job, rng: np.random.RandomState) -> Arrays:
        """Packed codes of all rows, zeros where there are no labels, and fitted attributes."""
        group = read_groups(training, job)
        known = slice(None) if training.n_unlabelled == 0 else group >= 0
        packed, attributes = self._learn_codes(group[known], training.labels, rng)
        if training.n_unlabelled:
            learned, packed = packed, np.zeros((len(group), packed.shape[1]), dtype=np.uint8)
            packed[known] = learned
        return {"packed": packed, **{f"attributes.{name}": value for name, value in attributes.items()}}


def read_groups(training: Training, job: Job) -> GroupNumbers:
    """Group of every row, -1 without labels. Only labels are read."""
    source, dtype = training.source, np.min_scalar_type(-training.n_groups)
    group = np.empty(training.n_rows, dtype=dtype)
    cuts = (Cut(cut.start, cut.stop, PartList([]), cut.labels) for cut in source.cuts(unit_rows(source)))
    for rows, numbers in job.run(number_rows, (training.groups, dtype), cuts):
        group[rows] = numbers
        report("read labels", rows.stop, training.n_rows)
    return group


def number_rows(plan: tuple[Groups, np.dtype[Any]], cut: Cut) -> tuple[slice, GroupNumbers]:
    """One task of reading labels."""
    groups, dtype = plan
    return slice(cut.start, cut.stop), groups.of(cut.read_labels(cut.start, cut.stop)).astype(dtype)


@dataclass
class SpreadSums(FeatureSums):
    """The same, and the sums of the squared features of all rows."""

    squares: FloatArray

    def __iadd__(self, other: Self) -> Self:
        super().__iadd__(other)
        self.squares += other.squares
        return self

    def spread(self, center: NDArray[np.floating]) -> FloatArray:
        """Standard deviation of each feature, whose mean is ``center``; 1 where it is no more than rounding."""
        found = np.sqrt(np.maximum(self.squares / self.n_rows - self.mean**2, 0.0))
        rounding = 4 * np.finfo(np.float32).eps * np.abs(center)
        return np.where(found > rounding, found, 1.0)


def squares(x: NDArray[np.floating]) -> FloatArray:
    """Sums of the squares of each feature."""
    return np.einsum("ij,ij->j", x, x, dtype=np.float64)


def scaled_ridge(xx: FloatArray, xt: FloatArray, spread: FloatArray, ridge: float) -> FloatArray:
    """Weights for features as they are, from ridge regression on features divided by ``spread``."""
    return RidgeFactor(xx / np.outer(spread, spread), ridge).solve(xt / spread[:, None]) / spread[:, None]


class CodedRows:
    """Rows with packed codes, and the sums that say how features and codes go together.

    ``shift`` is how far the centre of the features is from the one that these sums are counted from.
    """

    center: NDArray[np.float32]
    shift: FloatArray

    def __init__(self, training: Training, packed: PackedCodes, n_bits: int, job: Job) -> None:
        self.training, self.packed, self.n_bits, self._job = training, packed, n_bits, job
        plan = CodePlan(training, training.center, n_bits)
        self.sums = add_up(training.source, sum_codes, plan, job, "add up codes", SpreadSums, self._with_codes)

    def _with_codes(self, cuts: Iterator[Cut]) -> Iterator[tuple[Cut, PackedCodes]]:
        return ((cut, self.packed[cut.start : cut.stop]) for cut in cuts)

    def centred(self) -> RidgeSums:
        """Sums of centred features and codes over the labelled rows."""
        return self.sums.sums.recentered(self.shift)

    def spread(self) -> FloatArray:
        """Standard deviations of the features of all rows."""
        return self.sums.spread(self.training.center + self.sums.mean)

    def add_up(self, function: Callable[[Any, Any], Any], extra: Any, phase: str, kind: type[Sums]) -> Sums:
        """One more pass: the sums of ``function((plan, extra), (cut, codes))``, of features about their centre."""
        plan = (CodePlan(self.training, self.center, self.n_bits), extra)
        return add_up(self.training.source, function, plan, self._job, phase, kind, self._with_codes)


@dataclass
class CodePlan:
    """What a pass over coded rows needs; features are counted from ``center``."""

    training: Training
    center: NDArray[np.float32]
    n_bits: int

    def blocks(
        self, task: tuple[Cut, PackedCodes]
    ) -> Iterator[tuple[NDArray[np.float32], NDArray[np.bool_], FloatArray]]:
        """Block by block: features of all rows, which of them have labels, and codes of those."""
        cut, packed = task
        for rows in blocks(cut, block_rows(self.training.n_rows)):
            x = self.training.view.map_block(cut.read(rows.start, rows.stop))
            x -= self.center
            known = self.training.group(cut, rows) >= 0
            own = packed[rows.start - cut.start : rows.stop - cut.start][known]
            yield x, known, codes.unpack_signs(own, self.n_bits).astype(np.float64)


def sum_codes(plan: CodePlan, task: tuple[Cut, PackedCodes]) -> tuple[SpreadSums, slice, None]:
    """One task: sums over its rows."""
    result: SpreadSums | None = None
    for x, known, B in plan.blocks(task):
        sums = RidgeSums.of(x[known].astype(np.float64), B)
        part = SpreadSums(len(x), x.sum(axis=0, dtype=np.float64), sums, squares(x))
        result = part if result is None else result.__iadd__(part)
    assert result is not None
    return result, slice(task[0].start, task[0].stop), None
