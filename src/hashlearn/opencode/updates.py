"""Coders that go on from those of a fit: ``OpenHasher.partial_fit`` and ``hl.migrate``. Stored codes stay valid.

``partial_fit`` keeps sums over the rows so far, and learns label scores from them again. Metric, landmarks, nibbles and
label words stay. New labels get columns in the label scores, and label words after those that are there.

A migration learns from new embeddings of rows whose codes are stored. A stored code says where its row was: its label
word is a vector of label probabilities, and its nibbles are a content vector. Kernel ridge regression from the new
embeddings to both takes the place of the label scores and of the metric. Label words, nibbles and the rows of the
familiarity stay.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from functools import reduce
from operator import iadd
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from hashlearn.functions.linear import RidgeSums
from hashlearn.kernel import LandmarkKernel, dense_rows
from hashlearn.opencode.coder import LEARNED_WORDS, N_WORDS, WORD_ROUNDS, LabelPart, LabelWords, OpenCoder, k_means
from hashlearn.opencode.labels import Familiarity, LabelRegression, LabelScores, best_temperature
from hashlearn.opencode.learn import LEFT_OUT_ROWS
from hashlearn.opencode.metric import LearnedMetric
from hashlearn.parallel import one_blas_thread, ordered_map, row_blocks
from hashlearn.typing import Float32Array, Matrix, PackedCodes

LEAST_WORDS = 4
"""Label words that are learned for a new label, besides the one of rows that are sure to have it."""


@dataclass
class KeptSums:
    """Sums over the labeled rows of all calls, and a sample of all rows, of which left-out scores are computed again.

    Attributes
    ----------
    kernel : sums of kernel features, counted from ``center``, and of label vectors.
    n_rows : rows of all calls.
    rows, labels : of the sample; the label sets of unlabeled rows are empty.
    """

    kernel: RidgeSums
    center: Float32Array
    n_rows: int
    rows: Float32Array
    labels: sparse.csr_matrix

    @classmethod
    def none(cls, part: LabelPart) -> Self:
        """Return the sums over no rows."""
        kernel, (n_features, n_labels) = part.scores.kernel_, part.scores.weights_.shape
        sums = RidgeSums.from_rows(np.zeros((0, n_features)), np.zeros((0, n_labels)))
        rows = np.zeros((0, kernel.landmarks_.shape[1]), dtype=np.float32)
        return cls(sums, kernel.center_, 0, rows, sparse.csr_matrix((0, n_labels)))

    def with_rows(self, part: LabelPart, rows: Float32Array, labels: sparse.csr_matrix, n_jobs: int | None) -> Self:
        """Return the sums with more rows, whose label sets may have more columns."""
        kernel, known = part.scores.kernel_, np.flatnonzero(np.diff(labels.indptr))
        new = labels.shape[1] - self.labels.shape[1]
        old = self.kernel
        xt, t, tt = np.pad(old.xt, ((0, 0), (0, new))), np.pad(old.t, (0, new)), np.pad(old.tt, (0, new))
        sums = RidgeSums(old.count, old.x.copy(), old.xx.copy(), xt, t, tt)

        def sums_of(block: slice) -> RidgeSums:
            some = known[block]
            return RidgeSums.from_rows(kernel.map_block(rows[some]) - self.center, labels[some].toarray())

        sums = reduce(iadd, ordered_map(sums_of, row_blocks(len(known)), n_jobs), sums)
        total = self.n_rows + len(rows)
        kept = self.labels.copy()
        kept.resize(len(self.rows), labels.shape[1])
        all_rows, all_labels = np.concatenate([self.rows, rows]), sparse.vstack([kept, labels]).tocsr()
        if len(all_rows) > LEFT_OUT_ROWS:
            share = min(len(rows), round(LEFT_OUT_ROWS * len(rows) / total))
            rng = np.random.default_rng(total)
            first = rng.permutation(len(self.rows))[: LEFT_OUT_ROWS - share]
            last = rng.permutation(len(rows))[: LEFT_OUT_ROWS - len(first)] + len(self.rows)
            chosen = np.sort(np.concatenate([first, last]))
            all_rows, all_labels = all_rows[chosen], all_labels[chosen]
        return replace(self, kernel=sums, n_rows=total, rows=all_rows, labels=all_labels)


def updated(coder: OpenCoder, sums: KeptSums, n_jobs: int | None) -> OpenCoder:
    """Return the coder with label scores of all rows so far, and with label words for new labels."""
    assert coder.labels is not None
    kernel = copy.copy(coder.labels.scores.kernel_)
    kernel.center_ = sums.center
    known = np.diff(sums.labels.indptr) > 0
    labels = sums.labels[known].toarray()
    with one_blas_thread():
        regression = LabelRegression(sums.kernel, kernel)
        left_out = regression.left_out(sums.rows[known], labels, n_jobs)
        scores = regression.scores
        if coder.labels.scores.temperature_ is not None:
            scores.temperature_ = best_temperature(left_out, labels.argmax(axis=1))
        blocks = row_blocks(len(sums.rows))
        vectors = list(ordered_map(lambda block: coder.metric.map_block(sums.rows[block]), blocks, n_jobs))
        familiarity = Familiarity.learn(left_out.max(axis=1), np.concatenate(vectors), known, n_jobs)
        words = _with_new_labels(coder.labels.words, scores.probabilities(left_out), labels, n_jobs)
    return replace(coder, labels=LabelPart(scores, words, familiarity))


def _with_new_labels(
    words: LabelWords, probabilities: NDArray[Any], labels: NDArray[Any], n_jobs: int | None
) -> LabelWords:
    """Return the words with more columns, and with words for the labels of these columns at the end."""
    (n_words, n_old), n_labels = words.words_.shape, labels.shape[1]
    padded = np.pad(words.words_, ((0, 0), (0, n_labels - n_old)))
    if n_labels == n_old:
        return LabelWords(padded)
    if n_words + n_labels - n_old > N_WORDS:
        raise ValueError(
            f"A code has room for {N_WORDS:,} label words, and {n_words:,} are used: {n_labels - n_old:,} new labels "
            "are too many. Fit a new hasher to all rows."
        )
    new = [np.eye(n_labels, dtype=np.float32)[n_old:]]
    rows = probabilities[labels[:, n_old:].any(axis=1)]
    start = np.unique(rows[: max(LEAST_WORDS, LEARNED_WORDS // n_labels) * (n_labels - n_old)], axis=0)
    if len(start):
        new.append(k_means(rows, start, WORD_ROUNDS, n_jobs))
    return LabelWords(np.concatenate([padded, *new])[:N_WORDS])


def migrated_coder(
    coder: OpenCoder, kernel: LandmarkKernel, X: Matrix, packed: PackedCodes, n_jobs: int | None
) -> OpenCoder:
    """Learn from new embeddings of some rows and their stored codes. ``kernel`` has landmarks of the new embeddings."""
    word, targets = coder.decode(packed)
    part, n_labels = coder.labels, 0
    if part is not None:
        targets = np.hstack([part.words.words_[word], targets])
        n_labels = part.words.words_.shape[1]
    kernel.center_ = kernel.typical()

    def sums_of(rows: slice) -> RidgeSums:
        return RidgeSums.from_rows(kernel.map_block(X[rows]) - kernel.center_, targets[rows])

    with one_blas_thread():
        sums = reduce(iadd, ordered_map(sums_of, row_blocks(X.shape[0]), n_jobs))
        regression = LabelRegression(sums, kernel)
        weights, offsets = regression.scores.weights_, regression.scores.offsets_
        metric = LearnedMetric(LabelScores(kernel, weights[:, n_labels:], offsets[n_labels:]))
        if part is None:
            return replace(coder, metric=metric)
        scores = LabelScores(kernel, weights[:, :n_labels], offsets[:n_labels])
        left_out = regression.left_out(dense_rows(X), targets, n_jobs)[:, :n_labels]
    if part.scores.temperature_ is not None:
        scores.temperature_ = best_temperature(left_out, targets[:, :n_labels].argmax(axis=1))
    familiarity = replace(part.familiarity, best_=np.sort(left_out.max(axis=1)))
    return OpenCoder(metric, coder.quantizer, LabelPart(scores, part.words, familiarity))
