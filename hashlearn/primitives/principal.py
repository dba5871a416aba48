"""Principal directions of fewer rows than features, without the matrix between all features."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from hashlearn.parallel import ordered_map, row_blocks
from hashlearn.primitives.eigen import fix_signs, top_eigenvectors
from hashlearn.typing import FloatArray

EXACT_ROWS = 1024
"""Up to so many rows, the matrix of all inner products is decomposed, which is exact and fast enough."""
EXTRA = 16
DEPTH = 6
WEAKEST = 1e-11
"""Share of the largest eigenvalue below which a direction is a rounding error of single precision."""
TASK_SIZE = 512
"""Rows of a product that one task computes."""


def principal_directions(
    rows: NDArray[np.float32], count: int, n_jobs: int | None = None
) -> tuple[FloatArray, FloatArray]:
    """Return the ``count`` largest eigenvalues of X'X, descending, and their vectors (columns), for n < d rows X.

    For many rows the eigenvectors are sought in a Krylov space of X X' (block Lanczos, six blocks), in O(n d count).
    Directions with well separated eigenvalues are exact to single precision. Where the spectrum is flat, like that of
    noise, they are mixtures with nearly as much variance: 0.99 of the largest possible for normal numbers, where
    scikit-learn's randomized PCA has 0.96.

    Directions in which the rows have no variance are left out. If all rows are zero, the result is one direction of
    zeros.
    """
    if len(rows) <= max(EXACT_ROWS, 2 * DEPTH * (count + EXTRA)):
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


def _from_krylov_space(rows: NDArray[np.float32], count: int, n_jobs: int | None) -> tuple[FloatArray, FloatArray]:
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
