"""Rotations that bring real projections close to their signs."""

from __future__ import annotations

import numpy as np
from scipy import linalg

from hashlearn.codes import sign
from hashlearn.typing import FloatArray


def random_rotation(size: int, rng: np.random.RandomState) -> FloatArray:
    """Return a uniformly random orthogonal matrix."""
    q, r = linalg.qr(rng.standard_normal((size, size)))
    return q * np.where(np.diag(r) < 0, -1.0, 1.0)


def itq_rotation(
    projections: FloatArray, rng: np.random.RandomState, n_iter: int = 50
) -> tuple[FloatArray, list[float]]:
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
