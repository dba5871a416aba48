"""What labels add to a code: scores of labels, their probabilities, and how well a query fits any known label.

Scores are kernel ridge regression on label vectors (zeros and ones). Everything is learned from sums over the labeled
rows: K'K and K'Y, for kernel features K and label vectors Y. The hat matrix of a sample of these rows gives their
left-out scores, those of a fit without the row, in closed form.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
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
NEIGHBORS = 16
MOST_ROWS = 8192
"""Training rows among which neighbors are looked for."""


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
        self.weights = linalg.cho_solve((self.lower, True), sums.xt, check_finite=False)
        self.scores = LabelScores(kernel, self.weights, self.mean)

    def left_out(self, rows: Float32Array, labels: NDArray[Any], n_jobs: int | None) -> Float32Array:
        """Score rows of the fit that have the label vectors ``labels``, each as if it had not been there."""
        kernel = self.scores.kernel_

        def scored(block: slice) -> Float32Array:
            features = (kernel.map_block(rows[block]) - kernel.center_).astype(np.float64)
            half = linalg.solve_triangular(self.lower, features.T, lower=True, check_finite=False)
            leverage = np.einsum("ij,ij->j", half, half) + 1 / self.n_rows
            residual = labels[block] - self.mean - features @ self.weights
            residual /= np.maximum(1 - leverage, LEAST_FREEDOM)[:, None]
            return (labels[block] - residual).astype(np.float32)

        parts = ordered_map(scored, row_blocks(len(rows), 1024), n_jobs)
        return np.concatenate([np.empty((0, len(self.mean)), dtype=np.float32), *parts])


def best_temperature(left_out: Float32Array, label: NDArray[np.intp]) -> float:
    """Return the temperature that makes the classes of left-out rows most likely."""
    rows = np.arange(len(label))

    def likelihood(temperature: float) -> float:
        logits = temperature * left_out.astype(np.float64)
        logits -= logits.max(axis=1, keepdims=True)
        return float((logits[rows, label] - np.log(np.exp(logits).sum(axis=1))).mean())

    return max(TEMPERATURES, key=likelihood) if len(label) else 1.0


@dataclass
class Familiarity:
    """How well a query fits any known label, from 0 to 1: what decides how much labels count in its search.

    Two things tell. The best label score of the query is compared with the best left-out scores of labeled rows: a
    rank, which adapts to labels that are hard to predict. And of the training rows most alike to the query, many have a
    label if the query has a known one, and few if its label was never given. The second needs unlabeled rows in the
    training; without them the rank alone decides. So it does where neighbors separate labeled rows from others by less
    than they take from labeled rows.

    Attributes
    ----------
    best_ : float32 (n,)
        The best left-out score of each labeled row of a sample, ascending.
    vectors_ : float32 (n, n_axes)
        Content vectors of a sample of training rows; none if the rank alone decides.
    labeled_ : bool (n,)
        Which of these rows have a label.
    usual_ : float
        Mean share of labeled rows among the neighbors of a labeled row.
    separation_ : float
        How much more labeled rows have of that share than unlabeled ones, from 0 to 1; 0 if the rank alone decides.
    """

    best_: Float32Array
    vectors_: Float32Array
    labeled_: NDArray[np.bool_]
    usual_: float = 1.0
    separation_: float = 0.0

    @classmethod
    def learn(
        cls, best: Float32Array, vectors: Float32Array, labeled: NDArray[np.bool_], n_jobs: int | None
    ) -> Familiarity:
        """Learn from the best left-out scores of labeled rows, and from vectors of training rows."""
        by_rank = cls(np.sort(best), vectors[:0], labeled[:0])
        vectors, labeled = vectors[:MOST_ROWS], labeled[:MOST_ROWS]
        if labeled.all() or len(labeled) <= NEIGHBORS:
            return by_rank
        result = replace(by_rank, vectors_=vectors, labeled_=labeled)

        def own_shares(block: slice) -> NDArray[np.float64]:
            alike = vectors[block] @ vectors.T
            alike[np.arange(len(alike)), np.arange(len(vectors))[block]] = -np.inf
            return result._shares(alike)

        shares = np.concatenate(list(ordered_map(own_shares, row_blocks(len(labeled), 512), n_jobs)))
        usual = max(float(shares[labeled].mean()), 1 / NEIGHBORS)
        known = np.minimum(1, shares / usual)
        kept, wrong = known[labeled].mean(), known[~labeled].mean()
        if kept - wrong <= 1 - kept:
            # Rows of known labels would lose more than is gained: few rows have labels, and neighbors rarely do.
            return replace(by_rank, usual_=usual)
        return replace(result, usual_=usual, separation_=float(kept - wrong))

    def measure(self, scores: NDArray[Any], vectors: NDArray[Any], trust: float) -> NDArray[Any]:
        """Return the familiarity of rows with these label scores and content vectors.

        ``trust`` 0 is the estimate described above, and 1 takes the best label score itself.
        """
        best = scores.max(axis=1)
        # The more the neighbors tell, the less the rank has to.
        rank = (np.searchsorted(self.best_, best) / max(len(self.best_), 1)) ** (1 - self.separation_ / 2)
        if len(self.labeled_):
            alike = vectors @ self.vectors_.T.astype(vectors.dtype, copy=False)
            rank *= np.minimum(1, self._shares(alike) / self.usual_)
        return ((1 - trust) * rank + trust * np.clip(best, 0, 1)).astype(scores.dtype)

    def _shares(self, alike: NDArray[Any]) -> NDArray[np.float64]:
        """Return the share of labeled rows among the neighbors of rows with these inner products."""
        nearest = np.argpartition(-alike, NEIGHBORS - 1, axis=1)[:, :NEIGHBORS]
        return self.labeled_[nearest].mean(axis=1)
