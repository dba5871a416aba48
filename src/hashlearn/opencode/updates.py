"""``OpenHasher.partial_fit``: the sums that it keeps of the rows so far, and label scores that it learns from them.

Metric, landmarks, nibbles and label words stay, so stored codes stay valid. New labels get columns in the label scores,
and label words after those that are there.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from hashlearn.functions.linear import RidgeSums
from hashlearn.opencode.coder import LabelPart, OpenCoder
from hashlearn.opencode.familiarity import Familiarity
from hashlearn.opencode.label_scores import LabelRegression, best_temperature
from hashlearn.opencode.learn import LEFT_OUT_ROWS
from hashlearn.opencode.quantizers import LEARNED_WORDS, WORD_BITS, WORD_ROUNDS, LabelWords, k_means
from hashlearn.parallel import one_blas_thread, ordered_map, row_blocks
from hashlearn.typing import Float32Array

MOST_ROWS = LEFT_OUT_ROWS
"""Rows that are kept, of which left-out scores are computed again."""
LEAST_WORDS = 4
"""Label words that are learned for a new label, besides the one of rows that are sure to have it."""


@dataclass
class KeptSums:
    """Sums over the labeled rows of all calls, and a sample of all rows.

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

        for one in ordered_map(sums_of, row_blocks(len(known)), n_jobs):
            sums += one
        total = self.n_rows + len(rows)
        kept = sparse.csr_matrix(
            (self.labels.data, self.labels.indices, self.labels.indptr), (len(self.rows), labels.shape[1])
        )
        all_rows, all_labels = np.concatenate([self.rows, rows]), sparse.vstack([kept, labels]).tocsr()
        if len(all_rows) > MOST_ROWS:
            share = min(len(rows), round(MOST_ROWS * len(rows) / total))
            rng = np.random.default_rng(total)
            first = rng.permutation(len(self.rows))[: MOST_ROWS - share]
            last = rng.permutation(len(rows))[: MOST_ROWS - len(first)] + len(self.rows)
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
        vectors = np.concatenate(
            list(ordered_map(lambda block: coder.metric.map_block(sums.rows[block]), blocks, n_jobs))
        )
        familiarity = Familiarity.learn(left_out.max(axis=1), vectors, known, n_jobs)
        words = _with_new_labels(coder.labels.words, scores.probabilities(left_out), labels, n_jobs)
    return replace(coder, labels=LabelPart(scores, words, familiarity))


def _with_new_labels(
    words: LabelWords, probabilities: NDArray[Any], labels: NDArray[Any], n_jobs: int | None
) -> LabelWords:
    n_words, n_old = words.words_.shape
    n_labels = labels.shape[1]
    padded = np.pad(words.words_, ((0, 0), (0, n_labels - n_old)))
    if n_labels == n_old:
        return LabelWords(padded)
    new = [np.eye(n_labels, dtype=np.float32)[n_old:]]
    rows = probabilities[labels[:, n_old:].any(axis=1)]
    start = np.unique(rows[: max(LEAST_WORDS, LEARNED_WORDS // n_labels) * (n_labels - n_old)], axis=0)
    if len(start):
        new.append(k_means(rows, start, WORD_ROUNDS, n_jobs))
    joined = np.concatenate([padded, *new])
    room = 2**WORD_BITS
    if n_words + n_labels - n_old > room:
        raise ValueError(
            f"A code has room for {room:,} label words, and {n_words:,} are used: {n_labels - n_old:,} new labels are "
            "too many. Fit a new hasher to all rows."
        )
    return LabelWords(joined[:room])
