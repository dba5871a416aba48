"""The first pass over rows in chunks: it counts them, adds up moments, finds label sets, and draws rows.

Drawn rows are those with the lowest random keys (see ``rowkeys``); anchors have the lowest keys of their group. Which
rows these are is known only at the end. So every task keeps candidates: a draw of p rows out of the n seen so far takes
about p / n of the rows of any range. The survey remembers the lowest key that was discarded. If a discarded row could
have been drawn, the pass is repeated with more candidates. The draw is therefore always the one that sorting the keys
of all rows would give.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

import hashlearn.rowkeys as rowkeys
from hashlearn.files.read import stack_rows
from hashlearn.kernel import FeatureMap, landmark_count
from hashlearn.labels import check_variety
from hashlearn.parallel import BLOCK_ROWS
from hashlearn.progress import report
from hashlearn.rowkeys import Keys
from hashlearn.rows.advice import label_advice, scale_advice
from hashlearn.rows.checkpoint import from_arrays, to_arrays
from hashlearn.rows.groups import GroupLookup, IdentityCollision, LabelReader, LabelSetIndex, RangeLabelSets
from hashlearn.rows.reduce import FitContext
from hashlearn.rows.source import SAMPLE_ROWS, SAMPLE_SEED, AnySource, CalibrationSample, RowRange, Stream
from hashlearn.typing import FloatArray, Int64Array, IntArray, Matrix

SLACK = 24
"""How many more candidates than expected are kept; with this many a draw is almost surely complete."""
HIGHEST_KEY = np.uint64(2**64 - 1)


@dataclass
class Candidates:
    """Rows that a draw may take.

    Attributes
    ----------
    key, row : key and number of each.
    below : all rows with keys below this one are among the candidates; for anchors, one key per label set.
    features : the rows themselves in blocks, if they are carried along.
    identity : the identities of the rows' label sets, for anchors.
    """

    key: Keys
    row: Int64Array
    below: Keys
    features: list[Matrix] = field(default_factory=list)
    identity: NDArray[Any] | None = None

    @classmethod
    def none(cls, by_label_set: bool) -> Candidates:
        """No candidates yet."""
        key, row = np.empty(0, dtype=np.uint64), np.empty(0, dtype=np.int64)
        return cls(key, row, key) if by_label_set else cls(key, row, np.array([HIGHEST_KEY]))

    def select(self, places: IntArray) -> Candidates:
        """Return those at ``places``."""
        features = [stack_rows(self.features)[places]] if self.features else []
        identity = None if self.identity is None else self.identity[places]
        return Candidates(self.key[places], self.row[places], self.below, features, identity)

    def joined(self, other: Candidates, below: Keys) -> Candidates:
        """Return both together."""
        if not len(self.key):
            return replace(other, below=below)
        if not len(other.key):
            return replace(self, below=below)
        identity = None
        if self.identity is not None and other.identity is not None:
            identity = np.concatenate([self.identity, other.identity])
        key, row = np.concatenate([self.key, other.key]), np.concatenate([self.row, other.row])
        return Candidates(key, row, below, self.features + other.features, identity)


def lowest_of_groups(
    group: IntArray, keys: Keys, counts: Int64Array, n_drawn: int, n_seen: int, slack: int
) -> tuple[IntArray, Keys]:
    """Choose the candidates of a draw of ``n_drawn`` rows that is even over groups.

    Parameters
    ----------
    group, keys : of rows, sorted by group and key.
    counts : rows of each group.
    n_seen : labeled rows seen so far.

    Returns
    -------
    places of the candidates, and for every group the lowest key that was discarded.
    """
    expected = counts * (n_drawn / n_seen) * (slack / SLACK)
    most = expected + 8 * np.sqrt(expected) + slack
    first = np.searchsorted(group, np.arange(len(counts)))
    rank = np.arange(len(group)) - first[group]
    share = min(1.0, slack * n_drawn / n_seen)
    limit = HIGHEST_KEY if share >= 1 else np.uint64(share * 2.0**64)
    # A common label set has as many candidates as its share needs. A rare one has at most ``slack`` of them, and only
    # rows whose keys are low among those of all rows.
    keep = (rank < most[group]) & (keys <= limit)
    below = np.full(len(counts), HIGHEST_KEY)
    np.minimum.at(below, group[~keep], keys[~keep])
    return np.flatnonzero(keep), below


RANGE_BLOCKS = 16
"""Blocks of BLOCK_ROWS rows per task, unless rows are few or wait in this process."""
STREAM_BYTES = 32 * 2**20
"""Rows of a stream that one task gets, because they are in memory here while they wait."""
ATTEMPTS = 8
MANY_ROWS = 2**62
"""Stands for the number of rows of a stream, which is not known before the survey."""


AnchorCount = Callable[[int, sparse.csr_matrix | None], int]


@dataclass(frozen=True)
class SurveyPlan:
    """What a survey looks for.

    Attributes
    ----------
    features : its ``moments`` are added up.
    labels : how to read labels; None without labels.
    anchor_count : how many rows to draw from all groups, by keys of ``anchor_seed``: a function of the number of groups
        and their label sets; None to draw none.
    n_landmarks : rows to draw at most; how many it is may depend on the number of rows.
    carry_rows : whether tasks return the rows that may be drawn; otherwise they are read afterwards.
    slack : the larger, the more candidates are kept.
    any_variety : whether rows of one class, or without any labels, are accepted.
    """

    features: FeatureMap
    n_features: int
    labels: LabelReader | None = None
    anchor_count: AnchorCount | None = None
    anchor_seed: int = 0
    n_landmarks: int = 0
    landmark_seed: int = 0
    carry_rows: bool = True
    slack: int = SLACK
    any_variety: bool = False

    def n_anchors(self, n_groups: int, sets: sparse.csr_matrix | None) -> int:
        """Return the number of anchors to draw from groups with these label sets (None for classes)."""
        return 0 if self.anchor_count is None else self.anchor_count(n_groups, sets)

    @classmethod
    def for_source(
        cls,
        source: AnySource,
        features: FeatureMap,
        labels: LabelReader | None = None,
        anchor_count: AnchorCount | None = None,
        anchor_seed: int = 0,
        any_variety: bool = False,
    ) -> SurveyPlan:
        """Plan a survey that draws the landmarks of ``features``, and anchors."""
        # Single rows are read afterwards only where that is cheap, and worth it because rows are many.
        carry = not source.cheap or source.n_rows <= RANGE_BLOCKS * BLOCK_ROWS
        return cls(
            features,
            source.n_features,
            labels,
            anchor_count,
            anchor_seed,
            landmark_count(features.n_landmarks, source.n_rows or MANY_ROWS),
            features.draw_seed(),
            carry,
            any_variety=any_variety,
        )


@dataclass
class SurveyPart:
    """What one task found. Moments are given per block, so that all blocks are added up in one order."""

    stop: int
    totals: FloatArray
    squares: FloatArray
    landmarks: Candidates
    sample: Candidates
    label_sets: RangeLabelSets | None = None
    anchors: Candidates | None = None


@dataclass
class Survey:
    """What the first pass found.

    Attributes
    ----------
    total, squares : moments of all rows, as ``features.moments`` defines them.
    landmark_rows : the drawn landmarks, None if none were asked for.
    sample : rows for the calibration of the bits, of the labeled ones if there are labels.
    table : the label set of every group; ``counts`` are the numbers of their rows.
    groups : the group of any row.
    anchors, anchor_groups, anchor_rows : numbers, groups and rows of the drawn anchors.
    """

    n_rows: int
    total: FloatArray
    squares: float
    landmark_rows: Matrix | None
    sample: CalibrationSample
    table: sparse.csr_matrix | None = None
    counts: Int64Array | None = None
    groups: GroupLookup | None = None
    anchors: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    anchor_groups: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    anchor_rows: Matrix | None = None
    n_unlabeled: int = 0

    def advice(self, n_bits: int, structure: bool = False) -> list[str]:
        """Return what to say about the features, by the sample, and about the labels if there are any."""
        advice = [] if self.sample.rows is None else scale_advice(self.sample.rows)
        if self.table is not None:
            advice += label_advice(self.table, n_bits, self.counts, self.n_unlabeled, structure)
        return advice


def survey(source: AnySource, plan: SurveyPlan, context: FitContext) -> Survey:
    """Make the pass, and repeat it with another plan in the rare cases where its shortcuts did not suffice."""
    for attempt in range(ATTEMPTS):
        try:
            return _survey_once(source, plan, context, f"survey-{attempt}")
        except IdentityCollision:
            assert plan.labels is not None
            plan = replace(plan, labels=replace(plan.labels, seed=plan.labels.seed + 1))
        except rowkeys.Incomplete:
            plan = replace(plan, slack=8 * plan.slack)
    raise RuntimeError(
        f"The first pass over the rows failed {ATTEMPTS} times. This should not happen: please report it."
    )


def _survey_once(source: AnySource, plan: SurveyPlan, context: FitContext, name: str) -> Survey:
    saved = context.load(name)
    state = from_arrays(SurveyState, saved) if saved else SurveyState.begin(plan)
    checkpoint = context.checkpoint
    with nullcontext() if checkpoint is None else checkpoint.saving(name, lambda: to_arrays(state)) as save:
        for part in context.run(survey_range, plan, _tasks(source, plan, state)):
            state.add(part, plan)
            if save is not None:
                save()
            report("survey rows", state.stop, source.n_rows or state.stop)
    return state.finish(source, plan)


def _tasks(source: AnySource, plan: SurveyPlan, state: SurveyState) -> Iterator[tuple[RowRange, int, int]]:
    """Yield the ranges that remain, each with the labeled rows and groups that are known to come before it."""
    blocks = RANGE_BLOCKS
    if isinstance(source, Stream):
        blocks = int(np.clip(STREAM_BYTES // (4 * plan.n_features * BLOCK_ROWS), 1, RANGE_BLOCKS))
    elif source.n_rows < 2 * blocks * BLOCK_ROWS:
        # At least two tasks: with one, all other cores would be idle.
        blocks = -(-source.n_rows // (2 * BLOCK_ROWS))
    for rows in source.ranges(blocks * BLOCK_ROWS, state.stop):
        yield rows, state.n_labeled, 0 if state.label_sets is None else len(state.label_sets)


def survey_range(plan: SurveyPlan, task: tuple[RowRange, int, int]) -> SurveyPart:
    """Run one task: moments of every block, label sets, and candidates of the draws."""
    rows, labeled_before, groups_before = task
    keep = np.zeros(rows.stop - rows.start, dtype=bool)
    landmark_keys = rowkeys.row_keys(plan.landmark_seed, rowkeys.LANDMARKS, rows.start, rows.stop)
    limit = rowkeys.limit(plan.n_landmarks, rows.stop, plan.slack)
    landmark_places = np.flatnonzero(landmark_keys <= limit) if plan.n_landmarks else np.empty(0, dtype=np.intp)
    landmarks = Candidates(landmark_keys[landmark_places], landmark_places + rows.start, np.array([limit]))
    keep[landmark_places] = True
    label_sets = anchors = None
    if plan.labels is not None:
        label_sets = plan.labels.label_sets(rows.read_labels(rows.start, rows.stop), rows.start)
        if plan.anchor_count is not None:
            anchors = _anchor_candidates(plan, rows, label_sets, labeled_before, groups_before)
            keep[anchors.row - rows.start] = True
    sample = _sample_candidates(rows, label_sets, labeled_before, plan.slack)
    keep[sample.row - rows.start] = True
    if label_sets is not None:
        label_sets.place = np.empty(0, dtype=np.intp)  # one number per row, which is not needed any more
    kept, totals, squares = [], [], []
    for start in range(rows.start, rows.stop, BLOCK_ROWS):
        stop = min(start + BLOCK_ROWS, rows.stop)
        block = rows.read_checked(start, stop, plan.n_features)
        total, square = plan.features.moments(block)
        totals.append(total)
        squares.append(square)
        wanted = np.flatnonzero(keep[start - rows.start : stop - rows.start])
        if plan.carry_rows and len(wanted):
            kept.append(block[wanted])
    if kept:
        features, place = stack_rows(kept), np.cumsum(keep) - 1
        landmarks.features = [features[place[landmark_places]]]
        sample.features = [features[place[sample.row - rows.start]]]
        if anchors is not None:
            anchors.features = [features[place[anchors.row - rows.start]]]
    return SurveyPart(rows.stop, np.array(totals), np.array(squares), landmarks, sample, label_sets, anchors)


def _sample_candidates(rows: RowRange, found: RangeLabelSets | None, labeled_before: int, slack: int) -> Candidates:
    keys = rowkeys.row_keys(SAMPLE_SEED, rowkeys.SAMPLE, rows.start, rows.stop)
    labeled = np.arange(len(keys)) if found is None else np.flatnonzero(found.place >= 0)
    n_seen = rows.stop if found is None else _labeled_so_far(rows, len(labeled), labeled_before)
    limit = rowkeys.limit(SAMPLE_ROWS, n_seen, slack)
    places = labeled[keys[labeled] <= limit]
    identity = None if found is None else found.identity[found.place[places]]
    return Candidates(keys[places], places + rows.start, np.array([limit]), identity=identity)


def _labeled_so_far(rows: RowRange, n_labeled: int, labeled_before: int) -> int:
    """Return labeled rows up to here: those counted already, or an eighth of what this range's own share suggests."""
    likely = rows.stop * n_labeled / (rows.stop - rows.start) / 8
    return max(labeled_before + n_labeled, int(likely), 1)


