"""The starting directions of learning. The signs of the projections onto them are the first codes."""

from __future__ import annotations

import numpy as np
from scipy import linalg

from hashlearn.parallel import one_blas_thread
from hashlearn.primitives.eigen import fix_signs
from hashlearn.solvers.problem import AnchorProblem, sums_by_kind
from hashlearn.typing import FloatArray

FILLS = ("random", "principal")
RANK_TOLERANCE = 1e-9


def leading_directions(
    features: FloatArray, problem: AnchorProblem, n_bits: int, fill: str, rng: np.random.RandomState
) -> FloatArray:
    """Compute the ``n_bits`` leading singular vectors of X_A' S X_A as columns (n_features, n_bits).

    The rank of the matrix is at most the number of kinds, so its vectors are computed from the factors (a thin QR
    and a small eigenproblem). Beyond the rank they would be numerical noise. ``fill`` says which directions are used
    there instead: random orthonormal ones, or the principal directions of the residual of the features. With more
    bits than features, the remaining directions are random and not orthogonal.
    """
    with one_blas_thread():
        sums = sums_by_kind(problem.row_kind, features, problem.table.shape[0])
        columns = problem.column_sums(features)
        basis, _ = linalg.qr(np.concatenate([sums, columns]).T, mode="economic")
        middle = (sums @ basis).T @ (problem.table @ (columns @ basis))
        left, strength, _ = linalg.svd(middle)
        keep = min(n_bits, int(np.count_nonzero(strength > RANK_TOLERANCE * max(strength[0], 1e-300))))
        leading = fix_signs(basis @ left[:, :keep])
        if keep == n_bits:
            return leading
        return np.concatenate([leading, _fill(features, leading, n_bits - keep, fill, rng)], axis=1)


def _fill(features: FloatArray, taken: FloatArray, count: int, fill: str, rng: np.random.RandomState) -> FloatArray:
    width = features.shape[1]
    free = min(count, width - taken.shape[1])
    extra = np.empty((width, 0))
    if fill == "principal" and free > 0:
        remaining = features - (features @ taken) @ taken.T
        _, strength, vectors = linalg.svd(remaining, full_matrices=False)
        usable = min(free, int(np.count_nonzero(strength > RANK_TOLERANCE * max(strength[0], 1e-300))))
        extra = fix_signs(vectors[:usable].T)
    drawn = rng.standard_normal((width, count - extra.shape[1]))
    orthogonal = free - extra.shape[1]
    if orthogonal > 0:
        fixed = np.concatenate([taken, extra], axis=1)
        drawn[:, :orthogonal] -= fixed @ (fixed.T @ drawn[:, :orthogonal])
        drawn[:, :orthogonal], _ = linalg.qr(drawn[:, :orthogonal], mode="economic")
    return np.concatenate([extra, drawn], axis=1)
