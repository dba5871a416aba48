"""A coder for a new embedding model, whose codes are compared with those that the old one has stored.

A stored code says where its row was: its label word is a vector of label probabilities, and its nibbles are a content
vector. Kernel ridge regression from new embeddings to both takes the place of the label scores and of the metric. Label
words, nibbles and the rows of the familiarity stay, so stored codes keep their meaning.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from operator import iadd

import numpy as np

from hashlearn.functions.linear import RidgeSums
from hashlearn.kernel import LandmarkKernel, dense_rows
from hashlearn.opencode.coder import LabelPart, OpenCoder
from hashlearn.opencode.familiarity import Familiarity
from hashlearn.opencode.label_scores import LabelRegression, LabelScores, best_temperature
from hashlearn.opencode.metric import LearnedMetric
from hashlearn.parallel import one_blas_thread, ordered_map, row_blocks
from hashlearn.typing import Matrix, PackedCodes


def migrated_coder(
    coder: OpenCoder, kernel: LandmarkKernel, X: Matrix, packed: PackedCodes, n_jobs: int | None
) -> OpenCoder:
    """Learn from new embeddings of some rows and their stored codes. ``kernel`` has landmarks of the new embeddings."""
    word, vectors = coder.decode(packed)
    part, n_labels = coder.labels, 0
    targets = vectors
    if part is not None:
        targets = np.hstack([part.words.words_[word], vectors])
        n_labels = part.words.words_.shape[1]
    kernel.center_ = kernel.typical()
    with one_blas_thread():
        sums = reduce(
            iadd,
            ordered_map(
                lambda rows: RidgeSums.from_rows(kernel.map_block(X[rows]) - kernel.center_, targets[rows]),
                row_blocks(X.shape[0]),
                n_jobs,
            ),
        )
        regression = LabelRegression(sums, kernel)
        weights, offsets = regression.scores.weights_, regression.scores.offsets_
        metric = LearnedMetric(LabelScores(kernel, weights[:, n_labels:], offsets[n_labels:]))
        if part is None:
            return replace(coder, metric=metric)
        scores = LabelScores(kernel, weights[:, :n_labels], offsets[:n_labels])
        left_out = regression.left_out(dense_rows(X), targets, n_jobs)[:, :n_labels]
    if part.scores.temperature_ is not None:
        scores.temperature_ = best_temperature(left_out, targets[:, :n_labels].argmax(axis=1))
    old = part.familiarity
    familiarity = Familiarity(left_out.max(axis=1), old.vectors_, old.labeled_)
    familiarity.usual_, familiarity.separation_ = old.usual_, old.separation_
    return OpenCoder(metric, coder.quantizer, LabelPart(scores, part.words, familiarity))
