"""The frame of methods that need only sums over the rows: the same in memory, in chunks and on a cluster."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

import hashlearn.rowkeys as rowkeys
from hashlearn import codes
from hashlearn.fitting import row_pass
from hashlearn.fitting.base import HashFunction
from hashlearn.fitting.frames.in_memory import LinearHasher
from hashlearn.fitting.grouping import GivenGroups, Groups, LabelReader
from hashlearn.fitting.job import Job, memory_source
from hashlearn.fitting.sources import AnySource, Cut
from hashlearn.fitting.sums import FeatureSums, GroupedSums, GroupSums, add_up, block_rows, blocks, unit_rows
from hashlearn.fitting.survey import Plan, carries, survey
from hashlearn.functions.linear import RidgeSums
from hashlearn.kernel import AnchorKernel, FeatureMap, PlainFeatures
from hashlearn.labels import check_variety, group_rows
from hashlearn.parallel import one_blas_thread, ordered_map, row_blocks
from hashlearn.primitives import principal_directions, top_eigenvectors
from hashlearn.progress import report, verbose_listening
from hashlearn.timing import PhaseTimer
from hashlearn.typing import FloatArray, Matrix

SAMPLE_ROWS = 100_000
"""Rows that a rotation is learned from, at most: n rows would have to be read once a round."""


@dataclass
class Elsewhere:
    """What a worker knows of a source: tasks bring the rows that they are about."""

    n_rows: int | None


@dataclass
class Training:
    """The rows of a fit: ``view`` maps what ``source`` reads to features, ``center`` is roughly their mean.

    ``table`` has the label set of every group, ``counts`` its rows; both None without labels.
    """

    source: AnySource
    view: FeatureMap
    center: NDArray[np.float32]
    groups: Groups | None = None
    table: sparse.csr_matrix | None = None
    counts: NDArray[np.int64] | None = None
    n_unlabelled: int = 0
    seed: int = 0

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "source": Elsewhere(self.source.n_rows)}

    @property
    def n_rows(self) -> int:
        assert self.source.n_rows is not None
        return self.source.n_rows

    @property
    def n_groups(self) -> int:
        """Groups of rows with equal labels; one without labels."""
        return 1 if self.table is None else int(self.table.shape[0])

    @property
    def labels(self) -> sparse.csr_matrix:
        assert self.table is not None
        return self.table

    def group(self, cut: Cut, rows: slice) -> NDArray[np.intp]:
        if self.groups is None:
            return np.zeros(rows.stop - rows.start, dtype=np.intp)
        return self.groups.of(cut.read_labels(rows.start, rows.stop))


@dataclass
class Sums:
    """Sums over the labelled rows (all rows without labels) of centred features x and label sets y.

    ``groups`` (n_groups, d) are those of x by group, for methods that ask for them by ``by_group``.
    """

    count: int
    x: FloatArray
    xx: FloatArray
    xy: FloatArray
    y: FloatArray
    yy: FloatArray
    groups: FloatArray = field(default_factory=lambda: np.empty((0, 0)))


@dataclass
class LearnedFunction:
    """What a method hands back; ``group_codes`` in {-1, +1} are learned codes, one a group.

    Rows whose codes are not learned are hashed by ``rest``, where that is not the function itself.
    """

    function: HashFunction
    group_codes: NDArray[Any] | None = None
    attributes: dict[str, Any] = field(default_factory=dict)
    coded: bool = False
    """Whether the rows with labels have their codes already."""
    rest: HashFunction | None = None
    row_codes: tuple[NDArray[np.intp], NDArray[np.uint8]] | None = None
    """Some rows and their packed codes, where only a sample has learned ones."""


class SummedHasher(LinearHasher):
    """Base of methods that learn from sums over rows. A subclass implements ``_learn_sums``, or ``_learn_rows``."""

    by_group: ClassVar[bool] = False
    """Whether the method needs the sums of features by label set: n_groups x d numbers."""

    @abstractmethod
    def _learn_sums(self, training: Training, sums: Sums, job: Job, rng: np.random.RandomState) -> LearnedFunction:
        """Learn from sums; further passes over ``training`` are the method's own affair."""

    def fit(self, X: Matrix, y: Any = None) -> Self:
        """Learn from classes (n,) or label sets (n, c) of 0/1, dense or sparse; unsupervised methods ignore y."""
        X = self._validate(X)
        table = counts = group = None
        if self._uses_labels:
            labels = self._label_sets(X, y)
            group, first = group_rows(labels)
            check_variety(len(first))
            table, counts = labels[first], np.bincount(group[group >= 0])
        rng, timer = self._rng(), PhaseTimer()
        with verbose_listening(getattr(self, "verbose", 0)):
            with timer("features"):
                features = self._feature_map(rng)
                features.fit_landmarks(X)
                view, rows, center = features, X, self._provisional(features, X)
                if self.kernel is not None:
                    # Passes read features that are mapped once.
                    blocks_ = row_blocks(X.shape[0], block_rows(X.shape[0]))
                    parts = ordered_map(lambda block: features.map_block(X[block]), blocks_, self.n_jobs)
                    view, rows = PlainFeatures(), np.concatenate(list(parts))
            known = GivenGroups() if group is not None else None
            unlabelled = int(np.count_nonzero(group < 0)) if group is not None else 0
            seed = self._row_seed(rng)
            training = Training(memory_source(rows, group), view, center, known, table, counts, unlabelled, seed)
            job = Job(n_jobs=self.n_jobs)
            self._learn_all(training, memory_source(X, group), features, job, rng, timer)
            assert job.room is not None
            self.codes_ = job.room
        self.seconds_ = timer.seconds
        return self

    def _fit_source(self, source: AnySource, job: Job, rng: np.random.RandomState) -> None:
        timer = PhaseTimer()
        with timer("features"):
            features = self._feature_map(rng)
            reader = LabelReader(self._unlabeled) if self._uses_labels else None
            plan = Plan(
                features,
                source.n_features,
                reader,
                landmarks=features.n_landmarks,
                landmark_seed=features.draw_seed(),
                carry=carries(source),
            )
            seen = survey(source, plan, job)
            features.set_landmarks(seen.landmark_rows, seen.total, seen.squares, seen.n_rows)
        center = (seen.total / seen.n_rows).astype(np.float32)
        if isinstance(features, AnchorKernel):
            center = features.typical()
        table = counts = None
        if seen.known is not None:
            table = seen.known.table()
            counts = seen.known.count[np.argsort(seen.known.numbers())]
        seed = self._row_seed(rng)
        training = Training(source, features, center, seen.groups, table, counts, seen.n_unlabelled, seed)
        learned = self._learn_all(training, source, features, job, rng, timer)
        self._store_codes(job, source="learned" if learned else "hashed")
        self.seconds_ = timer.seconds

    def _row_seed(self, rng: np.random.RandomState) -> int:
        """Seed of what is drawn by row numbers."""
        return int(rng.randint(2**31))

    def _provisional(self, features: FeatureMap, X: Matrix) -> NDArray[np.float32]:
        """About the mean of the features; of plain rows the mean itself, added up as a first pass would."""
        if isinstance(features, AnchorKernel):
            return features.typical()
        total = np.zeros(X.shape[1])
        for part, _ in ordered_map(lambda block: features.moments(X[block]), row_blocks(X.shape[0]), self.n_jobs):
            total += part
        return (total / X.shape[0]).astype(np.float32)

    def _learn_all(
        self,
        training: Training,
        source: AnySource,
        features: FeatureMap,
        job: Job,
        rng: np.random.RandomState,
        timer: PhaseTimer,
    ) -> bool:
        """The passes; whether codes are learned. ``source`` and ``features`` are the rows, to be hashed in the end."""
        job.open_codes(training.n_rows, self.n_bits_)
        self.features_ = features
        self._check_training(training)
        with timer("learn"), one_blas_thread():
            learned = self._learn_rows(training, job, rng)
        self.function_ = learned.function
        for name, value in learned.attributes.items():
            setattr(self, name, value)
        with timer("code"):
            if learned.group_codes is not None:
                packed = codes.pack(learned.group_codes > 0)
                for rows, coded in job.run(code_groups, (training.groups, packed), source.cuts(unit_rows(source))):
                    if job.room is not None:
                        job.room[rows] = coded
            own = learned.group_codes is not None or learned.coded
            if training.n_unlabelled or not own:
                function = learned.rest or self.function_
                row_pass.hash_rest(source, self.features_, function, training.groups if own else None, job)
            if learned.row_codes is not None and job.room is not None:
                rows, coded = learned.row_codes
                job.room[rows] = coded
        return own or learned.row_codes is not None

    def _check_training(self, training: Training) -> None:
        """ValueError if the method cannot learn from such labels or features: said before the long passes."""

    def _learn_rows(self, training: Training, job: Job, rng: np.random.RandomState) -> LearnedFunction:
        """All passes that learn."""
        return self._learn_sums(training, self._add_up(training, job), job, rng)

    def _add_up(self, training: Training, job: Job) -> Sums:
        """Sums of features and label sets, centred as ``kernel`` says; sets the features' centre."""
        kind = GroupedSums if self.by_group else FeatureSums
        found = add_up(training.source, sum_rows, SumPlan(training, self.by_group), job, "add up rows", kind)
        return centred_sums(found, training, self._set_center(training, found.mean))

    def _principal_directions(self, training: Training, job: Job, count: int) -> FloatArray:
        """At most ``count`` principal directions (d, count) of the features, the strongest first; sets their centre.

        From X'X, added up over the rows, or from the rows themselves where they are fewer than their features.
        """
        width = len(training.center)
        if training.n_rows >= width:
            return top_eigenvectors(self._add_up(training, job).xx, min(count, width))[1]
        rows = np.empty((training.n_rows, width), dtype=np.float32)
        for cut, part in job.run(collect_rows, training, training.source.cuts(unit_rows(training.source))):
            rows[cut] = part
            report("collect rows", cut.stop, training.n_rows)
        rows -= self._set_center(training, rows.mean(axis=0, dtype=np.float64)).astype(np.float32)
        return principal_directions(rows, count, self.n_jobs)[1]

    def _set_center(self, training: Training, mean: FloatArray) -> FloatArray:
        """Centre of the features as ``kernel`` says; how far it is from the one that ``mean`` is counted from."""
        center = training.center + mean
        if self.kernel == "rbf-fixed":
            center = np.zeros_like(center)
        self.features_.center_ = center.astype(np.float32)
        # Of the rounded centre, which is the one that features are hashed with.
        return self.features_.center_.astype(np.float64) - training.center

    def _sample(self, training: Training, weights: FloatArray, job: Job) -> FloatArray:
        """Projections of the labelled rows, of at most SAMPLE_ROWS of them drawn at random, in row order."""
        known = training.n_rows - training.n_unlabelled
        plan = _SamplePlan(training, self.features_.center_, weights, rowkeys.limit(SAMPLE_ROWS, known))
        keys, parts = [], []
        for key, part, stop in job.run(project_sample, plan, training.source.cuts(unit_rows(training.source))):
            keys.append(key)
            parts.append(part)
            report("project rows", stop, training.n_rows)
        return np.concatenate(parts)[rowkeys.lowest(np.concatenate(keys), SAMPLE_ROWS)]


