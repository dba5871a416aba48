"""Orthogonal matrices closest to a given one, plain and in a metric."""

from __future__ import annotations

import numpy as np
from scipy import linalg

from hashlearn.typing import FloatArray


def orthogonal_procrustes(matrix: FloatArray) -> FloatArray:
    """Return the W with orthonormal columns that maximizes tr(C' W), for a tall or square C."""
    left, _, right = linalg.svd(matrix, full_matrices=False)
    return left @ right


def inverse_root(metric: FloatArray, ridge: float = 0.0) -> FloatArray:
    """Return metric^(-1/2) of a symmetric positive matrix; smaller eigenvalues are raised to rounding level."""
    values, vectors = linalg.eigh((metric + metric.T) / 2)
    floor = max(float(values[-1]), 1e-300) * len(values) * np.finfo(np.float64).eps
    return (vectors / np.sqrt(np.maximum(values + ridge, floor))) @ vectors.T


def metric_procrustes(root: FloatArray, matrix: FloatArray, count: int) -> FloatArray:
    """Return the W that maximizes tr(C' W) subject to W' G W = count I, given ``root`` = G^(-1/2).

    Directions beyond the rank of C are arbitrary but satisfy the constraint.
    """
    return np.sqrt(count) * (root @ orthogonal_procrustes(root @ matrix))
