"""How a fit learns: one pass adds up sums over all rows and keeps a sample, from which all parts of a coder follow.

Then a last pass codes the rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import reduce
from operator import iadd

import numpy as np
from scipy import sparse

import hashlearn.rowkeys as rowkeys
from hashlearn.functions.linear import RidgeSums
from hashlearn.kernel import LandmarkKernel, PlainFeatures, dense_rows
from hashlearn.opencode.coder import (
    LEAST_LEARNED,
    N_WORDS,
    WORD_BITS,
    WORD_NIBBLES,
    LabelPart,
    LabelWords,
    NibbleQuantizer,
    OpenCoder,
)
from hashlearn.opencode.labels import Familiarity, LabelRegression, best_temperature
from hashlearn.opencode.metric import LabelMetric, LabelSums, unit_rows
from hashlearn.opencode.report import OpenReport
from hashlearn.parallel import ordered_map, row_blocks
from hashlearn.rows.groups import GroupLookup
from hashlearn.rows.reduce import AdditiveSums, block_rows, read_groups
from hashlearn.rows.source import RowRange
from hashlearn.rows.survey import Survey
from hashlearn.typing import Float32Array, FloatArray, Int64Array, IntArray, Matrix, PackedCodes

SAMPLE_ROWS = 16_384
"""Axes, books and left-out scores are learned from at most this number of rows, drawn at random."""
LEAST_LABELED = 256
"""Labeled rows that are kept beside the sample: it has fewer where few rows have labels."""
LEFT_OUT_ROWS, LEAST_LEFT_OUT, MOST_PROBABILITIES = 6144, 2048, 2**22
"""Rows of the sample that are scored as if left out, from which label words are learned; fewer with many labels."""


class UnitRows(PlainFeatures):
    """Rows of unit length as features: a survey adds up their moments."""

    def moments(self, X: Matrix) -> tuple[FloatArray, float]:
        rows = unit_rows(X)
        return rows.sum(axis=0, dtype=np.float64), float(np.einsum("ij,ij->", rows, rows, dtype=np.float64))


@dataclass
class LabelPlan:
    """How tasks read labels.

    Attributes
    ----------
    groups : the group of any row: rows of a group have equal labels.
    counts : number of rows of every group.
    table : label set of every group, and at the end an empty one for the group -1, which has no labels.
    single : whether every row has one label at most.
    kernel : its landmarks are labeled rows.
    """

    groups: GroupLookup
    counts: Int64Array
    table: sparse.csr_matrix
    single: bool
    kernel: LandmarkKernel


@dataclass
class PassPlan:
    """What tasks know of all rows.

    Attributes
    ----------
    mean : of the unit rows.
    labels : None without labels.
    seed, limit, labeled_limit : rows with keys of this seed up to the limit may be in the sample, and labeled rows up
        to the other limit in that of labeled ones.
    """

    n_rows: int
    mean: FloatArray
    labels: LabelPlan | None
    seed: int
    limit: np.uint64
    labeled_limit: np.uint64

    @classmethod
    def after(cls, found: Survey, seed: int) -> PassPlan:
        """Plan the passes after a survey."""
        labels, labeled_limit = None, np.uint64(0)
        if found.table is not None and found.groups is not None and found.counts is not None:
            labeled_limit = rowkeys.limit(LEAST_LABELED, max(1, int(found.counts.sum())))
            kernel = LandmarkKernel()
            kernel.set_landmarks(found.anchor_rows, found.total, found.squares, found.n_rows)
            kernel.center_ = kernel.typical()  # until the mean is known
            table = sparse.vstack([found.table, sparse.csr_matrix((1, found.table.shape[1]))]).tocsr()
            single = bool((np.diff(found.table.indptr) == 1).all())
            labels = LabelPlan(found.groups, found.counts, table, single, kernel)
        mean, limit = found.total / found.n_rows, rowkeys.limit(SAMPLE_ROWS, found.n_rows)
        return cls(found.n_rows, mean, labels, seed, limit, labeled_limit)

    def blocks(self, rows: RowRange) -> Iterator[tuple[slice, Float32Array, IntArray]]:
        """Read a range block by block: rows, and their groups (-1 without labels)."""
        for block in row_blocks(rows.stop - rows.start, block_rows(self.n_rows)):
            start, stop = rows.start + block.start, rows.start + block.stop
            group = np.full(stop - start, -1, dtype=np.intp)
            if self.labels is not None:
                group = read_groups(self.labels.groups, rows, start, stop)
            yield slice(start, stop), dense_rows(rows.read(start, stop)), group


@dataclass
class RowSums(AdditiveSums):
    """Sums over rows, and the rows that may be in the sample.

    Attributes
    ----------
    unlabeled : sum of x x' over unit rows x less their mean, of rows without labels.
    labeled : sums over the other rows.
    kernel : sums of the kernel features of labeled rows, from a provisional center.
    rows, keys, groups : of the candidates of the sample, in blocks.
    """

    unlabeled: FloatArray
    labeled: LabelSums
    kernel: RidgeSums
    rows: list[Float32Array]
    keys: list[rowkeys.Keys]
    groups: list[IntArray]

    @classmethod
    def from_rows(cls, plan: PassPlan, numbers: slice, rows: Float32Array, group: IntArray) -> RowSums:
        """Sum over one block of rows, which have these numbers."""
        known = np.flatnonzero(group >= 0)
        centered = unit_rows(rows).astype(np.float64) - plan.mean
        rest = np.delete(centered, known, axis=0)
        labels, features, single = sparse.csr_matrix((0, 0)), np.empty((0, 0), dtype=np.float32), True
        if plan.labels is not None:
            labels, single = plan.labels.table[group[known]], plan.labels.single
            features = plan.labels.kernel.map_block(rows[known]) - plan.labels.kernel.center_
        key = rowkeys.row_keys(plan.seed, rowkeys.SAMPLE, numbers.start, numbers.stop)
        chosen = (key <= plan.limit) | ((group >= 0) & (key <= plan.labeled_limit))
        return cls(
            rest.T @ rest,
            LabelSums.from_rows(centered[known], labels, single),
            RidgeSums.from_rows(features, labels.toarray().astype(np.float32)),
            [rows[chosen]],
            [key[chosen]],
            [group[chosen]],
        )

    def sample(self, count: int, least_group: int = -1) -> tuple[Float32Array, IntArray]:
        """Return sampled rows and their groups, in the order of their keys: the first of them are a sample too."""
        keys, groups = np.concatenate(self.keys), np.concatenate(self.groups)
        places = np.flatnonzero(groups >= least_group)
        chosen = places[rowkeys.lowest(keys[places], count)]
        chosen = chosen[np.argsort(keys[chosen], kind="stable")]
        return np.concatenate(self.rows)[chosen], groups[chosen]


def sum_rows(plan: PassPlan, rows: RowRange) -> tuple[RowSums, slice, None]:
    """One task: the sums of its rows."""
    sums = (RowSums.from_rows(plan, *block) for block in plan.blocks(rows))
    return reduce(iadd, sums), slice(rows.start, rows.stop), None


def code_range(task: tuple[OpenCoder, PassPlan], rows: RowRange) -> tuple[slice, PackedCodes]:
    """One task: the codes of its rows, with the labels that are known."""
    coder, plan = task
    table = None if plan.labels is None else plan.labels.table
    packed = [coder.encode(part, None if table is None else table[group]) for _, part, group in plan.blocks(rows)]
    return slice(rows.start, rows.stop), np.concatenate(packed)


def learn_coder(
    sums: RowSums, plan: PassPlan, n_bits: int, rng: np.random.RandomState, n_jobs: int | None
) -> tuple[OpenCoder, OpenReport]:
    """Learn all parts from the sums, each also from what earlier parts make of the sample, and report on them."""
    rows, group = sums.sample(SAMPLE_ROWS)
    covariance = (sums.unlabeled + sums.labeled.xx) / plan.n_rows
    metric, blocks = LabelMetric(plan.mean, covariance, sums.labeled), row_blocks(len(rows))
    moments = ordered_map(lambda block: metric.moments(unit_rows(rows[block])), blocks, n_jobs)
    metric.set_axes(reduce(iadd, moments))
    vectors = np.concatenate(list(ordered_map(lambda block: metric.map_block(rows[block]), blocks, n_jobs)))
    n_nibbles = n_bits // 4 - (0 if plan.labels is None else WORD_NIBBLES)
    quantizer = NibbleQuantizer.learn(vectors, n_nibbles, rng, n_jobs)
    report = OpenReport(plan.n_rows, 4 * len(quantizer.axes_), vectors.shape[1], metric.explained_)
    if plan.labels is None:
        return OpenCoder(metric, quantizer), report
    # The most frequent label sets get label words, so that codes keep them where they are given.
    frequent = np.argsort(-plan.labels.counts, kind="stable")[: N_WORDS - LEAST_LEARNED]
    given = plan.labels.table[np.sort(frequent)].toarray().astype(np.float32)
    labels, right, sure = _learn_labels(sums, plan.labels, given, rows, vectors, group, rng, n_jobs)
    report = replace(
        report,
        n_labeled=sums.labeled.count,
        n_labels=plan.labels.table.shape[1],
        n_sets=len(plan.labels.counts),
        n_kept=len(given),
        label_bits=WORD_BITS,
        right=right,
        sure=sure,
        separation=labels.familiarity.separation_,
    )
    return OpenCoder(metric, quantizer, labels), report


def _learn_labels(
    sums: RowSums,
    plan: LabelPlan,
    given: Float32Array,
    rows: Float32Array,
    vectors: Float32Array,
    group: IntArray,
    rng: np.random.RandomState,
    n_jobs: int | None,
) -> tuple[LabelPart, float, float]:
    """Learn label scores from the sums, and the other parts that know labels from left-out scores of sampled rows.

    Return also how often the best label of a left-out row is right, and its mean probability.
    """
    rows = rows[: min(LEFT_OUT_ROWS, max(LEAST_LEFT_OUT, MOST_PROBABILITIES // plan.table.shape[1]))]
    known = group[: len(rows)] >= 0
    labeled_rows, label_group = rows[known], group[: len(rows)][known]
    if len(labeled_rows) < LEAST_LABELED:
        labeled_rows, label_group = sums.sample(LEAST_LABELED, least_group=0)
    labels = plan.table[label_group].toarray()
    regression = LabelRegression(sums.kernel, plan.kernel)
    left_out, scores = regression.left_out(labeled_rows, labels, n_jobs), regression.scores
    if plan.single:
        scores.temperature_ = best_temperature(left_out, labels.argmax(axis=1))
    familiarity = Familiarity.learn(left_out.max(axis=1), vectors, group >= 0, n_jobs)
    others = rows[~known]
    unlabeled = ordered_map(lambda block: scores.scores(others[block]), row_blocks(len(others)), n_jobs)
    predicted = [scores.probabilities(part) for part in (left_out, *unlabeled)]
    words = LabelWords.learn(np.concatenate(predicted), given, rng, n_jobs)
    best = predicted[0].argmax(axis=1)
    right = float(labels[np.arange(len(best)), best].mean())
    return LabelPart(scores, words, familiarity), right, float(predicted[0].max(axis=1).mean())