def _anchor_candidates(
    plan: SurveyPlan, rows: RowRange, found: RangeLabelSets, labeled_before: int, groups_before: int
) -> Candidates:
    keys = rowkeys.row_keys(plan.anchor_seed, rowkeys.ANCHORS, rows.start, rows.stop)
    labeled = np.flatnonzero(found.place >= 0)
    order = labeled[np.lexsort((keys[labeled], found.place[labeled]))]
    n_seen = _labeled_so_far(rows, len(labeled), labeled_before)
    n_drawn = plan.n_anchors(max(groups_before, len(found.count)), found.sets)
    chosen, below = lowest_of_groups(found.place[order], keys[order], found.count, n_drawn, n_seen, plan.slack)
    places = order[chosen]
    identity = found.identity[found.place[places]]
    return Candidates(keys[places], places + rows.start, below, identity=identity)


@dataclass
class SurveyState:
    """A survey of all rows before ``stop``."""

    total: FloatArray
    landmarks: Candidates
    sample: Candidates
    stop: int = 0
    squares: float = 0.0
    n_labeled: int = 0
    label_sets: LabelSetIndex | None = None
    anchors: Candidates | None = None
    room: int = 0
    """With more candidates than this, those that are no longer needed are dropped."""

    @classmethod
    def begin(cls, plan: SurveyPlan) -> SurveyState:
        landmarks, sample = Candidates.none(by_label_set=False), Candidates.none(by_label_set=False)
        state = cls(np.zeros(plan.n_features), landmarks, sample)
        if plan.labels is not None:
            state.label_sets = LabelSetIndex()
            state.anchors = Candidates.none(by_label_set=True) if plan.anchor_count is not None else None
        return state

    def add(self, part: SurveyPart, plan: SurveyPlan) -> None:
        """Add the next range of rows."""
        self.stop = part.stop
        for total, square in zip(part.totals, part.squares, strict=True):
            self.total += total
            self.squares += float(square)
        self.landmarks = self.landmarks.joined(part.landmarks, np.minimum(self.landmarks.below, part.landmarks.below))
        self.sample = self.sample.joined(part.sample, np.minimum(self.sample.below, part.sample.below))
        n_candidates = len(self.landmarks.key) + len(self.sample.key)
        if self.label_sets is not None and part.label_sets is not None:
            old, new = self.label_sets.identity, part.label_sets.identity
            self.label_sets.add(part.label_sets)
            self.n_labeled += int(part.label_sets.count.sum())
            if self.anchors is not None and part.anchors is not None:
                below = np.full(len(self.label_sets), HIGHEST_KEY)
                if len(old):
                    below[self.label_sets.places(old)] = self.anchors.below
                if len(new):
                    np.minimum.at(below, self.label_sets.places(new), part.anchors.below)
                self.anchors = self.anchors.joined(part.anchors, below)
                n_candidates += len(self.anchors.key)
        if n_candidates > self.room:
            self._drop_candidates(plan)

    def _drop_candidates(self, plan: SurveyPlan) -> None:
        """Drop the candidates that the rows seen since have made superfluous."""
        self.landmarks = self.landmarks.select(rowkeys.lowest(self.landmarks.key, plan.n_landmarks))
        self.sample = self.sample.select(rowkeys.lowest(self.sample.key, SAMPLE_ROWS))
        n_candidates = len(self.landmarks.key) + len(self.sample.key)
        if self.anchors is not None and self.label_sets is not None and len(self.anchors.key):
            group = self.label_sets.places(self.anchors.identity)  # type: ignore[arg-type]
            order = np.lexsort((self.anchors.key, group))
            n_drawn = plan.n_anchors(len(self.label_sets), self.label_sets.sets)
            chosen, below = lowest_of_groups(
                group[order], self.anchors.key[order], self.label_sets.count, n_drawn, self.n_labeled, plan.slack
            )
            self.anchors = self.anchors.select(order[chosen])
            self.anchors.below = np.minimum(self.anchors.below, below)
            n_candidates += len(self.anchors.key)
        self.room = 2 * n_candidates + 4096

    def finish(self, source: AnySource, plan: SurveyPlan) -> Survey:
        """Make the draws.

        Raises
        ------
        rowkeys.Incomplete
            If a row that is no candidate might belong to a draw.
        """
        if self.stop < 2:
            raise ValueError(f"At least 2 rows are needed. Got {self.stop}.")
        landmarks = _drawn(self.landmarks, landmark_count(plan.features.n_landmarks, self.stop), self.stop)
        sample = _drawn(self.sample, SAMPLE_ROWS, self.stop if self.label_sets is None else self.n_labeled)
        drawn = CalibrationSample(sample.row.astype(np.intp), _rows_of(sample, source))
        result = Survey(self.stop, self.total, self.squares, _rows_of(landmarks, source), drawn)
        if self.label_sets is not None and plan.labels is not None:
            if not plan.any_variety:
                check_variety(len(self.label_sets))
            elif not len(self.label_sets):
                return result
            result.table, result.groups = self.label_sets.table(), GroupLookup(plan.labels, self.label_sets)
            result.counts = self.label_sets.count[np.argsort(self.label_sets.numbers())]
            result.n_unlabeled = self.stop - self.n_labeled
            drawn.groups = self.label_sets.numbers()[self.label_sets.places(sample.identity)]  # type: ignore[arg-type]
            if plan.anchor_count is not None:
                self._draw_anchors(result, source, plan)
        return result

    def _draw_anchors(self, result: Survey, source: AnySource, plan: SurveyPlan) -> None:
        assert self.label_sets is not None
        assert self.anchors is not None
        assert result.counts is not None
        # By group numbers rather than by places, because the order of the groups decides ties between them.
        numbers = self.label_sets.numbers()
        group = numbers[self.label_sets.places(self.anchors.identity)]  # type: ignore[arg-type]
        below = self.anchors.below[np.argsort(numbers)]
        order = np.lexsort((self.anchors.key, group))
        n_drawn = plan.n_anchors(len(self.label_sets), self.label_sets.sets)
        drawn = order[rowkeys.choose_evenly(group[order], self.anchors.key[order], result.counts, n_drawn, below)]
        drawn = drawn[np.argsort(self.anchors.row[drawn])]
        anchors = self.anchors.select(drawn)
        result.anchors, result.anchor_groups = anchors.row.astype(np.intp), group[drawn].astype(np.intp)
        result.anchor_rows = _rows_of(anchors, source)


def _drawn(candidates: Candidates, count: int, n_rows: int) -> Candidates:
    """Return the ``count`` candidates with the lowest keys of ``n_rows`` rows that could be drawn.

    Raises
    ------
    rowkeys.Incomplete
        If a row that is no candidate might belong to them.
    """
    drawn = candidates.select(rowkeys.lowest(candidates.key, count))
    if len(drawn.key) < min(count, n_rows) or np.any(drawn.key > drawn.below):
        raise rowkeys.Incomplete
    return drawn


def _rows_of(drawn: Candidates, source: AnySource) -> Matrix | None:
    """Return the rows of a draw: those that were carried along, or read now."""
    if not len(drawn.row):
        return None
    if drawn.features:
        return stack_rows(drawn.features)
    return source.take(drawn.row)  # type: ignore[union-attr]  # without carried rows the source is cheap
