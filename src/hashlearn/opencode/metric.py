"""A metric taught by labels: a direction counts for more, the less rows of equal labels vary in it.

With the covariance T of all rows, the covariance W of rows whose labels are equal and the share s of the variance that
labels explain, the generalized eigenvectors of (s T, W) with eigenvalues psi are scaled by sqrt(psi / (2 psi + 1)).
With s T as the covariance between labels and Gaussian rows, inner products of rows scaled so are the log likelihood
ratio of "same label" against "any label", up to terms of single rows. Because T comes from all rows, the metric also
serves rows whose labels no row of the fit has.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from hashlearn.functions.linalg import fix_signs, top_eigenvectors
from hashlearn.kernel import dense_rows
from hashlearn.opencode.labels import LabelScores
from hashlearn.rows.reduce import AdditiveSums
from hashlearn.typing import Float32Array, FloatArray, Matrix

SHRINKAGE = 0.6
"""Share of the covariance within labels that is replaced by its mean variance in all directions."""
AXES = 128
"""Principal axes of the rows in the metric that are kept."""
LEAST_SCALE = 1e-4
"""Directions whose scale is below this share of the largest one are dropped: they hold nothing but rounding."""


@dataclass
class LabelSums(AdditiveSums):
    """Sums over labeled rows x and their label vectors y (zeros and ones), both counted from any fixed center.

    ``yy`` is empty if every row has one label; ``y`` then says all.
    """

    count: int
    x: FloatArray
    xx: FloatArray
    xy: FloatArray
    y: FloatArray
    yy: FloatArray

    @classmethod
    def from_rows(cls, rows: NDArray[Any], labels: sparse.csr_matrix, single: bool) -> Self:
        """Sum over rows in memory, all of which have labels; ``single`` says that all rows of the fit have one."""
        wide = np.asarray(rows, dtype=np.float64)
        return cls(
            len(wide),
            wide.sum(axis=0),
            wide.T @ wide,
            np.asarray(labels.T @ wide).T,
            np.asarray(labels.sum(axis=0), dtype=np.float64).ravel(),
            np.zeros((0, 0)) if single else (labels.T @ labels).toarray().astype(np.float64),
        )

    def scatter(self) -> tuple[FloatArray, FloatArray, int]:
        """Return the scatter of x, the part of it that linear regression on y explains, and the rank of y."""
        mean = self.x / self.count
        total = self.xx - self.count * np.outer(mean, mean)
        xy = self.xy - np.outer(mean, self.y)
        if not self.yy.size:
            seen = self.y > 0
            halves = xy[:, seen] / np.sqrt(self.y[seen])
            return total, halves @ halves.T, int(seen.sum()) - 1
        values, vectors = linalg.eigh(self.yy - np.outer(self.y, self.y) / self.count)
        seen = values > 1e-9 * max(float(values[-1]), 1e-300)
        halves = xy @ vectors[:, seen] / np.sqrt(values[seen])
        return total, halves @ halves.T, int(seen.sum())


class LabelMetric:
    """Maps rows to unit vectors whose inner products say how alike rows are.

    A row is made unit length, centered, scaled along the directions of the metric, made unit length again and given in
    at most ``AXES`` principal axes of such rows.

    Attributes
    ----------
    mean_ : float32 (n_features,)
        Mean of the unit rows.
    scales_ : float32 (n_features, k)
        The directions of the metric, each times its scale; None without labels, when all directions count alike.
    axes_ : float32 (k, n_axes)
        Principal axes, the strongest first.
    explained_ : float
        Share of the variance that labels explain; 0 without labels.
    """

    def __init__(self, mean: FloatArray, covariance: FloatArray, labeled: LabelSums | None) -> None:
        """Learn the scales from moments of all (unit) rows and sums over labeled ones. ``set_axes`` must follow."""
        self.mean_ = mean.astype(np.float32)
        self.scales_: Float32Array | None = None
        self.axes_: Float32Array | None = None
        self.explained_ = 0.0
        if labeled is None or labeled.count < 2:
            return
        total, between, rank = labeled.scatter()
        within = (total - between) / max(labeled.count - rank - 1, 1)
        rest, variance = float(np.trace(within)), float(np.trace(total)) / labeled.count
        # Without variance within labels (one row each, say) there is nothing to compare with.
        if rest > 1e-6 * variance > 0:
            self.explained_ = max(0.0, 1 - rest / variance)
        if self.explained_ == 0:
            return
        size = len(within)
        within = (1 - SHRINKAGE) * within + SHRINKAGE * rest / size * np.eye(size)
        # The share is of the variance of all rows, so that unlabeled rows do not change the scale of psi.
        share = self.explained_ * variance / float(np.trace(covariance))
        psi, vectors = linalg.eigh(share * covariance, within)
        psi = np.maximum(psi, 0)
        scale = np.sqrt(psi / (2 * psi + 1))
        kept = np.flatnonzero(scale > LEAST_SCALE * scale[-1])[::-1]
        self.scales_ = (fix_signs(vectors[:, kept]) * scale[kept]).astype(np.float32)

    def moments(self, rows: Float32Array) -> FloatArray:
        """Return the sum of z z' over a block of unit rows, before the axes are chosen."""
        scaled = self._scaled(rows)
        return (scaled.T @ scaled).astype(np.float64)

    def set_axes(self, moments: FloatArray) -> None:
        """Choose the principal axes from the sum of ``moments`` over the rows."""
        self.axes_ = top_eigenvectors(moments, min(AXES, len(moments)))[1].astype(np.float32)

    def map_block(self, X: Matrix, dtype: Any = np.float32) -> NDArray[Any]:
        """Return the vectors z (n, n_axes) of a block of rows."""
        return self.map_unit(unit_rows(X, dtype))

    def map_unit(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Return the vectors z of rows that have unit length already."""
        assert self.axes_ is not None
        return self._scaled(rows) @ self.axes_.astype(rows.dtype, copy=False)

    def _scaled(self, rows: NDArray[Any]) -> NDArray[Any]:
        rows = rows - self.mean_
        if self.scales_ is not None:
            rows = rows @ self.scales_.astype(rows.dtype, copy=False)
        return unit_rows(rows, rows.dtype)


class LearnedMetric:
    """Maps rows of a new embedding model to the content vectors that rows like them have stored.

    Attributes
    ----------
    map_ : LabelScores
        The regression; its "labels" are the axes of the content vectors.
    """

    def __init__(self, map_: LabelScores) -> None:
        self.map_ = map_

    def map_block(self, X: Matrix, dtype: Any = np.float32) -> NDArray[Any]:
        """Return the vectors z (n, n_axes) of a block of rows."""
        return unit_rows(self.map_.scores(X, dtype), dtype)


def unit_rows(X: Matrix, dtype: Any = np.float32) -> NDArray[Any]:
    """Return rows as a dense array, scaled to unit length; rows of zeros stay zeros."""
    rows = dense_rows(X, dtype)
    norms = np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))
    norms[norms == 0] = 1.0
    return rows / norms[:, None].astype(rows.dtype)
