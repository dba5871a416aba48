"""The frame of methods that need only sums over the rows, such as X'X: the same in memory and in chunks."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

import hashlearn.rowkeys as rowkeys
from hashlearn import codes
from hashlearn.fitting.base import HashFunction
from hashlearn.fitting.calibration_sample import CalibrationSample
from hashlearn.fitting.frames.in_memory import LinearHasher
from hashlearn.fitting.frames.training import (
    GramSums,
    ProjectionPlan,
    SumPlan,
    Training,
    centered_sums,
    collect_features,
    project_sample,
    sum_rows,
)
from hashlearn.fitting.group_sums import GroupedFeatureSums
from hashlearn.fitting.grouping import GivenGroups, Groups, LabelReader
from hashlearn.fitting.job import Job
from hashlearn.fitting.passes import FeatureSums, RowView, add_up, block_rows, hash_rows, range_rows
from hashlearn.fitting.sources import AnySource, RowRange, memory_source
from hashlearn.fitting.survey import SurveyPlan, survey
from hashlearn.functions.calibration import Calibration
from hashlearn.kernel import AnchorKernel, FeatureMap, PlainFeatures
from hashlearn.labels import check_variety, group_rows
from hashlearn.parallel import one_blas_thread, ordered_map, row_blocks
from hashlearn.primitives import principal_directions, top_eigenvectors
from hashlearn.progress import report, verbose_listening
from hashlearn.timing import PhaseTimer
from hashlearn.typing import Float32Array, FloatArray, IntArray, Matrix, PackedCodes

SAMPLE_ROWS = 100_000
"""A rotation is learned from at most so many rows: all rows would have to be read once per round."""


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


class GramHasher(LinearHasher):
    """Base of methods that learn from sums over rows. A subclass implements ``_learn_sums``, or ``_learn_rows``."""

    by_group: ClassVar[bool] = False
    """Whether the method needs the sums of features by label set, which are n_groups x d numbers."""

    @abstractmethod
    def _learn_sums(self, training: Training, sums: GramSums, job: Job, rng: np.random.RandomState) -> LearnedFunction:
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
        rng, timer = self._rng(), PhaseTimer()
        source, job = memory_source(X, group), Job(n_jobs=self.n_jobs)
        with verbose_listening(self.verbose):
            with timer("features"):
                features = self._feature_map(rng)
                features.fit_landmarks(X)
                total = None if isinstance(features, AnchorKernel) else _row_total(X, self.n_jobs)
                center = _provisional_center(features, total, X.shape[0])
                view = RowView(features, center, None if group is None else GivenGroups(), X.shape[0])
                n_unlabeled = 0 if group is None else int(np.count_nonzero(group < 0))
                training = Training(source, view, table, counts, n_unlabeled, self._row_seed(rng))
                if not isinstance(features, PlainFeatures):
                    training = _mapped_once(training, X, group, self.n_jobs)
                sample = CalibrationSample.of_array(X, None if group is None else group >= 0)
                sample.groups = None if group is None else group[sample.numbers]
            self._learn_all(training, source, features, sample, job, rng, timer)
        return self

    def _fit_source(self, source: AnySource, job: Job, rng: np.random.RandomState) -> None:
        timer = PhaseTimer()
        with timer("features"):
            features = self._feature_map(rng)
            reader = LabelReader(self._unlabeled) if self._uses_labels else None
            found = survey(source, SurveyPlan.of(source, features, reader), job)
            features.set_landmarks(found.landmark_rows, found.total, found.squares, found.n_rows)
            self._advise(found.advice(self.n_bits_))
            center = _provisional_center(features, found.total, found.n_rows)
            view = RowView(features, center, found.groups, found.n_rows)
            training = Training(source, view, found.table, found.counts, found.n_unlabeled, self._row_seed(rng))
        self._learn_all(training, source, features, found.sample, job, rng, timer)

    def _row_seed(self, rng: np.random.RandomState) -> int:
        """Draw the seed of what is drawn by row numbers. A method that draws nothing so returns 0."""
        return int(rng.randint(2**31))

    def _learn_all(
        self,
        training: Training,
        source: AnySource,
        features: FeatureMap,
        sample: CalibrationSample,
        job: Job,
        rng: np.random.RandomState,
        timer: PhaseTimer,
    ) -> None:
        """Learn from rows of any source, and code them: rows of ``source`` are hashed by ``features``."""
        job.open_codes(training.n_rows, self.n_bits_, sample.numbers)
        self.features_ = features
        self._check_training(training)
        with timer("learn"), one_blas_thread():
            learned = self._learn_rows(training, job, rng)
        self.function_ = learned.function
        for name, value in learned.attributes.items():
            setattr(self, name, value)
        with timer("code"):
            has_codes = learned.group_codes is not None or learned.coded
            if learned.group_codes is not None:
                _write_group_codes(learned.group_codes, source, training.view.groups, sample, job)
            if training.n_unlabeled or not has_codes:
                function, groups = learned.rest or self.function_, training.view.groups if has_codes else None
                hash_rows(source, self.features_, function, groups, job)
            if learned.row_codes is not None:
                job.put_codes(*learned.row_codes)
        with timer("calibrate"):
            if learned.calibration is not None:
                self._set_calibration(learned.calibration)
                self._keep_confidence(self._project(sample.rows))
            else:
                self._calibrate(sample, job.codes_of(sample.numbers) if has_codes else None)
        self._store_codes(job, source="learned" if has_codes or learned.row_codes is not None else "hashed")
        self.seconds_ = timer.seconds

    def _check_training(self, training: Training) -> None:
        """Raise ValueError if the method cannot learn from such labels or features, before the long passes."""

    def _learn_rows(self, training: Training, job: Job, rng: np.random.RandomState) -> LearnedFunction:
        """Make all passes that learn."""
        return self._learn_sums(training, self._add_up(training, job), job, rng)

    def _add_up(self, training: Training, job: Job) -> GramSums:
        """Sum features and label sets, centered as ``kernel`` says; sets the center of the features."""
        kind = GroupedFeatureSums if self.by_group else FeatureSums
        found = add_up(training.source, sum_rows, SumPlan(training, self.by_group), job, "add up rows", kind)
        return centered_sums(found, training, self._set_center(training, found.mean))

    def _principal_directions(self, training: Training, job: Job, count: int) -> FloatArray:
        """Return at most ``count`` principal directions (d, count) of the features, the strongest first.

        They come from X'X, added up over the rows, or from the rows themselves if these are fewer than their features.
        Sets the center of the features.
        """
        if training.n_rows >= training.n_features:
            return top_eigenvectors(self._add_up(training, job).xx, min(count, training.n_features))[1]
        features = np.empty((training.n_rows, training.n_features), dtype=np.float32)
        ranges = training.source.ranges(range_rows(training.source))
        for rows, part in job.run(collect_features, training.view, ranges):
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

    def _sample(self, training: Training, weights: FloatArray, job: Job) -> FloatArray:
        """Return projections of the labeled rows in row order, or of SAMPLE_ROWS of them drawn at random."""
        limit = rowkeys.limit(SAMPLE_ROWS, training.n_rows - training.n_unlabeled)
        plan = ProjectionPlan(training.centered_at(self.features_.center_), weights, training.seed, limit)
        keys, parts = [], []
        ranges = training.source.ranges(range_rows(training.source))
        for key, part, stop in job.run(project_sample, plan, ranges):
            keys.append(key)
            parts.append(part)
            report("project rows", stop, training.n_rows)
        return np.concatenate(parts)[rowkeys.lowest(np.concatenate(keys), SAMPLE_ROWS)]


def _row_total(X: Matrix, n_jobs: int | None) -> FloatArray:
    """Sum rows in memory, in the blocks and the order of a survey."""
    plain, total = PlainFeatures(), np.zeros(X.shape[1])
    for part, _ in ordered_map(lambda block: plain.moments(X[block]), row_blocks(X.shape[0]), n_jobs):
        total += part
    return total


def _provisional_center(features: FeatureMap, total: FloatArray | None, n_rows: int) -> Float32Array:
    """About the mean of the features, before a pass over them: of plain rows it is the mean itself."""
    if isinstance(features, AnchorKernel):
        return features.typical()
    assert total is not None
    return (total / n_rows).astype(np.float32)


def _mapped_once(training: Training, X: Matrix, group: IntArray | None, n_jobs: int | None) -> Training:
    """Return the same training with features in memory: several passes over an array need not map it again."""
    features, blocks = training.view.features, row_blocks(X.shape[0], block_rows(X.shape[0]))
    mapped = np.concatenate(list(ordered_map(lambda block: features.map_block(X[block]), blocks, n_jobs)))
    return replace(training, source=memory_source(mapped, group), view=replace(training.view, features=PlainFeatures()))


def _write_group_codes(
    group_codes: NDArray[Any], source: AnySource, groups: Groups | None, sample: CalibrationSample, job: Job
) -> None:
    """Write the code of its group for every labeled row. If codes are not wanted, those of the sample need no pass."""
    packed = codes.pack(group_codes > 0)
    if job.codes_out is None:
        assert sample.groups is not None
        job.put_codes(sample.numbers, packed[sample.groups])
        return
    for rows, own in job.run(code_groups, (groups, packed), source.ranges(range_rows(source))):
        job.put_codes(rows, own)


def code_groups(plan: tuple[Groups, PackedCodes], rows: RowRange) -> tuple[IntArray, PackedCodes]:
    """One task: labeled rows and the codes of their groups."""
    groups, packed = plan
    group = groups.of(rows.read_labels(rows.start, rows.stop))
    labeled = np.flatnonzero(group >= 0)
    return labeled + rows.start, packed[group[labeled]]
