"""ITQ in the metric that labels teach: bits that keep what rows are like, also of classes without labels."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import linalg

from hashlearn.functions.linalg import itq_rotation
from hashlearn.hashers.in_memory import Learned, linear
from hashlearn.hashers.sums import SumsHasher, Training
from hashlearn.kernel import dense_rows
from hashlearn.labels import LabelMatrix
from hashlearn.methodinfo import MethodInfo
from hashlearn.opencode.metric import LabelMetric, LabelSums
from hashlearn.parallel import one_blas_thread
from hashlearn.parameters import COUNT, Anything, fitted, parameter
from hashlearn.rows.reduce import FitContext
from hashlearn.rows.survey import LabeledRows, draw_sample
from hashlearn.typing import Float32Array, FloatArray, Matrix, Rng

SAMPLE_ROWS = 12_000
"""The metric is learned from at most this number of rows."""
ROTATION_ROWS = 5000
"""ITQ's rotation is learned from this number of them: it has few parameters, and every round reads all rows."""
MOST_FEATURES = 512
"""Rows with more features are reduced to this number of principal components: eigenproblems grow with the cube."""
MOST_LABELS = 1000
"""Of label sets with more labels than this, only the most frequent ones teach the metric."""


class MetricITQ(SumsHasher):
    """ITQ in the metric that labels teach (``opencode.metric``), on all rows, labeled or not.

    Directions in which rows of one class differ count for little, directions in which rows of all classes differ count
    for much. That serves classes without labels too, so these bits find rows of known and of unknown classes better
    than those of ITQ. The hash function is linear. It is learned from at most 12,000 rows, drawn at random.
    """

    info = MethodInfo(
        name="metric-itq",
        title="MetricITQ",
        reference="hashlearn: ITQ (Gong and Lazebnik, CVPR 2011) in a metric learned from labels (2026)",
        kind="quantization",
        cost="O(n d^2 + d^3 + n m^2), n at most 12,000",
        verified=True,
        passes=3,
    )

    _structure_bits = True

    max_iter: int = parameter(COUNT, "Rounds of ITQ's rotation.", default=50)
    unlabeled: Any = parameter(
        Anything(), "Besides None and NaN, the class that marks a row as unlabeled, -1 for example.", default=None
    )

    n_iter_: int = fitted("Rounds of ITQ's rotation.")
    explained_: float = fitted("Share of the variance that the labels explain; the metric is plain if it is 0.")

    def _learn_rows(self, training: Training, context: FitContext, rng: Rng) -> Learned:
        known = LabeledRows(
            n_rows=training.n_rows, table=training.table, counts=training.counts, groups=training.view.groups
        )
        sample = draw_sample(training.source, known, SAMPLE_ROWS, training.seed, context)
        axes = TaughtAxes(sample.rows, sample.label_sets, self.n_bits_)
        self.features_.center_ = axes.center
        weights = axes.rotated(self.n_bits_, rng, self.max_iter)
        return Learned(linear(weights), explained_=axes.explained, n_iter_=self.max_iter)


class TaughtAxes:
    """Principal axes of rows in the metric that labels teach, as a linear map of rows.

    The metric makes rows unit length before their axes are chosen. That changes no sign, so the bits of a rotation of
    the axes are a linear function of the row.

    Attributes
    ----------
    center : (n_features,)
    weights : (n_features, n_axes)
    vectors : (n, n_axes), unit rows of the sample along the axes.
    explained : share of the variance that the labels explain.
    """

    def __init__(self, rows: Matrix, labels: LabelMatrix, count: int) -> None:
        with one_blas_thread():
            x = dense_rows(rows).copy()
            self.center: Float32Array = x.mean(axis=0, dtype=np.float64).astype(np.float32)
            x -= self.center
            directions = None
            if x.shape[1] > MOST_FEATURES:
                directions = _leading_span(x, min(MOST_FEATURES, len(x)))
                x = x @ directions
            metric = _taught(x, labels)
            metric.set_axes(metric.moments(x))
            self.explained = metric.explained_
            self.vectors: Float32Array = metric.map_unit(x)[:, :count]
            assert metric.axes_ is not None
            weights = metric.axes_[:, :count]
            if metric.scales_ is not None:
                weights = metric.scales_ @ weights
            self.weights: FloatArray = np.asarray(weights if directions is None else directions @ weights, np.float64)

    def rotated(self, n_bits: int, rng: Rng, max_iter: int = 50) -> FloatArray:
        """Return the weights (n_features, n_bits) of the first ``n_bits`` axes after ITQ's rotation.

        With fewer axes than bits, columns of zeros are added and the rotation spreads the axes over all bits.
        """
        few = np.linspace(0, len(self.vectors) - 1, min(len(self.vectors), ROTATION_ROWS)).astype(np.intp)
        missing = ((0, 0), (0, max(0, n_bits - self.weights.shape[1])))
        vectors = np.pad(self.vectors[few, :n_bits].astype(np.float64), missing)
        with one_blas_thread():
            return np.pad(self.weights[:, :n_bits], missing) @ itq_rotation(vectors, rng, max_iter)[0]


def _leading_span(x: Float32Array, count: int) -> Float32Array:
    """Return an orthonormal basis (n_features, count) of about the leading principal directions of rows.

    Two rounds of subspace iteration from a random start suffice, because the metric gives the directions other weights.
    """
    basis = np.random.default_rng(0).standard_normal((x.shape[1], count), dtype=np.float32)
    for _ in range(2):
        basis = linalg.qr(x.T @ (x @ basis), mode="economic", check_finite=False)[0]
    return basis


def _taught(x: Float32Array, labels: LabelMatrix) -> LabelMetric:
    """Learn the metric from centered rows and their label sets, which are empty for unlabeled rows."""
    sizes = np.diff(labels.indptr)
    known, other = x[sizes > 0], x[sizes == 0]
    labels = labels[sizes > 0]
    single = bool((sizes[sizes > 0] == 1).all())
    if not single and labels.shape[1] > MOST_LABELS:
        frequent = np.argsort(-np.asarray(labels.sum(axis=0)).ravel(), kind="stable")[:MOST_LABELS]
        labels = labels[:, frequent]
    xx = (known.T @ known).astype(np.float64)
    sums = LabelSums(
        len(known),
        known.sum(axis=0, dtype=np.float64),
        xx,
        np.asarray(labels.T @ known, dtype=np.float64).T,
        np.asarray(labels.sum(axis=0), dtype=np.float64).ravel(),
        np.zeros((0, 0)) if single else (labels.T @ labels).toarray().astype(np.float64),
    )
    covariance = (xx + other.T @ other) / len(x)
    return LabelMetric(np.zeros(x.shape[1]), covariance, sums)
