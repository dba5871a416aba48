"""Symmetric eigenproblems with fixed signs of the eigenvectors, which LAPACK leaves undefined."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from hashlearn.codes import sign
from hashlearn.parallel import ordered_map, row_blocks
from hashlearn.typing import Float32Array, FloatArray, Rng


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


def random_rotation(size: int, rng: Rng) -> FloatArray:
    """Return a uniformly random orthogonal matrix."""
    q, r = linalg.qr(rng.standard_normal((size, size)))
    return q * np.where(np.diag(r) < 0, -1.0, 1.0)


def itq_rotation(projections: FloatArray, rng: Rng, n_iter: int = 50) -> tuple[FloatArray, list[float]]:
    """Return an orthogonal R that lowers |sgn(VR) - VR|^2 in every step, and that loss before every step."""
    rotation = random_rotation(projections.shape[1], rng)
    losses: list[float] = []
    for _ in range(n_iter):
        rotated = projections @ rotation
        signs = sign(rotated).astype(projections.dtype)
        losses.append(float(((signs - rotated) ** 2).sum()))
        left, _, right = linalg.svd(signs.T @ projections)
        rotation = (left @ right).T
    return rotation, losses


EXACT_ROWS = 1024
"""Up to this number of rows, the matrix of all inner products is decomposed, which is exact and fast enough."""
EXTRA = 16
DEPTH = 6
WEAKEST = 1e-11
"""Share of the largest eigenvalue below which a direction is a rounding error of single precision."""
TASK_SIZE = 512
"""Rows of a product that one task computes."""


def principal_directions(rows: Float32Array, count: int, n_jobs: int | None = None) -> tuple[FloatArray, FloatArray]:
    """Return the ``count`` largest eigenvalues of X'X, descending, and their vectors (columns), for rows X (n, d).

    If n >= d, X'X is decomposed. If n < d and n is large, the eigenvectors are sought in a Krylov space of X X' (block
    Lanczos, six blocks), in O(n d count). Directions with well separated eigenvalues are then exact to single
    precision. Where the spectrum is flat, like that of noise, they are mixtures with nearly as much variance: 0.99 of
    the largest possible for normal numbers, where scikit-learn's randomized PCA has 0.96.

    Directions in which the rows have no variance are left out. If all rows are zero, the result is one direction of
    zeros.
    """
    if len(rows) >= rows.shape[1]:
        exact = rows.astype(np.float64)
        values, vectors = top_eigenvectors(_product(exact.T, exact, n_jobs), min(count, rows.shape[1]))
    elif len(rows) <= max(EXACT_ROWS, 2 * DEPTH * (count + EXTRA)):
        values, vectors = _from_all_products(rows.astype(np.float64), min(count, len(rows)), n_jobs)
    else:
        values, vectors = _from_krylov_space(rows, count, n_jobs)
    extends = values > WEAKEST * values[0]
    if not extends.any():
        return np.zeros(1), np.zeros((rows.shape[1], 1))
    # Weak directions are only nearly orthogonal to strong ones, so they are made orthogonal.
    return values[extends], fix_signs(linalg.qr(vectors[:, extends], mode="economic")[0])


def _from_all_products(rows: FloatArray, count: int, n_jobs: int | None) -> tuple[FloatArray, FloatArray]:
    """Use all inner products: if X X' u = w u, then X'u is an eigenvector of X'X of length sqrt(w)."""
    values, left = top_eigenvectors(_product(rows, rows.T, n_jobs), count)
    return values, rows.T @ left


def _from_krylov_space(rows: Float32Array, count: int, n_jobs: int | None) -> tuple[FloatArray, FloatArray]:
    """Find eigenvectors of X'X in the span of X'Q, for an orthonormal basis Q of a random block and its images by X X'.

    Products with the rows are in single precision like the rows; the basis is in double precision.
    """
    n_rows, width = rows.shape
    block = count + EXTRA
    basis = np.empty((n_rows, DEPTH * block))
    images = np.empty((width, DEPTH * block))
    latest = np.random.default_rng(0).standard_normal((n_rows, block))
    for k in range(DEPTH):
        before, own = basis[:, : k * block], slice(k * block, (k + 1) * block)
        # Twice, because after the first time what is left of a direction may be mostly rounding error.
        for _ in range(2):
            latest = linalg.qr(latest - before @ (before.T @ latest), mode="economic")[0]
        basis[:, own] = latest
        image = _product(rows.T, latest.astype(np.float32), n_jobs)
        images[:, own] = image
        if k + 1 < DEPTH:
            latest = _product(rows, image, n_jobs).astype(np.float64)
    values, mixture = top_eigenvectors(images.T @ images, count)
    return values, images @ mixture


def _product(left: NDArray[Any], right: NDArray[Any], n_jobs: int | None) -> NDArray[Any]:
    """Return left @ right, computed in parts by threads; their number does not change the result."""
    parts = ordered_map(lambda part: left[part] @ right, row_blocks(len(left), TASK_SIZE), n_jobs)
    return np.concatenate(list(parts))
