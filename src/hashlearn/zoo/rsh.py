"""RSH: directions along which every row ranks the others by relevance."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from hashlearn.functions.linalg import top_eigenvectors
from hashlearn.hashers.in_memory import InMemoryHasher, KernelParameters, Learned, linear
from hashlearn.labels import LabelMatrix, group_rows
from hashlearn.methodinfo import MethodInfo
from hashlearn.parameters import COUNT, POSITIVE, Options, fitted, parameter
from hashlearn.progress import steps
from hashlearn.typing import Float32Array, FloatArray, Rng
from hashlearn.zoo.bases.primitives import labeled_rows, rank_weights

GROUP_BLOCK = 256
STEP = 0.2
MULTIPLIER_EVERY = 20


class RSH(KernelParameters, InMemoryHasher):
    """Ranking-based supervised hashing: max sum of S_qij h(q).(h(x_i) - h(x_j)), S_qij = sgn(r_qi - r_qj).

    Without the signs this is max tr(W' B W) with B = sum_q p_q q' and p_q = sum_ij S_qij (x_i - x_j), where
    every labeled row is a query and relevance r is the number of shared labels. The triplets are never listed:
    p_q = 2 sum_i (#less relevant - #more relevant than i) x_i, the same for all rows with the same labels.

    The objective is known from summaries, the solver is our reconstruction. With one label per row B has rank c - 1 at
    most, so with ``orthogonality="hard"`` all further bits are noise and precision falls with their number. The soft
    solver keeps W'W near I but leaves the rotation open, so that every bit has a share in the few directions that
    matter. In the paper features are the centered rows (``kernel=None``). Training codes are hashed.
    """

    info = MethodInfo(
        name="rsh",
        reference="Wang et al., Learning Hash Codes with Listwise Supervision (ICCV 2013)",
        kind="ranking",
        cost="O(n d + G^2 (d + log G) + T d^2 m), G label sets",
        slow=True,
        remark="soft orthogonality; hard gives .19 / .16 at 16 / 64 bits, the paper's row",
    )

    orthogonality: str = parameter(
        Options("soft", "hard"),
        "'hard': top eigenvectors, at most as many bits as features. 'soft': an augmented Lagrangian by "
        "gradient descent, ended after ``n_iter`` steps.",
        default="soft",
    )
    penalty: float = parameter(POSITIVE, "rho, the weight of |W'W - I|^2 in the soft solver.", default=1.0)
    max_iter: int = parameter(COUNT, "Steps of the soft solver.", default=200)
    kernel: str | None = None

    orthogonality_gap_: float = fitted("|W'W - I| (Frobenius norm) divided by the square root of the number of bits.")

    n_iter_: int = fitted("Steps made; 0 with hard orthogonality.")

    def _learn(self, features: Float32Array, labels: LabelMatrix, rng: Rng) -> Learned:
        width = features.shape[1]
        if self.orthogonality == "hard" and self.n_bits_ > width:
            raise ValueError(
                f"RSH with orthogonality='hard' learns at most one bit per feature: {width} features, "
                f"but n_bits={self.n_bits_}. Use orthogonality='soft'."
            )
        known = labeled_rows(labels)
        matrix = ranking_matrix(features[known], labels[known])
        matrix = (matrix + matrix.T) / 2
        scale = linalg.norm(matrix, 2)
        if scale == 0:
            raise ValueError("RSH has nothing to rank: every row is equally relevant to every other.")
        if self.orthogonality == "hard":
            weights = top_eigenvectors(matrix, self.n_bits_)[1]
        else:
            weights = self._soft(matrix / scale, rng)
        gap = linalg.norm(weights.T @ weights - np.eye(self.n_bits_)) / np.sqrt(self.n_bits_)
        n_iter = self.max_iter if self.orthogonality == "soft" else 0
        return Learned(linear(weights), orthogonality_gap_=float(gap), n_iter_=n_iter)

    def _soft(self, matrix: FloatArray, rng: Rng) -> FloatArray:
        """Descent on -tr(W'MW) + tr(L'(W'W - I)) + rho/2 |W'W - I|^2, raising the multipliers L from time to time."""
        width, n_bits = len(matrix), self.n_bits_
        start = rng.standard_normal((width, n_bits))
        # More bits than features cannot be orthogonal; then W'W is pulled towards a projection, without multipliers.
        weights = linalg.qr(start if width >= n_bits else start.T, mode="economic")[0]
        weights = weights if width >= n_bits else weights.T
        multipliers = np.zeros((n_bits, n_bits))
        identity = np.eye(n_bits)
        for step in steps(self.max_iter, "RSH"):
            violation = weights.T @ weights - identity
            gradient = 2 * (weights @ (multipliers + self.penalty * violation) - matrix @ weights)
            weights = weights - STEP / max(1.0, self.penalty) * gradient
            if (step + 1) % MULTIPLIER_EVERY == 0 and n_bits <= width:
                multipliers += self.penalty * (weights.T @ weights - identity)
        return weights


def ranking_matrix(features: NDArray[np.floating], labels: LabelMatrix) -> FloatArray:
    """B = sum_q p_q q' (d, d) over all rows as queries, from sums over rows with equal labels."""
    group, first = group_rows(labels)
    members = sparse.csr_matrix((np.ones(len(group)), (group, np.arange(len(group)))))
    sums = np.asarray(members @ features.astype(np.float64))
    sizes = np.bincount(group).astype(np.float64)
    sets = labels[first]
    result = np.zeros((features.shape[1], features.shape[1]))
    for start in range(0, len(first), GROUP_BLOCK):
        queries = slice(start, start + GROUP_BLOCK)
        shared = (sets[queries] @ sets.T).toarray()
        result += (2 * rank_weights(shared, sizes) @ sums).T @ sums[queries]
    return result
