"""What several methods compute with: rows of unit length, products with S, sweeps over bits, constrained functions."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from hashlearn.functions.linalg import top_eigenvectors
from hashlearn.labels import LabelMatrix, group_rows, label_matrix
from hashlearn.parallel import one_thread
from hashlearn.similarity import LabelSimilarity
from hashlearn.typing import Float32Array, FloatArray, IntArray, Rng


def unit_rows(features: Float32Array) -> Float32Array:
    """Return the rows scaled to unit length; rows of zeros stay as they are."""
    norms = np.sqrt(np.einsum("ij,ij->i", features, features, dtype=np.float64))
    scaled: Float32Array = features / np.where(norms > 0, norms, 1.0).astype(np.float32)[:, None]
    return scaled


def float_signs(values: NDArray[np.floating]) -> NDArray[np.floating]:
    """Return signs in {-1, +1} in the precision of the values, with sgn(0) = +1."""
    return np.where(values >= 0, values.dtype.type(1), values.dtype.type(-1))


def with_mixtures(directions: FloatArray, count: int, rng: Rng) -> FloatArray:
    """Return ``count`` columns: the directions, and random mixtures of them if they are fewer."""
    n_directions = directions.shape[1]
    if count <= n_directions:
        return directions
    return np.hstack([directions, directions @ rng.standard_normal((n_directions, count - n_directions))])


GROUP_BLOCK = 2048


def labeled_rows(labels: LabelMatrix) -> IntArray:
    """Return the rows with at least one label; methods learn only from these."""
    return np.flatnonzero(np.diff(labels.indptr) > 0)


def class_numbers(labels: LabelMatrix, method: str) -> IntArray:
    """Return the class of every row (-1 if unlabeled), for methods that allow one label per row."""
    sizes = np.diff(labels.indptr)
    if sizes.max(initial=0) > 1:
        raise ValueError(f"{method} takes one class per row. Got rows with several labels.")
    numbers = np.full(labels.shape[0], -1, dtype=np.intp)
    numbers[sizes == 1] = labels.indices
    return numbers


class LabelProduct:
    """Products S Z with the pairwise S of label sets, in O(n k + G^2 k) for G groups of rows with equal labels.

    ``similarity`` gives S: +1 or -1 for classes, relevance or alpha for label sets. S of unlabeled rows is 0.
    """

    def __init__(self, similarity: LabelSimilarity) -> None:
        self.similarity = similarity
        self.group = similarity.group
        self.n_groups = similarity.n_groups
        self._known = np.flatnonzero(self.group >= 0)

    @classmethod
    def from_labels(cls, y: Any, **options: Any) -> LabelProduct:
        """Make a product from classes or label sets, with the options of ``hashlearn.similarity.LabelSimilarity``."""
        labels = label_matrix(y)
        group, representatives = group_rows(labels)
        return cls(LabelSimilarity(group, labels[representatives], **options))

    def group_sums(self, Z: NDArray[np.floating]) -> FloatArray:
        """Return the sums of the rows of Z by group (G, k)."""
        return np.asarray(self._indicator @ Z, dtype=np.float64)

    def between_groups(self, sums: FloatArray) -> FloatArray:
        """Return S between groups times ``sums`` (G, k), in blocks; an S that fits in one block is cached."""
        if self.n_groups <= GROUP_BLOCK:
            return self._small_table @ sums
        result = np.empty((self.n_groups, sums.shape[1]))
        all_groups = np.arange(self.n_groups)
        for start in range(0, self.n_groups, GROUP_BLOCK):
            rows = all_groups[start : start + GROUP_BLOCK]
            result[rows] = self.similarity.table(rows, all_groups) @ sums
        return result

    def __matmul__(self, Z: NDArray[np.floating]) -> FloatArray:
        """Return S Z (n, k)."""
        result = np.zeros((len(self.group), Z.shape[1]))
        result[self._known] = self.between_groups(self.group_sums(Z))[self.group[self._known]]
        return result

    def quadratic(self, X: NDArray[np.floating]) -> FloatArray:
        """Return X' S X (k, k), computed from group sums."""
        sums = self.group_sums(X)
        product = sums.T @ self.between_groups(sums)
        return (product + product.T) / 2

    @cached_property
    def _indicator(self) -> sparse.csr_matrix:
        return sparse.csr_matrix(
            (np.ones(len(self._known)), (self.group[self._known], self._known)),
            shape=(self.n_groups, len(self.group)),
        )

    @cached_property
    def _small_table(self) -> FloatArray:
        all_groups = np.arange(self.n_groups)
        return self.similarity.table(all_groups, all_groups)


def keep_sign(values: FloatArray, previous: FloatArray) -> FloatArray:
    """Return signs in {-1, +1}; a zero keeps the previous sign, so that the objective stays monotone."""
    return np.where(values == 0, previous, np.where(values > 0, 1.0, -1.0))


