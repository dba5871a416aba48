"""Base of methods that learn in two steps: codes from labels alone, then a hash function that reproduces them.

Codes are learned in the calling process. Per row, it holds a group number (1 to 4 bytes) and a packed code (n_bits / 8
bytes); the features stay in the source.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import reduce
from operator import iadd
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hashlearn import codes
from hashlearn.functions.linear import FeatureSums, RidgeFactor, RidgeSums
from hashlearn.hashers.in_memory import Learned, linear
from hashlearn.hashers.sums import SumsHasher, Training
from hashlearn.labels import LabelMatrix
from hashlearn.progress import report
from hashlearn.rows.groups import GroupLookup
from hashlearn.rows.reduce import AnySums, FeatureReader, FitContext, RowBlock, range_rows, reduce_rows, under
from hashlearn.rows.source import PartList, RowRange
from hashlearn.typing import Arrays, Float32Array, FloatArray, IntArray, PackedCodes, Rng
from hashlearn.zoo.bases.rounds import with_codes

GroupNumbers = NDArray[np.signedinteger]


class TwoStepHasher(SumsHasher):
    """Base of such methods. A subclass implements ``_learn_codes`` and ``_learn_weights``."""

    draws_rows = False

    @abstractmethod
    def _learn_codes(self, group: GroupNumbers, labels: LabelMatrix, rng: Rng) -> tuple[PackedCodes, Arrays]:
        """Learn codes from the groups of the labeled rows and the label set of each group.

        Returns
        -------
        packed codes of the labeled rows, fitted attributes
        """

    @abstractmethod
    def _learn_weights(self, rows: CodedRows) -> FloatArray:
        """Learn the weights (features, bits) of the hash function."""

    def _learn_rows(self, training: Training, context: FitContext, rng: Rng) -> Learned:
        # Nothing is drawn after the codes, so a resumed fit needs no other state.
        saved = context.load("learn-codes")
        if saved is None:
            saved = self._learn_all_codes(training, context, rng)
            context.save("learn-codes", saved)
        packed = saved["packed"]
        attributes = {name: v if v.ndim else v.item() for name, v in under(saved, "attributes.").items()}
        context.put_all_codes(packed)
        rows = CodedRows(training, packed, self.n_bits_, context)
        rows.shift = self._set_center(training, rows.sums.mean)
        rows.center = self.features_.center_
        learned = Learned(linear(self._learn_weights(rows)), **attributes)
        learned.in_context = True
        return learned

    def _learn_all_codes(self, training: Training, context: FitContext, rng: Rng) -> Arrays:
        """Return packed codes of all rows, zeros for rows without labels, and fitted attributes."""
        group = groups_of_all_rows(training, context)
        labeled = slice(None) if training.n_unlabeled == 0 else group >= 0
        packed, attributes = self._learn_codes(group[labeled], training.labels, rng)
        if training.n_unlabeled:
            learned, packed = packed, np.zeros((len(group), packed.shape[1]), dtype=np.uint8)
            packed[labeled] = learned
        return {"packed": packed, **{f"attributes.{name}": value for name, value in attributes.items()}}


def groups_of_all_rows(training: Training, context: FitContext) -> GroupNumbers:
    """Read the group of every row, -1 without labels. Only labels are read."""
    source, dtype = training.source, np.min_scalar_type(-training.n_groups)
    groups = training.view.groups
    if not isinstance(groups, GroupLookup):
        assert groups is not None
        return groups.astype(dtype)
    group = np.empty(training.n_rows, dtype=dtype)
    ranges = source.ranges(range_rows(source))
    labels_only = (RowRange(rows.start, rows.stop, PartList([]), rows.labels) for rows in ranges)
    for rows, numbers in context.run(group_range, (groups, dtype), labels_only):
        group[rows] = numbers
        report("read labels", rows.stop, training.n_rows)
    return group


def group_range(plan: tuple[GroupLookup, np.dtype[Any]], rows: RowRange) -> tuple[slice, GroupNumbers]:
    """Run one task of reading labels."""
    groups, dtype = plan
    return slice(rows.start, rows.stop), groups.group_numbers(rows.read_labels(rows.start, rows.stop)).astype(dtype)


@dataclass
class SpreadSums(FeatureSums):
    """Sums over rows, and the sums of the squared features of all rows."""

    squares: FloatArray

    def spread(self, center: NDArray[np.floating]) -> FloatArray:
        """Return the standard deviation of each feature, whose mean is ``center``; 1 if it is no more than rounding."""
        found = np.sqrt(np.maximum(self.squares / self.n_rows - self.mean**2, 0.0))
        rounding = 4 * np.finfo(np.float32).eps * np.abs(center)
        return np.where(found > rounding, found, 1.0)


@dataclass
class TakenSums(SpreadSums):
    """Sums over rows, and the features of the rows that are wanted, in blocks; they are not centered."""

    taken: list[Float32Array]


def take_rows(training: Training, rows: IntArray, context: FitContext, products: bool = True) -> TakenSums:
    """Add up all rows and take those of the numbers ``rows``, which ascend; X'X may be left out."""
    plan = training.view, rows, products
    return reduce_rows(training.source, sum_and_take, plan, context, "take rows", TakenSums)


