"""The parts of a coder, each learned from the sums over all rows and from what earlier parts make of a sample."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from operator import iadd

import numpy as np

from hashlearn.opencode.coder import WORD_NIBBLES, LabelPart, OpenCoder
from hashlearn.opencode.familiarity import Familiarity
from hashlearn.opencode.label_scores import LabelRegression, best_temperature
from hashlearn.opencode.metric import unit_rows
from hashlearn.opencode.quantizers import LEAST_LEARNED, N_WORDS, WORD_BITS, LabelWords, NibbleQuantizer
from hashlearn.opencode.report import OpenReport
from hashlearn.opencode.sums import LEAST_LABELED, LabelPlan, PassPlan, RowSums
from hashlearn.parallel import ordered_map, row_blocks
from hashlearn.typing import Float32Array, IntArray

LEFT_OUT_ROWS, LEAST_LEFT_OUT, MOST_PROBABILITIES = 6144, 2048, 2**22
"""Rows of the sample that are scored as if left out, from which label words are learned; fewer with many labels."""


def learn_coder(
    sums: RowSums, plan: PassPlan, n_bits: int, rng: np.random.RandomState, n_jobs: int | None
) -> tuple[OpenCoder, OpenReport]:
    """Learn all parts, and report what was learned."""
    rows, group = sums.sample()
    metric, blocks = sums.metric(plan.mean), row_blocks(len(rows))
    moments = ordered_map(lambda block: metric.moments(unit_rows(rows[block])), blocks, n_jobs)
    metric.set_axes(reduce(iadd, moments))
    vectors = np.concatenate(list(ordered_map(lambda block: metric.map_block(rows[block]), blocks, n_jobs)))
    n_nibbles = n_bits // 4 - (0 if plan.labels is None else WORD_NIBBLES)
    quantizer = NibbleQuantizer.learn(vectors, n_nibbles, rng, n_jobs)
    report = OpenReport(plan.n_rows, 4 * len(quantizer.axes_), vectors.shape[1], metric.explained_)
    if plan.labels is None:
        return OpenCoder(metric, quantizer), report
    given = _given_sets(plan.labels)
    labels, right, sure = _learn_labels(sums, plan.labels, given, rows, vectors, group, rng, n_jobs)
    report = replace(
        report,
        n_labeled=sums.labeled.count,
        n_labels=plan.labels.table.shape[1],
        n_sets=plan.labels.table.shape[0],
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
        labeled_rows, label_group = sums.labeled_sample()
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


def _given_sets(plan: LabelPlan) -> Float32Array:
    """Return the label sets that get label words, so that codes keep labels that are given: the most frequent ones."""
    frequent = np.argsort(-plan.counts, kind="stable")[: N_WORDS - LEAST_LEARNED]
    given: Float32Array = plan.table[np.sort(frequent)].toarray().astype(np.float32)
    return given
