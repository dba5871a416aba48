"""The first pass over rows in chunks, which counts rows, adds up moments, finds label sets and draws; and samples.

Drawn rows are those with the lowest random keys (see ``rowkeys``); anchors have the lowest keys of their group. Which
rows these are is known only at the end. So every task keeps candidates: a draw of p rows out of the n seen so far takes
about p / n of the rows of any range. For every draw the survey remembers the lowest key that it did not keep. If such a
row could have been drawn, the pass is repeated with more candidates. The draw is therefore always the one that sorting
the keys of all rows would give.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

import hashlearn.rowkeys as rowkeys
from hashlearn.files.read import stack_rows
from hashlearn.kernel import FeatureMap, landmark_count
from hashlearn.labels import LabelMatrix, check_variety, group_rows
from hashlearn.parallel import BLOCK_ROWS
from hashlearn.progress import report
from hashlearn.rowkeys import Keys
from hashlearn.rows.advice import label_advice, scale_advice
from hashlearn.rows.checkpoint import from_arrays, to_arrays
from hashlearn.rows.groups import GroupLookup, Groups, LabelReader, LabelSetIndex
from hashlearn.rows.reduce import FitContext, range_rows, read_groups
from hashlearn.rows.source import SAMPLE_ROWS, SAMPLE_SEED, AnySource, CalibrationSample, RowRange, Stream
from hashlearn.typing import FloatArray, Int64Array, IntArray, Matrix

SLACK = 24
"""How many more candidates than expected are kept; with this many a draw is almost surely complete."""
HIGHEST_KEY = np.uint64(2**64 - 1)
RANGE_BLOCKS = 16
"""Blocks of BLOCK_ROWS rows per task, unless rows are few or wait in this process."""
STREAM_BYTES = 32 * 2**20
"""Rows of a stream that one task gets, because they are in memory here while they wait."""
ATTEMPTS = 8
MANY_ROWS = 2**62
"""Stands for the number of rows of a stream, which is not known before the survey."""

AnchorCount = Callable[[int, sparse.csr_matrix | None], int]


@dataclass(kw_only=True)
class LabeledRows:
    """What is known about the labels of all rows.

    Attributes
    ----------
    table : the label set of every group of rows with equal labels, (n_groups, n_labels); None without labels.
    counts : rows of every group.
    groups : the group of any row.
    """

    n_rows: int
    table: sparse.csr_matrix | None = None
    counts: Int64Array | None = None
    groups: Groups | None = None

    @classmethod
    def from_labels(cls, n_rows: int, labels: LabelMatrix | None) -> LabeledRows:
        """Return what is known of rows in memory by their label sets, which are empty for unlabeled rows."""
        if labels is None:
            return cls(n_rows=n_rows)
        group, first = group_rows(labels)
        counts = np.bincount(group[group >= 0], minlength=len(first))
        return cls(n_rows=n_rows, table=labels[first], counts=counts, groups=group)

    @property
    def n_labeled(self) -> int:
        return 0 if self.counts is None else int(self.counts.sum())

    @property
    def n_unlabeled(self) -> int:
        """Rows without labels among rows that have some."""
        return 0 if self.counts is None else self.n_rows - self.n_labeled

    @property
    def n_groups(self) -> int:
        return 0 if self.table is None else int(self.table.shape[0])

    @property
    def plain(self) -> bool:
        """Whether every row has one class, rather than a set of labels."""
        return self.table is not None and bool(np.all(np.diff(self.table.indptr) == 1))


@dataclass(kw_only=True)
class Survey(LabeledRows):
    """What the first pass found.

    Attributes
    ----------
    total, squares : moments of all rows, as ``features.moments`` defines them.
    landmark_rows : the drawn landmarks.
    sample : rows for the calibration of the bits, of the labeled ones if there are labels.
    groups : the group of any row by its labels.
    anchors, anchor_groups, anchor_rows : numbers, groups and rows of the drawn anchors.
    """

    total: FloatArray
    squares: float
    landmark_rows: Matrix
    sample: CalibrationSample
    groups: GroupLookup | None = None
    anchors: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    anchor_groups: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    anchor_rows: Matrix | None = None

    def advice(self, n_bits: int, structure: bool = False) -> list[str]:
        """Return what to say about the features, by the sample, and about the labels if there are any."""
        advice = scale_advice(self.sample.rows) if len(self.sample.numbers) else []
        if self.table is not None:
            advice += label_advice(self.table, n_bits, self.counts, self.n_unlabeled, structure)
        return advice


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
    carry_rows : whether tasks return the rows that may be drawn; otherwise those that are drawn are read afterwards.
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
        n_landmarks, seed = landmark_count(features.n_landmarks, source.n_rows or MANY_ROWS), features.draw_seed()
        # Of many classes most rows may be drawn, so they are carried only where rows are few or reading again is slow.
        carry = not source.cheap or source.n_rows <= RANGE_BLOCKS * BLOCK_ROWS
        counts = anchor_count, anchor_seed, n_landmarks, seed, carry
        return cls(features, source.n_features, labels, *counts, any_variety=any_variety)

    def n_anchors(self, label_sets: LabelSetIndex, groups_before: int = 0) -> int:
        """Return the number of anchors to draw from these label sets, or from more that came before."""
        return self.anchor_count(max(groups_before, len(label_sets)), label_sets.sets) if self.anchor_count else 0


def survey(source: AnySource, plan: SurveyPlan, context: FitContext) -> Survey:
    """Make the pass, and repeat it with more candidates in the rare cases where they did not suffice."""
    for attempt in range(ATTEMPTS):
        try:
            return _survey_once(source, plan, context, f"survey-{attempt}")
        except rowkeys.Incomplete:
            plan = replace(plan, slack=8 * plan.slack)
    raise RuntimeError(
        f"The first pass over the rows failed {ATTEMPTS} times. This should not happen: please report it."
    )


def _survey_once(source: AnySource, plan: SurveyPlan, context: FitContext, name: str) -> Survey:
    saved = context.load(name)
    seen = from_arrays(Seen, saved) if saved else Seen.begin(plan, 0, 0)
    checkpoint = context.checkpoint
    with nullcontext() if checkpoint is None else checkpoint.saving(name, lambda: to_arrays(seen)) as save:
        for part in context.run(survey_range, plan, _tasks(source, plan, seen)):
            seen.add(part, plan)
            if save is not None:
                save()
            report("survey rows", seen.stop, source.n_rows or seen.stop)
    return seen.finish(source, plan, context)


def _tasks(source: AnySource, plan: SurveyPlan, seen: Seen) -> Iterator[tuple[RowRange, int, int]]:
    """Yield the ranges that remain, each with the labeled rows and groups that are known to come before it."""
    blocks = RANGE_BLOCKS
    if isinstance(source, Stream):
        blocks = int(np.clip(STREAM_BYTES // (4 * plan.n_features * BLOCK_ROWS), 1, RANGE_BLOCKS))
    elif source.n_rows < 2 * blocks * BLOCK_ROWS:
        # At least two tasks: with one, all other cores would be idle.
        blocks = -(-source.n_rows // (2 * BLOCK_ROWS))
    for rows in source.ranges(blocks * BLOCK_ROWS, seen.stop):
        yield rows, seen.n_labeled, 0 if seen.label_sets is None else len(seen.label_sets)


def survey_range(plan: SurveyPlan, task: tuple[RowRange, int, int]) -> Seen:
    """Run one task: moments of every block, label sets, and candidates of the draws."""
    rows, labeled_before, groups_before = task
    part = Seen.begin(plan, rows.start, rows.stop)
    if plan.labels is not None:
        part.group, part.label_sets = plan.labels.label_sets(rows.read_labels(rows.start, rows.stop), rows.start)
        part.anchors.below = np.full(len(part.label_sets), HIGHEST_KEY)
    keep = part.drop(plan, labeled_before, groups_before)
    totals, squares = [], []
    for start in range(rows.start, rows.stop, BLOCK_ROWS):
        stop = min(start + BLOCK_ROWS, rows.stop)
        block = rows.read_checked(start, stop, plan.n_features)
        total, square = plan.features.moments(block)
        totals.append(total)
        squares.append(square)
        wanted = np.flatnonzero(keep[start - rows.start : stop - rows.start])
        if plan.carry_rows and len(wanted):
            part.rows.append(block[wanted])
    part.totals, part.squares = np.array(totals), np.array(squares)
    return part


def read_rows(numbers: Int64Array, rows: RowRange) -> Matrix:
    """Run one task: read those rows that are in the range."""
    first, last = np.searchsorted(numbers, (rows.start, rows.stop))
    return rows.read(rows.start, rows.stop)[numbers[first:last] - rows.start]


@dataclass
class Draw:
    """A draw from the rows that a survey has kept.

    Attributes
    ----------
    key : of every kept row.
    below : of every group, all rows with keys below this one are kept.
    """

    key: Keys
    below: Keys

    def lowest(
        self, group: IntArray, counts: Int64Array, n_drawn: int, n_seen: int, slack: int
    ) -> tuple[IntArray, Keys]:
        """Choose the rows that a draw of ``n_drawn`` of all rows, even over groups, may take.

        Parameters
        ----------
        group : of every kept row, -1 if it cannot be drawn.
        counts : rows of each group.
        n_seen : rows seen so far that can be drawn.

        Returns
        -------
        places of the rows, and what ``below`` is without the others
        """
        # A common label set has as many candidates as its share needs. A rare one has at most ``slack`` of them, and
        # only rows whose keys are low among those of all rows.
        share = min(1.0, slack * n_drawn / n_seen)
        limit = HIGHEST_KEY if share >= 1 else np.uint64(share * 2.0**64)
        low = np.flatnonzero((self.key <= limit) & (group >= 0))
        order = low[np.lexsort((self.key[low], group[low]))]
        expected = counts * (n_drawn / n_seen) * (slack / SLACK)
        most = expected + 8 * np.sqrt(expected) + slack
        ordered = group[order]
        keep = np.arange(len(order)) - np.searchsorted(ordered, ordered) < most[ordered]
        below = np.minimum(self.below, limit)
        np.minimum.at(below, ordered[~keep], self.key[order[~keep]])
        return order[keep], below

    def drawn(self, group: IntArray, counts: Int64Array, count: int, numbers: IntArray | None = None) -> IntArray:
        """Draw ``count`` rows, even over groups; returns their places in the order of the rows.

        ``numbers`` orders the groups: it decides ties between them. ``rowkeys.Incomplete`` is raised if a row that is
        not kept might belong to the draw.
        """
        below = self.below
        if not counts.any():
            return np.empty(0, dtype=np.intp)
        if numbers is not None:
            back = np.argsort(numbers)
            group, counts, below = np.append(numbers, -1)[group], counts[back], below[back]
        order = np.lexsort((self.key, group))
        order = order[group[order] >= 0]
        return np.sort(order[rowkeys.choose_evenly(group[order], self.key[order], counts, count, below)])


@dataclass
class Seen:
    """What is known of the rows from ``start`` to ``stop``.

    Attributes
    ----------
    totals, squares : moments of every block, or one line for all blocks, which are added up in their order.
    row, group, rows : number, label set (-1 without labels) and features of every row that may be drawn.
    landmarks, sample, anchors : draws from all rows, from the labeled ones, and from all label sets by their share.
    room : with more rows than this, those that are no longer needed are dropped.
    """

    start: int
    stop: int
    totals: FloatArray
    squares: FloatArray
    row: Int64Array
    group: IntArray
    landmarks: Draw
    sample: Draw
    anchors: Draw
    rows: list[Matrix] = field(default_factory=list)
    label_sets: LabelSetIndex | None = None
    room: int = 0

    @classmethod
    def begin(cls, plan: SurveyPlan, start: int, stop: int) -> Seen:
        """Return rows with their keys, before anything is read; all of them may be drawn."""
        seeds = plan.landmark_seed, SAMPLE_SEED, plan.anchor_seed
        purposes = rowkeys.LANDMARKS, rowkeys.SAMPLE, rowkeys.ANCHORS
        keys = [rowkeys.row_keys(seed, purpose, start, stop) for seed, purpose in zip(seeds, purposes, strict=True)]
        totals, group = np.zeros((1, plan.n_features)), np.zeros(stop - start, dtype=np.intp)
        landmarks, sample, anchors = (Draw(key, np.array([HIGHEST_KEY])) for key in keys)
        moments, numbers = (totals, np.zeros(1)), np.arange(start, stop)
        seen = cls(start, stop, *moments, numbers, group, landmarks, sample, anchors)
        if plan.labels is not None:
            seen.label_sets, seen.anchors.below = LabelSetIndex(), np.empty(0, dtype=np.uint64)
        return seen

    @property
    def n_labeled(self) -> int:
        """Rows with labels; all rows without labels."""
        return self.stop - self.start if self.label_sets is None else int(self.label_sets.count.sum())

    def drop(self, plan: SurveyPlan, labeled_before: int = 0, groups_before: int = 0) -> NDArray[np.bool_]:
        """Drop the rows that no draw may take; returns which ones are kept."""
        n_rows, n_labeled = self.stop - self.start, self.n_labeled
        # Labeled rows so far: those counted already, or an eighth of what the share of these rows suggests.
        so_far = max(labeled_before + n_labeled, int(self.stop * n_labeled / n_rows / 8), 1)
        everywhere, labeled = np.zeros(len(self.row), dtype=np.intp), np.minimum(self.group, 0)
        wanted = [
            (self.landmarks, everywhere, np.array([n_rows]), plan.n_landmarks, self.stop),
            (self.sample, labeled, np.array([n_labeled]), SAMPLE_ROWS, so_far),
        ]
        if self.label_sets is not None and plan.anchor_count is not None:
            n_anchors = plan.n_anchors(self.label_sets, groups_before)
            wanted.append((self.anchors, self.group, self.label_sets.count, n_anchors, so_far))
        keep = np.zeros(len(self.row), dtype=bool)
        for draw, group, counts, n_drawn, n_seen in wanted:
            places, draw.below = draw.lowest(group, counts, n_drawn, n_seen, plan.slack)
            keep[places] = True
        self.row, self.group = self.row[keep], self.group[keep]
        for draw in self._draws:
            draw.key = draw.key[keep]
        if self.rows:
            self.rows = [stack_rows(self.rows)[np.flatnonzero(keep)]]
        return keep

    def add(self, part: Seen, plan: SurveyPlan) -> None:
        """Add the next range of rows."""
        self.stop = part.stop
        for total, square in zip(part.totals, part.squares, strict=True):
            self.totals[0] += total
            self.squares[0] += square
        theirs = part.group
        if self.label_sets is not None and part.label_sets is not None:
            known = self.label_sets.joined(part.label_sets)
            old = np.searchsorted(known.identity, self.label_sets.identity)
            new = np.searchsorted(known.identity, part.label_sets.identity)
            below = np.full(len(known), HIGHEST_KEY)
            below[old] = self.anchors.below
            below[new] = np.minimum(below[new], part.anchors.below)
            self.group, theirs = np.append(old, -1)[self.group], np.append(new, -1)[theirs]
            self.label_sets, self.anchors.below = known, below
        self.row, self.group = np.concatenate([self.row, part.row]), np.concatenate([self.group, theirs])
        self.rows += part.rows
        for mine, other in ((self.landmarks, part.landmarks), (self.sample, part.sample)):
            mine.below = np.minimum(mine.below, other.below)
        for mine, other in zip(self._draws, part._draws, strict=True):
            mine.key = np.concatenate([mine.key, other.key])
        if len(self.row) > self.room:
            self.drop(plan)
            self.room = 2 * len(self.row) + 4096

    @property
    def _draws(self) -> tuple[Draw, Draw, Draw]:
        return self.landmarks, self.sample, self.anchors

    def finish(self, source: AnySource, plan: SurveyPlan, context: FitContext) -> Survey:
        """Make the draws; ``rowkeys.Incomplete`` is raised if a row that is not kept might belong to one."""
        if self.stop < 2:
            raise ValueError(f"At least 2 rows are needed. Got {self.stop}.")
        everywhere, labeled = np.zeros(len(self.row), dtype=np.intp), np.minimum(self.group, 0)
        count = landmark_count(plan.features.n_landmarks, self.stop)
        landmarks = self.landmarks.drawn(everywhere, np.array([self.stop]), count)
        sample = self.sample.drawn(labeled, np.array([self.n_labeled]), SAMPLE_ROWS)
        anchors, known, numbers = np.empty(0, dtype=np.intp), self.label_sets, np.empty(0, dtype=np.intp)
        if known is not None:
            numbers = known.numbers()
            anchors = self.anchors.drawn(self.group, known.count, plan.n_anchors(known), numbers)
        if plan.carry_rows:
            # Without labels and landmarks nothing is drawn.
            places, nothing = np.arange(len(self.row)), [np.empty((0, plan.n_features), dtype=np.float32)]
            rows = stack_rows(self.rows or nothing)
        else:
            places = np.unique(np.concatenate([landmarks, sample, anchors]))
            rows = stack_rows(list(context.run(read_rows, self.row[places], source.ranges(range_rows(source)))))
        landmark_rows, sampled, anchor_rows = (
            rows[np.searchsorted(places, drawn)] for drawn in (landmarks, sample, anchors)
        )
        drawn = CalibrationSample(self.row[sample].astype(np.intp), sampled)
        moments = {"total": self.totals[0], "squares": float(self.squares[0])}
        result = Survey(n_rows=self.stop, landmark_rows=landmark_rows, sample=drawn, **moments)
        if known is None or plan.labels is None or (plan.any_variety and not len(known)):
            return result
        if not plan.any_variety:
            check_variety(len(known))
        result.table, result.groups = known.table(), GroupLookup(plan.labels, known)
        result.counts = known.count[np.argsort(numbers)]
        drawn.groups = numbers[self.group[sample]]
        result.anchors, result.anchor_rows = self.row[anchors].astype(np.intp), anchor_rows
        result.anchor_groups = numbers[self.group[anchors]]
        return result


LABELED_SHARE = 0.8
"""Share of the labeled rows in a sample, if there are more rows of both kinds than it holds."""
FEW_ROWS = 50
"""Classes with fewer rows than this on average are sampled as whole classes: part of one could find nothing."""


@dataclass(frozen=True)
class Sample:
    """Rows with their groups (-1 without labels), in row order."""

    rows: Matrix
    group: IntArray
    labeled_rows: LabeledRows

    @property
    def label_sets(self) -> sparse.csr_matrix:
        """Labels as sets, which every method takes; a row without labels has an empty set."""
        assert self.labeled_rows.table is not None
        empty = sparse.csr_matrix((1, self.labeled_rows.table.shape[1]))
        return sparse.vstack([self.labeled_rows.table, empty], format="csr")[self.group]


@dataclass
class _SamplePlan:
    """Which rows may be in a sample: labeled ones of the chosen groups and unlabeled ones, with keys up to limits."""

    groups: Groups | None
    chosen: NDArray[np.bool_]
    seed: int
    labeled_limit: np.uint64
    unlabeled_limit: np.uint64


def draw_sample(source: AnySource, known: LabeledRows, n_rows: int, seed: int, context: FitContext) -> Sample:
    """Draw at most ``n_rows`` rows, labeled ones before unlabeled ones; all rows if they are few."""
    n_unlabeled = known.n_rows - known.n_labeled
    n_labeled = min(known.n_labeled, max(int(LABELED_SHARE * n_rows), n_rows - n_unlabeled))
    unlabeled = min(n_unlabeled, n_rows - n_labeled)
    chosen, available = np.zeros(0, dtype=bool), 0
    if known.counts is not None:
        chosen = _chosen_groups(known, known.counts, n_labeled, seed)
        available = int(known.counts[chosen].sum())
    limits = rowkeys.limit(n_labeled, max(available, 1)), rowkeys.limit(unlabeled, max(n_unlabeled, 1))
    plan = _SamplePlan(known.groups, np.append(chosen, False), seed, *limits)
    parts = []
    for part in context.run(_sample_candidates, plan, source.ranges(range_rows(source))):
        parts.append(part)
        report("sample rows", part[3], known.n_rows)
    keys, group = (np.concatenate([part[place] for part in parts]) for place in (0, 1))
    places = [
        which[rowkeys.lowest(keys[which], count)]
        for which, count in ((np.flatnonzero(group >= 0), n_labeled), (np.flatnonzero(group < 0), unlabeled))
    ]
    drawn = np.sort(np.concatenate(places))
    return Sample(stack_rows([part[2] for part in parts])[drawn], group[drawn], known)


def _chosen_groups(known: LabeledRows, counts: Int64Array, n_labeled: int, seed: int) -> NDArray[np.bool_]:
    """Return which groups the sample takes rows from: all, or as many whole small classes as fit into it."""
    chosen = np.ones(len(counts), dtype=bool)
    if known.plain and known.n_labeled > n_labeled and known.n_labeled < FEW_ROWS * len(chosen):
        order = np.argsort(rowkeys.row_keys(seed, rowkeys.ANCHORS, 0, len(chosen)), kind="stable")
        chosen[order[np.cumsum(counts[order]) > n_labeled]] = False
    return chosen


def _sample_candidates(plan: _SamplePlan, rows: RowRange) -> tuple[Keys, IntArray, Matrix, int]:
    """Run one task: keys, groups and features of the rows that may be in the sample, and where the range ends."""
    keys = rowkeys.row_keys(plan.seed, rowkeys.SAMPLE, rows.start, rows.stop)
    group = np.full(len(keys), -1, dtype=np.intp)
    if plan.groups is not None:
        group = read_groups(plan.groups, rows, rows.start, rows.stop)
    labeled = plan.chosen[group] & (keys <= plan.labeled_limit)
    wanted = np.flatnonzero(labeled | ((group < 0) & (keys <= plan.unlabeled_limit)))
    features = rows.read(rows.start, rows.stop)[wanted]
    return keys[wanted], group[wanted], features, rows.stop
