"""RSH: directions along which every row ranks the others by relevance."""

from __future__ import annotations

import numbers
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse
from sklearn.utils._param_validation import Interval, StrOptions

from hashlearn.fitting.frames.in_memory import Learned, LinearHasher, linear
from hashlearn.labels import group_rows
from hashlearn.primitives import labelled_rows, rank_weights, steps, top_eigenvectors
from hashlearn.typing import FloatArray

GROUP_BLOCK = 256
STEP = 0.2
MULTIPLIER_EVERY = 20


class RSH(LinearHasher):
    """Ranking-based supervised hashing: max sum of S_qij h(q).(h(x_i) - h(x_j)), S_qij = sgn(r_qi - r_qj).

    Without the signs this is max tr(W' B W) with B = sum_q p_q q' and p_q = sum_ij S_qij (x_i - x_j), where
    every labelled row is a query and relevance r is the number of shared labels. The triplets are never listed:
    p_q = 2 sum_i (#less relevant - #more relevant than i) x_i, the same for all rows with the same labels.

    The objective is known from summaries, the solver is our reconstruction. With one label a row B has rank
    c - 1 at most, so under ``orthogonality="hard"`` all bits past that are noise and precision falls with
    their number. The soft solver keeps W'W near I but leaves the rotation open, so that every bit has a share
    in the few directions that matter. The training codes are hashed.

    Parameters
    ----------
    n_bits : int, default=64
    orthogonality : {"soft", "hard"}, default="soft"
        "hard": top eigenvectors, at most as many bits as features. "soft": an augmented Lagrangian by gradient
        descent, ended after ``n_iter`` steps.
    penalty : float, default=1.0
        rho, the weight of |W'W - I|^2 in the soft solver.
    n_iter : int, default=200
        Steps of the soft solver.
    kernel : {"rbf", "rbf-fixed"} or None, default=None
        None for the centred rows, as in the paper.
    n_landmarks : int, default=1000
        Landmarks of the kernel.
    n_jobs : int or None, default=None
        Threads; None for all cores.
    random_state : int, RandomState instance or None, default=None
    verbose : int, default=0

    Attributes
    ----------
    orthogonality_gap_ : float, |W'W - I| (Frobenius) over the root of the number of bits.

    Examples
    --------
    >>> import numpy as np
    >>> from hashlearn import RSH
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(3, size=100)
    >>> X = rng.normal(size=(100, 20)) + y[:, None]
    >>> RSH(n_bits=16, random_state=0).fit(X, y).encode(X).shape
    (100, 2)
    """

    title: ClassVar[str] = "RSH"
    reference: ClassVar[str] = "Wang et al., Learning Hash Codes with Listwise Supervision (ICCV 2013)"
    year: ClassVar[int] = 2013
    kind: ClassVar[str] = "ranking"
    supervision: ClassVar[str] = "classes, label sets"
    cost: ClassVar[str] = "O(n d + G^2 (d + log G) + T d^2 m), G label sets"
    verified: ClassVar[bool] = False

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **LinearHasher._parameter_constraints,
        "orthogonality": [StrOptions({"soft", "hard"})],
        "penalty": [Interval(numbers.Real, 0, None, closed="neither")],
        "n_iter": [Interval(numbers.Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        n_bits: int = 64,
        *,
        orthogonality: str = "soft",
        penalty: float = 1.0,
        n_iter: int = 200,
        kernel: str | None = None,
        n_landmarks: int = 1000,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_bits = n_bits
        self.orthogonality = orthogonality
        self.penalty = penalty
        self.n_iter = n_iter
        self.kernel = kernel
        self.n_landmarks = n_landmarks
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _learn(self, features: NDArray[np.float32], labels: sparse.csr_matrix, rng: np.random.RandomState) -> Learned:
        width = features.shape[1]
        if self.orthogonality == "hard" and self.n_bits_ > width:
            raise ValueError(
                f"RSH with orthogonality='hard' learns at most one bit a feature: {width} features, "
                f"but n_bits={self.n_bits_}. Use orthogonality='soft'."
            )
        known = labelled_rows(labels)
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
        return Learned(linear(weights), attributes={"orthogonality_gap_": float(gap)})

    def _soft(self, matrix: FloatArray, rng: np.random.RandomState) -> FloatArray:
        """Descent on -tr(W'MW) + tr(L'(W'W - I)) + rho/2 |W'W - I|^2, the multipliers L raised now and then."""
        width, n_bits = len(matrix), self.n_bits_
        start = rng.standard_normal((width, n_bits))
        # More bits than features cannot be orthogonal: then W'W is drawn to a projection, without multipliers.
        weights = linalg.qr(start if width >= n_bits else start.T, mode="economic")[0]
        weights = weights if width >= n_bits else weights.T
        multipliers = np.zeros((n_bits, n_bits))
        identity = np.eye(n_bits)
        for step in steps(self.n_iter, "RSH"):
            violation = weights.T @ weights - identity
            gradient = 2 * (weights @ (multipliers + self.penalty * violation) - matrix @ weights)
            weights = weights - STEP / max(1.0, self.penalty) * gradient
            if (step + 1) % MULTIPLIER_EVERY == 0 and n_bits <= width:
                multipliers += self.penalty * (weights.T @ weights - identity)
        return weights


def ranking_matrix(features: NDArray[np.floating], labels: sparse.csr_matrix) -> FloatArray:
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
