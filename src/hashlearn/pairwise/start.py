"""The starting directions of learning. The signs of the projections onto them are the first codes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from hashlearn.functions.linalg import fix_signs, itq_rotation, random_rotation
from hashlearn.pairwise.supervision import AnchorProblem, sums_by_kind
from hashlearn.parallel import one_blas_thread
from hashlearn.typing import Float32Array, FloatArray, IntArray, Rng

FILLS = ("random", "principal")
STARTS = ("discriminant", "leading")
RANK_TOLERANCE = 1e-9
DISCRIMINANT_TOLERANCE = 1e-6
MOST_DISCRIMINANT_ROWS = 2048
"""Discriminant directions come from at most this number of rows, all rows of as many classes as fit."""
MOST_DISCRIMINANTS = 256
WITHIN_RIDGE = 0.1
"""Added to the variances within classes, as a share of their mean. Rows are fewer than features, so it is large."""
ROTATION_ROUNDS = 50


def discriminant_directions(features: NDArray[np.floating], group: IntArray, n_bits: int, rng: Rng) -> Float32Array:
    """Compute directions (n_features, n_bits) whose signs tell classes apart: codes that the features can predict.

    Linear discriminant analysis gives directions along which classes differ most, measured by the spread within
    classes. A rotation turns them towards the signs of the projections (ITQ), and spreads them over all bits if the
    classes have fewer directions than bits.

    Parameters
    ----------
    features : (n, n_features), centered.
    group : int (n,)
        The class of each row.
    """
    with one_blas_thread():
        if len(features) > MOST_DISCRIMINANT_ROWS:
            shuffled = rng.permutation(int(group.max()) + 1)[group]
            chosen = np.argsort(shuffled, kind="stable")[:MOST_DISCRIMINANT_ROWS]
            features, group = features[chosen], group[chosen]
        _, group = np.unique(group, return_inverse=True)
        count = np.bincount(group).astype(features.dtype)
        members = sparse.csr_matrix((np.ones(len(group), features.dtype), (group, np.arange(len(group)))))
        means = (members @ features) / count[:, None]
        directions = _discriminants(features - means[group], means * np.sqrt(count / len(features))[:, None])
        projections = (features @ directions).astype(np.float64)
        return (directions @ _towards_signs(projections, n_bits, rng)).astype(np.float32)


def _discriminants(within: NDArray[np.floating], between: NDArray[np.floating]) -> NDArray[np.floating]:
    """Return directions A with A' S_w A = I and A' S_b A diagonal, the strongest first.

    S_w = within' within / n + ridge I is the spread within classes, S_b = between' between that of their means. The
    system is solved on its smaller side, rows or features.
    """
    n, width = within.shape
    ridge = WITHIN_RIDGE * float(np.einsum("ij,ij->", within, within)) / n / width or 1.0
    if width <= n:
        spread = within.T @ within / n
        spread.flat[:: width + 1] += ridge
        solved = linalg.solve(spread, between.T, assume_a="pos", check_finite=False)
    else:
        gram = within @ within.T
        gram.flat[:: n + 1] += n * ridge
        outside = linalg.solve(gram, within @ between.T, assume_a="pos", check_finite=False)
        solved = (between.T - within.T @ outside) / ridge
    last = len(between) - 1
    strongest = (max(0, last + 1 - MOST_DISCRIMINANTS), last)
    strength, turned = linalg.eigh((between @ solved).astype(np.float64), check_finite=False, subset_by_index=strongest)
    keep = np.flatnonzero(strength > DISCRIMINANT_TOLERANCE * max(strength[-1], 1e-300))[::-1]
    return solved @ (fix_signs(turned[:, keep]) / np.sqrt(strength[keep]))


def _towards_signs(projections: FloatArray, n_bits: int, rng: Rng) -> FloatArray:
    """Return a matrix (k, n_bits) that turns projections (n, k) to their signs, with orthonormal rows or columns."""
    k = projections.shape[1]
    if k <= n_bits:
        return itq_rotation(np.pad(projections, ((0, 0), (0, n_bits - k))), rng, ROTATION_ROUNDS)[0][:k]
    rotation = random_rotation(k, rng)[:, :n_bits]
    for _ in range(ROTATION_ROUNDS):
        signs = np.where(projections @ rotation >= 0, 1.0, -1.0)
        left, _, right = linalg.svd(projections.T @ signs, full_matrices=False)
        rotation = left @ right
    return rotation


def leading_directions(features: FloatArray, problem: AnchorProblem, n_bits: int, fill: str, rng: Rng) -> FloatArray:
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


def _fill(features: FloatArray, taken: FloatArray, count: int, fill: str, rng: Rng) -> FloatArray:
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