def sum_and_take(plan: tuple[FeatureReader, IntArray, bool], rows: RowRange) -> tuple[TakenSums, slice, None]:
    """Run one task: sums over its rows and the features of some."""
    view, wanted, products = plan
    assert view.center is not None
    center = view.center

    def sums(block: RowBlock) -> TakenSums:
        first, last = np.searchsorted(wanted, (block.rows.start, block.rows.stop))
        x, taken = block.x, block.x[wanted[first:last] - block.rows.start]
        x -= center
        own = x[block.group >= 0] if products else x[:0]
        return TakenSums(*_sums(x, own.astype(np.float64), np.empty((len(own), 0))), [taken])

    blocks = replace(view, center=None).blocks(rows)
    return reduce(iadd, map(sums, blocks)), slice(rows.start, rows.stop), None


def _sums(x: Float32Array, labeled: FloatArray, targets: FloatArray) -> tuple[int, FloatArray, RidgeSums, FloatArray]:
    """Return the fields of ``SpreadSums`` of the rows of a block, of which some are labeled."""
    squares = np.einsum("ij,ij->j", x, x, dtype=np.float64)
    return len(x), x.sum(axis=0, dtype=np.float64), RidgeSums.from_rows(labeled, targets), squares


def scaled_ridge(xx: FloatArray, xt: FloatArray, spread: FloatArray, ridge: float) -> FloatArray:
    """Solve ridge regression on features divided by ``spread``; the weights are those of the features as they are."""
    return RidgeFactor(xx / np.outer(spread, spread), ridge).solve(xt / spread[:, None]) / spread[:, None]


class CodedRows:
    """Rows with packed codes, and the sums over features and codes.

    Attributes
    ----------
    sums : of features counted from the provisional center.
    center : the final center of the features.
    shift : the distance from the provisional center to the final one.
    """

    center: Float32Array
    shift: FloatArray

    def __init__(self, training: Training, packed: PackedCodes, n_bits: int, context: FitContext) -> None:
        self.training, self.packed, self.n_bits, self._context = training, packed, n_bits, context
        self._tasks, plan = with_codes(packed), CodedRowsPlan(training.view, n_bits)
        self.sums = reduce_rows(training.source, sum_codes, plan, context, "add up codes", SpreadSums, self._tasks)

    def centered(self) -> RidgeSums:
        """Return the sums of centered features and codes over the labeled rows."""
        return self.sums.sums.recentered(self.shift)

    def spread(self) -> FloatArray:
        """Return the standard deviations of the features of all rows."""
        return self.sums.spread(self.training.center + self.sums.mean)

    def reduce_rows(self, function: Callable[[Any, Any], Any], extra: Any, phase: str, kind: type[AnySums]) -> AnySums:
        """Make one more pass: sums of ``function((plan, extra), (rows, codes))``, of centered features."""
        plan = (CodedRowsPlan(self.training.centered_at(self.center), self.n_bits), extra)
        return reduce_rows(self.training.source, function, plan, self._context, phase, kind, self._tasks)


@dataclass
class CodedRowsPlan:
    """What a pass over coded rows needs."""

    view: FeatureReader
    n_bits: int

    def blocks(
        self, task: tuple[RowRange, PackedCodes]
    ) -> Iterator[tuple[Float32Array, NDArray[np.bool_], FloatArray]]:
        """Yield for every block the features of all rows, which of them have labels, and the codes of those."""
        rows, packed = task
        for block in self.view.blocks(rows):
            labeled = block.group >= 0
            own = packed[block.rows.start - rows.start : block.rows.stop - rows.start][labeled]
            yield block.x, labeled, codes.unpack_signs(own, self.n_bits).astype(np.float64)


def sum_codes(plan: CodedRowsPlan, task: tuple[RowRange, PackedCodes]) -> tuple[SpreadSums, slice, None]:
    """Run one task: sums over its rows."""

    def sums(x: Float32Array, labeled: NDArray[np.bool_], B: FloatArray) -> SpreadSums:
        return SpreadSums(*_sums(x, x[labeled].astype(np.float64), B))

    return reduce(iadd, (sums(*block) for block in plan.blocks(task))), slice(task[0].start, task[0].stop), None
