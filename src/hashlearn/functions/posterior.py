"""Bits from class posteriors: a classifier says how likely each class is, and the expected code follows from that.

Scores are those of linear discriminant analysis on the features. softmax(temperature * scores) are the posteriors p,
and e = sum of p_c * code_c is the expected code. Ridge and temperature are those that make the classes of rows left out
of the fit most likely. The rank of the scores is limited, so that many classes need neither much memory nor time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from hashlearn.functions.linalg import fix_signs
from hashlearn.functions.linear import HeldOutRows, RidgeSums, least_place
from hashlearn.parallel import one_blas_thread
from hashlearn.typing import Float32Array, FloatArray, IntArray

RIDGES = (1e-3, 1e-2, 1e-1, 1.0)
"""Ridges to choose from, as shares of the mean variance within classes."""
TEMPERATURES = (0.02, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 8.0)
MOST_DIRECTIONS = 256
"""The rank of the scores. Up to 257 classes they are those of the whole discriminant analysis."""
MOST_SCORES = 2**22
"""Scores of rows left out, by which a temperature is chosen."""
SUBSPACE_ROUNDS = 4
MOST_CERTAIN = 1 - 1e-6
"""Expected bits beyond this have no finite log odds in single precision."""


class PosteriorFunction:
    """Log odds 2 artanh(e) of the bits, from the expected code e of a row.

    Attributes
    ----------
    directions_ : float32 (n_features, k)
    means_ : float32 (n_classes, k)
        Means of the classes along the directions, times the temperature.
    biases_ : float32 (n_classes,)
    codes_ : float32 (n_classes, n_bits)
        The codes of the classes in {-1, +1}.
    ridge_, temperature_ : float
    """

    def __init__(self, scores: ClassScores, codes: FloatArray, ridge: float, temperature: float) -> None:
        self.directions_ = scores.directions.astype(np.float32)
        self.means_ = (temperature * scores.means).astype(np.float32)
        self.biases_ = (temperature * scores.biases).astype(np.float32)
        self.codes_ = codes.astype(np.float32)
        self.ridge_, self.temperature_ = ridge, temperature

    def project(self, features: NDArray[Any]) -> NDArray[Any]:
        """Compute log odds from centered features."""
        scores = (features @ self.directions_) @ self.means_.T + self.biases_
        scores -= scores.max(axis=1, keepdims=True, initial=-np.inf)
        posteriors = np.exp(scores, out=scores)
        expected = posteriors @ self.codes_ / posteriors.sum(axis=1, keepdims=True)
        return 2 * np.arctanh(np.clip(expected, -MOST_CERTAIN, MOST_CERTAIN))


@dataclass
class ClassSums:
    """Sums over rows that discriminant analysis needs: of all rows, and of the features by class.

    Features are counted from a provisional center.
    """

    rows: RidgeSums
    by_class: FloatArray
    counts: FloatArray

    def without(self, x: Float32Array, group: IntArray) -> ClassSums:
        """Return the sums without those of some of the rows."""
        by_class, counts = self.by_class.copy(), self.counts.copy()
        np.subtract.at(by_class, group, x)
        np.subtract.at(counts, group, 1.0)
        return ClassSums(
            self.rows - RidgeSums.from_rows(x, np.zeros((len(x), self.rows.xt.shape[1]))), by_class, counts
        )


@dataclass
class ClassScores:
    """Scores of the classes, (x directions) means' + biases; the highest one is the most likely class."""

    directions: FloatArray
    means: FloatArray
    biases: FloatArray

    @classmethod
    def learn(cls, sums: ClassSums, mean: FloatArray, ridge: float) -> ClassScores:
        """Learn scores of features minus ``mean``. A class without rows has the lowest score of all."""
        s = sums.rows.recentered(mean)
        seen = sums.counts > 0
        means = np.zeros_like(sums.by_class)
        means[seen] = sums.by_class[seen] / sums.counts[seen, None] - mean
        average = s.x / s.count
        between = (means - average)[seen] * np.sqrt(sums.counts[seen, None] / s.count)
        within = s.xx / s.count - np.outer(average, average) - between.T @ between
        lower = _damped_cholesky(within, ridge)
        whitened = linalg.solve_triangular(lower, between.T, lower=True, check_finite=False)
        strongest = _leading_columns(whitened, min(MOST_DIRECTIONS, *whitened.shape))
        directions = linalg.solve_triangular(lower, strongest, lower=True, trans="T", check_finite=False)
        projected = means @ directions
        biases = np.where(seen, -0.5 * np.einsum("ij,ij->i", projected, projected), -1e9)
        return cls(directions, projected, biases)