def centred_sums(found: FeatureSums, training: Training, shift: FloatArray) -> Sums:
    """The sums for features less ``shift``."""
    s, yy = found.sums.recentered(shift), np.zeros((0, 0))
    result = Sums(s.count, s.x, s.xx, s.xt, s.t, yy)
    if training.table is not None and training.counts is not None:
        counts = training.counts.astype(np.float64)
        result.yy = (training.table.T @ sparse.diags(counts) @ training.table).toarray()
        if isinstance(found, GroupedSums):
            result.groups = found.groups.all() - np.outer(counts, shift)
            result.xy, result.y = np.asarray(training.table.T @ result.groups).T, training.table.T @ counts
    return result


@dataclass
class SumPlan:
    """What every task of adding up needs."""

    training: Training
    by_group: bool


def sum_rows(plan: SumPlan, cut: Cut) -> tuple[FeatureSums, slice, None]:
    """One task of adding up."""
    training = plan.training
    result: FeatureSums | None = None
    for rows in blocks(cut, block_rows(training.n_rows)):
        x = training.view.map_block(cut.read(rows.start, rows.stop))
        x -= training.center
        total = x.sum(axis=0, dtype=np.float64)
        group = training.group(cut, rows)
        known = np.flatnonzero(group >= 0)
        y = np.zeros((len(known), 0))
        if training.table is not None:
            x, group = x[known], group[known]
            if not plan.by_group:
                y = training.table[group].toarray()
        # In double precision: some methods divide by next to nothing.
        wide = x.astype(np.float64)
        part = FeatureSums(rows.stop - rows.start, total, RidgeSums.of(wide, y))
        if plan.by_group:
            by_group = GroupSums.of(group, wide, training.n_groups)
            part = GroupedSums(part.n_rows, part.total, part.sums, by_group)
        result = part if result is None else result.__iadd__(part)
    assert result is not None
    return result, slice(cut.start, cut.stop), None


