"""How well a row fits each label: kernel ridge regression on label vectors, with scores as if a row had been left out.

Everything is learned from sums over the labeled rows: K'K and K'Y, for kernel features K and label vectors Y (zeros and
ones). The hat matrix of a sample of these rows gives their left-out scores in closed form, without another fit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from hashlearn.functions.linear import RidgeSums
from hashlearn.kernel import LandmarkKernel
from hashlearn.parallel import ordered_map, row_blocks
from hashlearn.typing import Float32Array

RIDGE = 1e-6
"""Added to the mean of K'K over the rows; the features are already smooth, so this only keeps the solution stable."""
TEMPERATURES = tuple(float(t) for t in np.geomspace(2.0, 64.0, 11))
LEAST_PROBABILITY = 1e-7
LEAST_FREEDOM = 1e-3
"""A row whose own label decides its score to more than 1 - this is scored as if it decided it to this share."""


class LabelScores:
    """Maps rows to a score for each label, near 1 for labels that a row has and near 0 for others.

    Attributes
    ----------
    kernel_ : LandmarkKernel
        The features; its landmarks are labeled rows.
    weights_ : float32 (n_landmarks, n_labels)
    offsets_ : float32 (n_labels,)
        Share of the labeled rows that have each label: the score where the features are at their mean.
    temperature_ : float or None
        Factor of the scores of classes before the softmax; None for label sets, whose labels do not exclude each other.
    """

    def __init__(self, kernel: LandmarkKernel, weights: NDArray[Any], offsets: NDArray[Any]) -> None:
        self.kernel_ = kernel
        self.weights_, self.offsets_ = weights.astype(np.float32), offsets.astype(np.float32)
        self.temperature_: float | None = None

    def scores(self, X: Any, dtype: Any = np.float32) -> NDArray[Any]:
        """Score the labels of a block of rows (n, n_labels)."""
        features = self.kernel_.map_block(X, dtype)
        features -= self.kernel_.center_
        result = features @ self.weights_.astype(dtype, copy=False)
        result += self.offsets_
        return result

    def probabilities(self, scores: NDArray[Any]) -> NDArray[Any]:
        """Turn scores into probabilities: they sum up to 1 for classes, and each is its own for label sets."""
        if self.temperature_ is None:
            return np.clip(scores, 0, 1)
        result = scores * scores.dtype.type(self.temperature_)
        result -= result.max(axis=1, keepdims=True)
        np.exp(result, out=result)
        result /= result.sum(axis=1, keepdims=True)
        if result.dtype == np.float32:
            # Products with numbers near the smallest ones of single precision take many times as long.
            result[result < LEAST_PROBABILITY] = 0
        return result


class LabelRegression:
    """Solves the regression from its sums, and scores training rows as if each had been left out.

    ``kernel`` comes with a provisional center of its features, and gets the true one.
    """

    def __init__(self, sums: RidgeSums, kernel: LandmarkKernel) -> None:
        n = sums.count
        shift = sums.x / n
        kernel.center_, sums = (kernel.center_ + shift).astype(np.float32), sums.recentered(shift)
        self.n_rows, self.mean = n, sums.t / n
        ridge, self.lower = RIDGE * n, None
        while self.lower is None:
            lifted = sums.xx.copy()
            lifted.flat[:: len(lifted) + 1] += ridge
            try:
                self.lower = linalg.cholesky(lifted, lower=True, overwrite_a=True, check_finite=False)
            except linalg.LinAlgError:  # rounding made the sums indefinite
                ridge *= 10
        weights = linalg.cho_solve((self.lower, True), sums.xt, check_finite=False)
        self.weights, self.scores = weights, LabelScores(kernel, weights, self.mean)

    def left_out(self, rows: Float32Array, labels: NDArray[Any], n_jobs: int | None) -> Float32Array:
        """Score rows of the fit that have the label vectors ``labels``, each as if it had not been there."""
        blocks = row_blocks(len(rows), 1024)
        parts = ordered_map(lambda block: self._block(rows[block], labels[block]), blocks, n_jobs)
        return np.concatenate([np.empty((0, len(self.mean)), dtype=np.float32), *parts])

    def _block(self, rows: Float32Array, labels: NDArray[Any]) -> Float32Array:
        kernel = self.scores.kernel_
        features = (kernel.map_block(rows) - kernel.center_).astype(np.float64)
        half = linalg.solve_triangular(self.lower, features.T, lower=True, check_finite=False)
        leverage = np.einsum("ij,ij->j", half, half) + 1 / self.n_rows
        residual = labels - self.mean - features @ self.weights
        residual /= np.maximum(1 - leverage, LEAST_FREEDOM)[:, None]
        return (labels - residual).astype(np.float32)


def best_temperature(left_out: Float32Array, label: NDArray[np.intp]) -> float:
    """Return the temperature that makes the classes of left-out rows most likely."""
    rows = np.arange(len(label))

    def likelihood(temperature: float) -> float:
        logits = temperature * left_out.astype(np.float64)
        logits -= logits.max(axis=1, keepdims=True)
        return float((logits[rows, label] - np.log(np.exp(logits).sum(axis=1))).mean())

    return max(TEMPERATURES, key=likelihood) if len(label) else 1.0