def _damped_cholesky(within: FloatArray, ridge: float) -> FloatArray:
    """Return the Cholesky factor of a covariance plus ``ridge`` of its mean variance on the diagonal.

    Features that are nearly constant leave only rounding, which need not be positive; then more is added.
    """
    width = len(within)
    amount = max(ridge * float(np.trace(within)) / width, np.finfo(np.float64).tiny)
    most = 2.0 * width * max(float(np.abs(within).max()), np.finfo(np.float64).tiny)  # more than any eigenvalue
    while True:
        damped = within.copy()
        damped.flat[:: width + 1] += amount
        try:
            return linalg.cholesky(damped, lower=True, overwrite_a=True, check_finite=False)
        except linalg.LinAlgError:
            if not amount < most:
                raise
            amount = max(10.0 * amount, np.finfo(np.float64).eps * most)


def fit_posterior(sums: ClassSums, codes: FloatArray, held: HeldOutRows, mean: FloatArray) -> PosteriorFunction:
    """Learn the function; ``codes`` (n_classes, n_bits) are the codes of the classes.

    ``sums`` and ``held`` count features from a provisional center, and ``mean`` is their mean, counted from there too.
    """
    losses: dict[int, FloatArray] = {}

    def error(place: int) -> float:
        losses[place] = _losses(parts, held, mean, RIDGES[place])
        return float(losses[place].min())

    with one_blas_thread():
        parts = [(rows, sums.without(held.x[rows], held.group[rows])) for rows in held.folds]
        best = least_place(error, len(RIDGES))
        scores = ClassScores.learn(sums, mean, RIDGES[best])
    return PosteriorFunction(scores, codes, RIDGES[best], TEMPERATURES[int(losses[best].argmin())])


def _losses(parts: list[tuple[IntArray, ClassSums]], held: HeldOutRows, mean: FloatArray, ridge: float) -> FloatArray:
    """Return for every temperature the negative log likelihood of the classes of the rows left out."""
    losses = np.zeros(len(TEMPERATURES))
    for rows, part in parts:
        learned = ClassScores.learn(part, mean, ridge)
        rows = rows[: max(1, MOST_SCORES // len(learned.biases))]
        x = held.x[rows] - mean.astype(np.float32)
        scores = (x @ learned.directions) @ learned.means.T + learned.biases
        scores -= scores.max(axis=1, keepdims=True)
        own = scores[np.arange(len(rows)), held.group[rows]]
        for place, temperature in enumerate(TEMPERATURES):
            likelihood = temperature * own - np.log(np.exp(temperature * scores).sum(axis=1))
            # A row of a class that is not in the fit has no likelihood; it must not decide alone.
            losses[place] -= np.maximum(likelihood, -20.0).sum()
    return losses


def _leading_columns(matrix: FloatArray, count: int) -> FloatArray:
    """Return orthonormal columns that span the ``count`` strongest left singular directions of a matrix."""
    if count >= min(matrix.shape):
        # All of them, from the eigenproblem of the smaller side.
        wide = matrix.shape[1] > matrix.shape[0]
        strength, turned = linalg.eigh(matrix @ matrix.T if wide else matrix.T @ matrix, check_finite=False)
        keep = np.flatnonzero(strength > 1e-9 * max(strength[-1], 1e-300))[::-1]
        turned = fix_signs(turned[:, keep])
        return turned if wide else matrix @ (turned / np.sqrt(strength[keep]))
    basis = np.random.default_rng(0).standard_normal((matrix.shape[1], count))
    for _ in range(SUBSPACE_ROUNDS):
        basis = matrix.T @ linalg.qr(matrix @ basis, mode="economic", check_finite=False)[0]
    return linalg.qr(matrix @ basis, mode="economic", check_finite=False)[0]