def collect_rows(training: Training, cut: Cut) -> tuple[slice, NDArray[np.float32]]:
    """One task: features of its rows, less the provisional centre."""
    parts = []
    for rows in blocks(cut, block_rows(training.n_rows)):
        x = training.view.map_block(cut.read(rows.start, rows.stop))
        x -= training.center
        parts.append(x)
    return slice(cut.start, cut.stop), np.concatenate(parts)


def code_groups(plan: tuple[Groups, NDArray[np.uint8]], cut: Cut) -> tuple[NDArray[np.intp], NDArray[np.uint8]]:
    """One task: rows with labels and the codes of their groups."""
    groups, packed = plan
    group = groups.of(cut.read_labels(cut.start, cut.stop))
    known = np.flatnonzero(group >= 0)
    return known + cut.start, packed[group[known]]


@dataclass
class _SamplePlan:
    training: Training
    center: NDArray[np.float32]
    weights: FloatArray
    limit: np.uint64


def project_sample(plan: _SamplePlan, cut: Cut) -> tuple[rowkeys.Keys, FloatArray, int]:
    """One task: keys and projections of its rows that may be in the sample."""
    training = plan.training
    keys, parts = [], []
    for rows in blocks(cut, block_rows(training.n_rows)):
        key = rowkeys.row_keys(training.seed, rowkeys.SAMPLE, rows.start, rows.stop)
        chosen = np.flatnonzero((key <= plan.limit) & (training.group(cut, rows) >= 0))
        keys.append(key[chosen])
        # Mapped as a whole block, so that the features are those of the other passes to the last bit.
        x = training.view.map_block(cut.read(rows.start, rows.stop))[chosen]
        parts.append((x - plan.center) @ plan.weights)
    return np.concatenate(keys), np.concatenate(parts), cut.stop
