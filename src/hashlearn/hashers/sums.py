"""The rows of a fit as methods see them, and the tasks that sum, collect and project them."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from operator import iadd
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

import hashlearn.rowkeys as rowkeys
from hashlearn import codes
from hashlearn.functions.calibration import Calibration
from hashlearn.functions.linalg import principal_directions, top_eigenvectors
from hashlearn.functions.linear import FeatureSums, GroupedFeatureSums, HashFunction, RidgeSums, project_block
from hashlearn.hashers.in_memory import InMemoryHasher
from hashlearn.kernel import FeatureMap, LandmarkKernel, PlainFeatures
from hashlearn.labels import check_variety, group_rows
from hashlearn.parallel import map_blocks, one_blas_thread
from hashlearn.progress import report
from hashlearn.rows.groups import Groups, LabelReader
from hashlearn.rows.reduce import (
    FeatureReader,
    FitContext,
    GroupSums,
    RowBlock,
    block_rows,
    hash_rows,
    range_rows,
    read_groups,
    reduce_rows,
)
from hashlearn.rows.source import AnySource, CalibrationSample, RowRange, Source
from hashlearn.rows.survey import SurveyPlan, survey
from hashlearn.typing import Float32Array, FloatArray, Int64Array, IntArray, Matrix, PackedCodes, Rng


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
    view: FeatureReader
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

    def on_sample(self, group: IntArray, features: Float32Array, center: Float32Array) -> Training:
        """Return the training on a sample of the rows, in memory, with the label sets that occur in it."""
        present, own = np.unique(group, return_inverse=True)
        view = FeatureReader(PlainFeatures(), center, own, len(features))
        counts = np.bincount(own)
        return Training(Source(features), view, self.labels[present], counts, 0, self.seed)

    def centered_at(self, center: Float32Array | None) -> FeatureReader:
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
    """Run one task: sums of features and label sets."""
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
    sums = RidgeSums.from_rows(wide, y)
    if plan.by_group:
        return GroupedFeatureSums(n_rows, total, sums, GroupSums.from_rows(group, wide, plan.training.n_groups))
    return FeatureSums(n_rows, total, sums)


def collect_features(view: FeatureReader, rows: RowRange) -> tuple[slice, Float32Array]:
    """Run one task: the features of its rows."""
    return slice(rows.start, rows.stop), np.concatenate([block.x for block in view.blocks(rows)])


@dataclass
class ProjectionPlan:
    """What projecting a sample needs: rows with keys up to ``limit`` may be in it."""

    view: FeatureReader
    weights: FloatArray
    seed: int
    limit: np.uint64


def project_sample(plan: ProjectionPlan, rows: RowRange) -> tuple[rowkeys.Keys, FloatArray, int]:
    """Run one task: keys and projections of its rows that may be in the sample."""
    keys, parts = [], []
    # Whole blocks are mapped, so that the features are those of the other passes to the last bit.
    for block in plan.view.blocks(rows):
        key = rowkeys.row_keys(plan.seed, rowkeys.SAMPLE, block.rows.start, block.rows.stop)
        chosen = np.flatnonzero((key <= plan.limit) & (block.group >= 0))
        keys.append(key[chosen])
        parts.append(block.x[chosen] @ plan.weights)
    return np.concatenate(keys), np.concatenate(parts), rows.stop


SAMPLE_ROWS = 100_000
"""A rotation is learned from at most this number of rows: all rows would have to be read once per round."""


@dataclass
class LearnedFunction:
    """What a method returns.

    Attributes
    ----------
    function : the hash function.
    group_codes : learned codes in {-1, +1}, one per group.
    attributes : fitted attributes by name, ``objective_`` for example.
    coded : whether the method has written the codes of the labeled rows already.
    rest : the function that hashes rows without learned codes, if it is not ``function``.
    row_codes : numbers and packed codes of some rows, if only a sample has learned codes.
    calibration : of the bits, if the method learns it itself.
    """

    function: HashFunction
    group_codes: NDArray[Any] | None = None
    attributes: dict[str, Any] = field(default_factory=dict)
    coded: bool = False
    rest: HashFunction | None = None
    row_codes: tuple[IntArray, PackedCodes] | None = None
    calibration: Calibration | None = None


class SumsHasher(InMemoryHasher):
    """Base of methods that learn from sums over rows. A subclass implements ``_learn_sums``, or ``_learn_rows``."""

    by_group: ClassVar[bool] = False
    """Whether the method needs the sums of features by label set, which are n_groups x d numbers."""

    @abstractmethod
    def _learn_sums(self, training: Training, sums: GramSums, context: FitContext, rng: Rng) -> LearnedFunction:
        """Learn from sums. A method may make further passes over ``training``."""

    def fit(self, X: Matrix, y: Any = None) -> Self:
        """Learn from classes (n,) or label sets (n, c) of 0/1, dense or sparse; unsupervised methods ignore y."""
        X = self._validate(X)
        group = table = counts = None
        if self._uses_labels:
            labels = self._label_sets(X, y)
            group, first = group_rows(labels)
            check_variety(len(first))
            table, counts = labels[first], np.bincount(group[group >= 0])
        rng, source = self._rng(), Source(X)
        with FitContext(n_jobs=self.n_jobs, verbose=self.verbose) as context:
            with context.timer("features"):
                features = self._feature_map(rng)
                features.fit_landmarks(X)
                total = None if isinstance(features, LandmarkKernel) else _row_total(X, self.n_jobs)
                center = _provisional_center(features, total, X.shape[0])
                view = FeatureReader(features, center, group, X.shape[0])
                n_unlabeled = 0 if group is None else int(np.count_nonzero(group < 0))
                training = Training(source, view, table, counts, n_unlabeled, self._row_seed(rng))
                if not isinstance(features, PlainFeatures):
                    training = _mapped_once(training, X, self.n_jobs)
                sample = CalibrationSample.from_array(X, None if group is None else group >= 0)
                sample.groups = None if group is None else group[sample.numbers]
            self._learn_all(training, source, features, sample, context, rng)
        return self

    def _fit_source(self, source: AnySource, context: FitContext, rng: Rng) -> None:
        with context.timer("features"):
            features = self._feature_map(rng)
            reader = LabelReader(self._unlabeled) if self._uses_labels else None
            found = survey(source, SurveyPlan.for_source(source, features, reader), context)
            features.set_landmarks(found.landmark_rows, found.total, found.squares, found.n_rows)
            self._advise(found.advice(self.n_bits_))
            center = _provisional_center(features, found.total, found.n_rows)
            view = FeatureReader(features, center, found.groups, found.n_rows)
            training = Training(source, view, found.table, found.counts, found.n_unlabeled, self._row_seed(rng))
        self._learn_all(training, source, features, found.sample, context, rng)

    def _row_seed(self, rng: Rng) -> int:
        """Draw the seed of what is drawn by row numbers. A method that draws nothing so returns 0."""
        return int(rng.randint(2**31))

    def _learn_all(
        self,
        training: Training,
        source: AnySource,
        features: FeatureMap,
        sample: CalibrationSample,
        context: FitContext,
        rng: Rng,
    ) -> None:
        """Learn from rows of any source, and code them: rows of ``source`` are hashed by ``features``."""
        context.open_codes(training.n_rows, self.n_bits_, sample.numbers)
        self.features_ = features
        self._check_training(training)
        with context.timer("learn"), one_blas_thread():
            learned = self._learn_rows(training, context, rng)
        self.function_ = learned.function
        for name, value in learned.attributes.items():
            setattr(self, name, value)
        with context.timer("code"):
            has_codes = learned.group_codes is not None or learned.coded
            if learned.group_codes is not None:
                _write_group_codes(learned.group_codes, source, training.view.groups, sample, context)
            if training.n_unlabeled or not has_codes:
                function, groups = learned.rest or self.function_, training.view.groups if has_codes else None
                hash_rows(source, partial(project_block, self.features_, function), context, groups)
            if learned.row_codes is not None:
                context.put_codes(*learned.row_codes)
        with context.timer("calibrate"):
            if learned.calibration is not None:
                self._set_calibration(learned.calibration, self._project(sample.rows))
            else:
                self._calibrate(sample, context.codes_of(sample.numbers) if has_codes else None)
        self._store_codes(context, source="learned" if has_codes or learned.row_codes is not None else "hashed")
        self.seconds_ = context.timer.seconds

    def _check_training(self, training: Training) -> None:
        """Raise ValueError if the method cannot learn from such labels or features, before the long passes."""

    def _learn_rows(self, training: Training, context: FitContext, rng: Rng) -> LearnedFunction:
        """Make all passes that learn."""
        return self._learn_sums(training, self._add_up(training, context), context, rng)

    def _add_up(self, training: Training, context: FitContext) -> GramSums:
        """Sum features and label sets, centered as ``kernel`` says; sets the center of the features."""
        kind = GroupedFeatureSums if self.by_group else FeatureSums
        found = reduce_rows(training.source, sum_rows, SumPlan(training, self.by_group), context, "add up rows", kind)
        return centered_sums(found, training, self._set_center(training, found.mean))

    def _principal_directions(self, training: Training, context: FitContext, count: int) -> FloatArray:
        """Return at most ``count`` principal directions (d, count) of the features, the strongest first.

        They come from X'X, added up over the rows, or from the rows themselves if these are fewer than their features.
        Sets the center of the features.
        """
        if training.n_rows >= training.n_features:
            return top_eigenvectors(self._add_up(training, context).xx, min(count, training.n_features))[1]
        features = np.empty((training.n_rows, training.n_features), dtype=np.float32)
        ranges = training.source.ranges(range_rows(training.source))
        for rows, part in context.run(collect_features, training.view, ranges):
            features[rows] = part
            report("collect rows", rows.stop, training.n_rows)
        features -= self._set_center(training, features.mean(axis=0, dtype=np.float64)).astype(np.float32)
        return principal_directions(features, count, self.n_jobs)[1]

    def _set_center(self, training: Training, mean: FloatArray) -> FloatArray:
        """Set the center of the features as ``kernel`` says; returns how far it is from the provisional one.

        ``mean`` is counted from the provisional center.
        """
        center = training.center + mean
        if not self._centers_features:
            center = np.zeros_like(center)
        self.features_.center_ = center.astype(np.float32)
        # From the rounded center, because features are hashed with that one.
        return self.features_.center_.astype(np.float64) - training.center

    def _sample(self, training: Training, weights: FloatArray, context: FitContext) -> FloatArray:
        """Return projections of the labeled rows in row order, or of SAMPLE_ROWS of them drawn at random."""
        limit = rowkeys.limit(SAMPLE_ROWS, training.n_rows - training.n_unlabeled)
        plan = ProjectionPlan(training.centered_at(self.features_.center_), weights, training.seed, limit)
        keys, parts = [], []
        ranges = training.source.ranges(range_rows(training.source))
        for key, part, stop in context.run(project_sample, plan, ranges):
            keys.append(key)
            parts.append(part)
            report("project rows", stop, training.n_rows)
        return np.concatenate(parts)[rowkeys.lowest(np.concatenate(keys), SAMPLE_ROWS)]


def _row_total(X: Matrix, n_jobs: int | None) -> FloatArray:
    """Sum rows in memory, in the blocks and the order of a survey."""
    plain, total = PlainFeatures(), np.zeros(X.shape[1])
    for part, _ in map_blocks(plain.moments, X, n_jobs):
        total += part
    return total


def _provisional_center(features: FeatureMap, total: FloatArray | None, n_rows: int) -> Float32Array:
    """About the mean of the features, before a pass over them: of plain rows it is the mean itself."""
    if isinstance(features, LandmarkKernel):
        return features.typical()
    assert total is not None
    return (total / n_rows).astype(np.float32)


def _mapped_once(training: Training, X: Matrix, n_jobs: int | None) -> Training:
    """Return the same training with features in memory: several passes over an array need not map it again."""
    mapped = np.concatenate(list(map_blocks(training.view.features.map_block, X, n_jobs, block_rows(X.shape[0]))))
    return replace(training, source=Source(mapped), view=replace(training.view, features=PlainFeatures()))


def _write_group_codes(
    group_codes: NDArray[Any], source: AnySource, groups: Groups | None, sample: CalibrationSample, context: FitContext
) -> None:
    """Write the code of its group for every labeled row. If codes are not wanted, those of the sample need no pass."""
    packed = codes.pack(group_codes > 0)
    if context.codes_out is None:
        assert sample.groups is not None
        context.put_codes(sample.numbers, packed[sample.groups])
        return
    for rows, own in context.run(code_groups, (groups, packed), source.ranges(range_rows(source))):
        context.put_codes(rows, own)


def code_groups(plan: tuple[Groups, PackedCodes], rows: RowRange) -> tuple[IntArray, PackedCodes]:
    """Run one task: labeled rows and the codes of their groups."""
    groups, packed = plan
    group = read_groups(groups, rows, rows.start, rows.stop)
    labeled = np.flatnonzero(group >= 0)
    return labeled + rows.start, packed[group[labeled]]
