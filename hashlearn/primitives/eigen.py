"""Symmetric eigenproblems with fixed signs of the eigenvectors, which LAPACK leaves undefined."""

from __future__ import annotations

import numpy as np
from scipy import linalg

from hashlearn.typing import FloatArray


def fix_signs(vectors: FloatArray) -> FloatArray:
    """Flip the sign of each column so that its largest entry in magnitude is positive."""
    peaks = vectors[np.abs(vectors).argmax(axis=0), np.arange(vectors.shape[1])]
    return vectors * np.where(peaks < 0, -1.0, 1.0)


def top_eigenvectors(matrix: FloatArray, count: int) -> tuple[FloatArray, FloatArray]:
    """Return the ``count`` largest eigenvalues, descending, and their vectors with fixed signs."""
    size = len(matrix)
    values, vectors = linalg.eigh((matrix + matrix.T) / 2, subset_by_index=(max(0, size - count), size - 1))
    return values[::-1], fix_signs(vectors[:, ::-1])


def top_generalized(
    matrix: FloatArray, metric: FloatArray, count: int, ridge: float = 1e-8
) -> tuple[FloatArray, FloatArray]:
    """Return the largest eigenpairs of matrix v = w metric v, with v' metric v = 1 and fixed signs.

    The metric may be singular, so ``ridge`` times the mean of its diagonal is added to the diagonal.
    """
    size = len(matrix)
    lifted = (metric + metric.T) / 2 + ridge * max(float(np.trace(metric)) / size, 1e-300) * np.eye(size)
    values, vectors = linalg.eigh((matrix + matrix.T) / 2, lifted, subset_by_index=(max(0, size - count), size - 1))
    return values[::-1], fix_signs(vectors[:, ::-1])
