"""Symmetric eigenproblems whose answer does not depend on LAPACK's mood."""

from __future__ import annotations

import numpy as np
from scipy import linalg

from hashlearn.typing import FloatArray


def fix_signs(vectors: FloatArray) -> FloatArray:
    """Each column flipped so that its largest entry is positive: LAPACK leaves the sign open."""
    peaks = vectors[np.abs(vectors).argmax(axis=0), np.arange(vectors.shape[1])]
    return vectors * np.where(peaks < 0, -1.0, 1.0)


def top_eigenvectors(matrix: FloatArray, count: int) -> tuple[FloatArray, FloatArray]:
    """The ``count`` largest eigenvalues, descending, and their vectors, signs fixed."""
    size = len(matrix)
    values, vectors = linalg.eigh((matrix + matrix.T) / 2, subset_by_index=(max(0, size - count), size - 1))
    return values[::-1], fix_signs(vectors[:, ::-1])


def top_generalised(
    matrix: FloatArray, metric: FloatArray, count: int, ridge: float = 1e-8
) -> tuple[FloatArray, FloatArray]:
    """Largest eigenpairs of matrix v = w metric v, with v' metric v = 1 and signs fixed.

    ``ridge`` is a share of the metric's mean diagonal that is added to it, since it may be singular.
    """
    size = len(matrix)
    lifted = (metric + metric.T) / 2 + ridge * max(float(np.trace(metric)) / size, 1e-300) * np.eye(size)
    values, vectors = linalg.eigh((matrix + matrix.T) / 2, lifted, subset_by_index=(max(0, size - count), size - 1))
    return values[::-1], fix_signs(vectors[:, ::-1])