def column_sweep(codes: FloatArray, linear: FloatArray, coupling: FloatArray, max_sweeps: int = 10) -> int:
    """Minimize tr(B C B') - 2 tr(B' Q) over B in {-1, +1}, column by column, in place.

    b_k <- sgn(q_k - B_{-k} C_{-k,k}) for a symmetric ``coupling`` C (m, m) and ``linear`` Q (n, m); the
    diagonal of C does not matter. Returns the number of sweeps; if it is below ``max_sweeps``, the last one changed
    nothing.
    """
    hollow = coupling - np.diag(np.diag(coupling))
    for sweep in range(1, max_sweeps + 1):
        changed = False
        for k in range(codes.shape[1]):
            column = keep_sign(linear[:, k] - codes @ hollow[:, k], codes[:, k])
            changed |= not np.array_equal(column, codes[:, k])
            codes[:, k] = column
        if not changed:
            return sweep
    return max_sweeps


def rank_weights(relevance: FloatArray, sizes: FloatArray) -> FloatArray:
    """Return #{less relevant items} - #{more relevant items} for each query (row) and each kind of item (column).

    ``sizes`` is the number of items of each kind. Weighted by sizes, every row sums to zero.
    """
    weights = np.empty(relevance.shape)
    for row, values in zip(weights, relevance, strict=True):
        levels, level = np.unique(values, return_inverse=True)
        counts = np.bincount(level, weights=sizes, minlength=len(levels))
        upto = np.cumsum(counts)
        below, above = upto - counts, upto[-1] - upto
        row[:] = (below - above)[level]
    return weights


def cluster_centers(
    features: Float32Array, count: int, rng: Rng, n_iter: int = 10, n_samples: int = 50000
) -> Float32Array:
    """Return k-means centers of a sample of the rows, or the distinct rows if there are at most ``count`` of them."""
    # Imported here, because few methods need it and its import is slow.
    from sklearn.cluster import KMeans

    if len(features) > n_samples:
        features = features[rng.choice(len(features), n_samples, replace=False)]
    distinct = np.unique(features, axis=0)
    if len(distinct) <= count:
        return distinct
    means = KMeans(count, n_init=1, max_iter=n_iter, random_state=int(rng.randint(2**31)))
    with one_thread():
        means.fit(features)
    return np.asarray(means.cluster_centers_, dtype=np.float32)


METRIC_RIDGE = 1e-5
"""Share of the mean diagonal of K'K that is added to it: K'K is singular when landmarks repeat."""
WEAKEST = 1e-6
"""Share of the largest eigenvalue below which a direction is a rounding error of the features, which are float32."""
PULL = 0.01
"""Weight of the previous projection, as a share of the largest singular value."""


def orthogonal_procrustes(matrix: FloatArray) -> FloatArray:
    """Return the W with orthonormal columns that maximizes tr(C' W), for a tall or square C."""
    left, _, right = linalg.svd(matrix, full_matrices=False)
    return left @ right


def inverse_root(metric: FloatArray, ridge: float = 0.0) -> FloatArray:
    """Return metric^(-1/2) of a symmetric positive matrix; smaller eigenvalues are raised to rounding level."""
    values, vectors = linalg.eigh((metric + metric.T) / 2)
    floor = max(float(values[-1]), 1e-300) * len(values) * np.finfo(np.float64).eps
    return (vectors / np.sqrt(np.maximum(values + ridge, floor))) @ vectors.T


class FeatureMetric:
    """Projections W of features K subject to W' G W = I with G = K'K, the constraint of KSDH and ADGH.

    A matrix may have fewer directions than there are bits. The directions beyond its rank are then chosen by a rule,
    because a decomposition would return rounding errors for them, which differ between machines.

    Parameters
    ----------
    gram : (d, d)
        K'K.
    """

    def __init__(self, gram: FloatArray) -> None:
        width = len(gram)
        gram = (gram + gram.T) / 2
        self.gram = gram + max(METRIC_RIDGE * float(np.trace(gram)) / width, 1e-12) * np.eye(width)
        self._inverse = inverse_root(self.gram)

    def top_directions(self, matrix: FloatArray, count: int) -> FloatArray:
        """Return the W (d, count) that maximizes tr(W' M W) for a symmetric M.

        Beyond the rank of M they are the directions in which the features vary most, among those that are orthogonal
        to the others in the metric.
        """
        values, vectors = top_eigenvectors(self._inverse @ matrix @ self._inverse, count)
        vectors = vectors[:, values > WEAKEST * max(float(values[0]), 0.0)]
        missing = count - vectors.shape[1]
        if missing:
            rest = self.gram - vectors @ (vectors.T @ self.gram)
            rest -= (rest @ vectors) @ vectors.T
            vectors = np.hstack([vectors, top_eigenvectors(rest, missing)[1]])
        return self._inverse @ vectors

    def procrustes(self, matrix: FloatArray, previous: FloatArray) -> FloatArray:
        """Return a W with a larger tr(C' W) than ``previous``, the largest except for a small pull towards it.

        The pull decides where C has hardly any say. It never lowers tr(C' W), because ``previous`` is a choice, too.
        """
        target, last = self._inverse @ matrix, self._inverse @ (self.gram @ previous)
        return self._inverse @ orthogonal_procrustes(target + PULL * linalg.norm(target, 2) * last)
