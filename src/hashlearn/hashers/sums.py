"""Base of methods that learn from sums over the rows, which may be in memory or in chunks."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from operator import iadd
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse

import hashlearn.rowkeys as rowkeys
from hashlearn import codes
from hashlearn.functions.linalg import principal_directions, top_eigenvectors
from hashlearn.functions.linear import FeatureSums, GroupedFeatureSums, RidgeSums, project_block
from hashlearn.hashers.in_memory import InMemoryHasher, Learned
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

SAMPLE_ROWS = 100_000
"""A rotation is learned from at most this number of rows: all rows would have to be read once per round."""


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

    @property
    def sizes(self) -> Int64Array:
        """The number of rows of every group."""
        assert self.counts is not None
        return self.counts

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

    @classmethod
    def centered(cls, found: FeatureSums, training: Training, shift: FloatArray) -> Self:
        """Return the sums for features less ``shift``."""
        s = found.sums.recentered(shift)
        result = cls(s.count, s.x, s.xx, s.xt, s.t, np.zeros((0, 0)))
        if training.table is not None:
            counts = training.sizes.astype(np.float64)
            result.yy = (training.table.T @ sparse.diags(counts) @ training.table).toarray()
            if isinstance(found, GroupedFeatureSums):
                result.groups = found.groups.all() - np.outer(counts, shift)
                result.xy, result.y = np.asarray(training.table.T @ result.groups).T, training.table.T @ counts
        return result


class SumsHasher(InMemoryHasher):
    """Base of methods that learn from sums over rows. A subclass implements ``_learn_sums``, or ``_learn_rows``."""

    by_group: ClassVar[bool] = False
    """Whether the method needs the sums of features by label set, which are n_groups x d numbers."""
    draws_rows: ClassVar[bool] = True
    """Whether anything is drawn by row numbers, for which a seed is taken from ``rng``."""

    @abstractmethod
    def _learn_sums(self, training: Training, sums: GramSums, context: FitContext, rng: Rng) -> Learned:
        """Learn from sums. A method may make further passes over ``training``."""

    def _learn_rows(self, training: Training, context: FitContext, rng: Rng) -> Learned:
        """Make all passes that learn."""
        return self._learn_sums(training, self._add_up(training, context), context, rng)

    def _check_training(self, training: Training) -> None:
        """Raise ValueError if the method cannot learn from such labels or features, before the long passes."""

    def _row_seed(self, rng: Rng) -> int:
        return int(rng.randint(2**31)) if self.draws_rows else 0

    def fit(self, X: Matrix, y: Any = None) -> Self:
        """Learn from classes (n,) or label sets (n, c) of 0/1, dense or sparse; unsupervised methods ignore y."""
        X = self._validate(X)
        group = table = counts = None
        n_unlabeled = 0
        if self._uses_labels:
            labels = self._read_labels(X, y).sets
            group, first = group_rows(labels)
            check_variety(len(first))
            table, counts = labels[first], np.bincount(group[group >= 0])
            n_unlabeled = int(np.count_nonzero(group < 0))
        rng, source = self._rng(), Source(X)
        with FitContext(n_jobs=self.n_jobs, verbose=self.verbose) as context:
            with context.timer("features"):
                features = self._feature_map(rng)
                features.fit_landmarks(X)
                total = np.zeros(X.shape[1])
                if isinstance(features, PlainFeatures):
                    # In the blocks and the order of a survey.
                    total = sum((part for part, _ in map_blocks(features.moments, X, self.n_jobs)), start=total)
                view = FeatureReader(features, _provisional_center(features, total, X.shape[0]), group, X.shape[0])
                training = Training(source, view, table, counts, n_unlabeled, self._row_seed(rng))
                if not isinstance(features, PlainFeatures):
                    # In memory, because several passes over an array need not map it again.
                    blocks = map_blocks(features.map_block, X, self.n_jobs, block_rows(X.shape[0]))
                    training.source = Source(np.concatenate(list(blocks)))
                    training.view = replace(view, features=PlainFeatures())
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
            self._advise(found.advice(self.n_bits_, structure=self._structure_bits))
            center = _provisional_center(features, found.total, found.n_rows)
            view = FeatureReader(features, center, found.groups, found.n_rows)
            training = Training(source, view, found.table, found.counts, found.n_unlabeled, self._row_seed(rng))
        self._learn_all(training, source, features, found.sample, context, rng)

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
        context.open_codes(training.n_rows, self.n_bits_)
        self.features_ = features
        self._check_training(training)
        with context.timer("learn"), one_blas_thread():
            learned = self._learn_rows(training, context, rng)
        self.function_ = learned.function
        for name, value in learned.attributes.items():
            setattr(self, name, value)
        has_codes, groups = learned.codes is not None or learned.in_context, training.view.groups
        with context.timer("code"):
            own = None
            if learned.codes is not None:
                packed = codes.pack(learned.codes > 0)
                own = packed[sample.groups]
                _write_group_codes(packed, source, groups, context)
            elif learned.in_context and context.codes_out is not None:
                own = np.array(context.codes_out[sample.numbers])
            if training.n_unlabeled or not has_codes:
                project = partial(project_block, features, learned.database_function or learned.function)
                hash_rows(source, project, context, groups if has_codes else None)
            if learned.row_codes is not None:
                context.put_codes(*learned.row_codes)
        with context.timer("calibrate"):
            if learned.calibration is not None:
                self._set_calibration(learned.calibration, self._project(sample.rows))
            else:
                self._calibrate(sample, own)
        self._store_codes(context, source="learned" if has_codes or learned.row_codes is not None else "hashed")
        self.seconds_ = context.timer.seconds

    def _add_up(self, training: Training, context: FitContext) -> GramSums:
        """Sum features and label sets, centered as ``kernel`` says; sets the center of the features."""
        kind, plan = GroupedFeatureSums if self.by_group else FeatureSums, (training, self.by_group)
        found = reduce_rows(training.source, sum_rows, plan, context, "add up rows", kind)
        return GramSums.centered(found, training, self._set_center(training, found.mean))

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

    def _sample(self, training: Training, weights: FloatArray, context: FitContext) -> FloatArray:
        """Return projections of the labeled rows in row order, or of SAMPLE_ROWS of them drawn at random."""
        limit = rowkeys.limit(SAMPLE_ROWS, training.n_rows - training.n_unlabeled)
        plan = training.centered_at(self.features_.center_), weights, training.seed, limit
        keys, parts = [], []
        ranges = training.source.ranges(range_rows(training.source))
        for key, part, stop in context.run(project_sample, plan, ranges):
            keys.append(key)
            parts.append(part)
            report("project rows", stop, training.n_rows)
        return np.concatenate(parts)[rowkeys.lowest(np.concatenate(keys), SAMPLE_ROWS)]


def _provisional_center(features: FeatureMap, total: FloatArray, n_rows: int) -> Float32Array:
    """About the mean of the features, before a pass over them: of plain rows it is the mean itself."""
    return features.typical() if isinstance(features, LandmarkKernel) else (total / n_rows).astype(np.float32)


def _write_group_codes(packed: PackedCodes, source: AnySource, groups: Groups | None, context: FitContext) -> None:
    """Write the code of its group for every labeled row, if codes are wanted."""
    if context.codes_out is None:
        return
    for rows, own in context.run(code_groups, (groups, packed), source.ranges(range_rows(source))):
        context.put_codes(rows, own)


def code_groups(plan: tuple[Groups, PackedCodes], rows: RowRange) -> tuple[IntArray, PackedCodes]:
    """Run one task: labeled rows and the codes of their groups."""
    groups, packed = plan
    group = read_groups(groups, rows, rows.start, rows.stop)
    labeled = np.flatnonzero(group >= 0)
    return labeled + rows.start, packed[group[labeled]]


def sum_rows(plan: tuple[Training, bool], rows: RowRange) -> tuple[FeatureSums, slice, None]:
    """Run one task: sums of features and label sets, or of features by group."""
    training, by_group = plan

    def sums(block: RowBlock) -> FeatureSums:
        x, group, labeled = block.x, block.group, block.labeled
        n_rows, total = len(x), x.sum(axis=0, dtype=np.float64)
        y = np.zeros((len(labeled), 0))
        if training.table is not None:
            x, group = x[labeled], group[labeled]
            if not by_group:
                y = training.table[group].toarray()
        # In double precision, because some methods divide by small differences of these sums.
        wide = x.astype(np.float64)
        own = RidgeSums.from_rows(wide, y)
        if by_group:
            return GroupedFeatureSums(n_rows, total, own, GroupSums.from_rows(group, wide, training.n_groups))
        return FeatureSums(n_rows, total, own)

    return reduce(iadd, map(sums, training.view.blocks(rows))), slice(rows.start, rows.stop), None


def collect_features(view: FeatureReader, rows: RowRange) -> tuple[slice, Float32Array]:
    """Run one task: the features of its rows."""
    return slice(rows.start, rows.stop), np.concatenate([block.x for block in view.blocks(rows)])


def project_sample(
    plan: tuple[FeatureReader, FloatArray, int, np.uint64], rows: RowRange
) -> tuple[rowkeys.Keys, FloatArray, int]:
    """Run one task: keys and projections of its rows with keys up to a limit, which may be in the sample."""
    view, weights, seed, limit = plan
    keys, parts = [], []
    # Whole blocks are mapped, so that the features are those of the other passes to the last bit.
    for block in view.blocks(rows):
        key = rowkeys.row_keys(seed, rowkeys.SAMPLE, block.rows.start, block.rows.stop)
        chosen = np.flatnonzero((key <= limit) & (block.group >= 0))
        keys.append(key[chosen])
        parts.append(block.x[chosen] @ weights)
    return np.concatenate(keys), np.concatenate(parts), rows.stop
