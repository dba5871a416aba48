"""DGH: codes smooth on the anchor graph, kept discrete while they are learned."""

from __future__ import annotations

import numbers
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse
from sklearn.utils._param_validation import Interval, StrOptions

from hashlearn.codes import sign
from hashlearn.fitting.frames.in_memory import Learned, LinearHasher
from hashlearn.hashers.agh import AnchorGraph, AnchorGraphFunction, graph_eigenvectors
from hashlearn.primitives import keep_sign, orthogonal_procrustes, random_rotation, steps
from hashlearn.typing import FloatArray

ROTATION_STEPS = 100
INNER_STEPS = 300
TOLERANCE = 1e-4


class DGH(LinearHasher):
    """Discrete graph hashing: max tr(B'AB) + rho tr(B'Y) over B in {-1, +1}, Y'1 = 0, Y'Y = n I.

    A = Z L^-1 Z' is the anchor graph of AGH. Y is the nearest matrix of balanced, uncorrelated columns, so rho
    says how much those two matter. B <- sgn(2AB + rho Y) is repeated until it is stable (A is positive, so the
    objective cannot fall), then Y follows from the singular vectors of the centred B.

    Written from notes on a reimplementation. Where the centred B loses rank, Y is completed by random columns
    orthogonal to the others and to 1, which a plain decomposition would not give. ``codes_`` are the learned B;
    new rows get sgn(z(x) L^-1 Z'B). The labels are not used. Needs more rows than bits.

    Parameters
    ----------
    n_bits : int, default=64
    rho : float, default=0.1
        Weight of balance and decorrelation, 0.1 to 5 in the paper.
    start : {"rotation", "eigenvectors"}, default="rotation"
        First B: signs of the graph's eigenvectors, weighted and rotated towards their signs (DGH-R) or plain (DGH-I).
    n_anchors : int, default=300
        Anchors, found by k-means; all rows when there are fewer.
    n_nearest : int, default=2
        Anchors that a row is tied to.
    n_iter : int, default=20
        Rounds of the alternation; it ends earlier when the objective rises by less than 1e-4 of itself.
    n_jobs : int or None, default=None
        Threads; None for all cores.
    random_state : int, RandomState instance or None, default=None
    verbose : int, default=0

    Attributes
    ----------
    objective_ : ndarray, the objective at the start and after every step of B and of Y; never falls.

    Examples
    --------
    >>> import numpy as np
    >>> from hashlearn import DGH
    >>> X = np.random.default_rng(0).normal(size=(100, 20))
    >>> DGH(n_bits=16, n_anchors=30, random_state=0).fit(X).encode(X).shape
    (100, 2)
    """

    title: ClassVar[str] = "DGH"
    reference: ClassVar[str] = "Liu et al., Discrete Graph Hashing (NIPS 2014)"
    year: ClassVar[int] = 2014
    kind: ClassVar[str] = "graph, discrete"
    supervision: ClassVar[str] = "none"
    cost: ClassVar[str] = "O(n p d + p^3 + T n m^2)"
    verified: ClassVar[bool] = False

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **LinearHasher._parameter_constraints,
        "rho": [Interval(numbers.Real, 0, None, closed="neither")],
        "start": [StrOptions({"rotation", "eigenvectors"})],
        "n_anchors": [Interval(numbers.Integral, 1, None, closed="left")],
        "n_nearest": [Interval(numbers.Integral, 1, None, closed="left")],
        "n_iter": [Interval(numbers.Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        n_bits: int = 64,
        *,
        rho: float = 0.1,
        start: str = "rotation",
        n_anchors: int = 300,
        n_nearest: int = 2,
        n_iter: int = 20,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_bits = n_bits
        self.rho = rho
        self.start = start
        self.n_anchors = n_anchors
        self.n_nearest = n_nearest
        self.n_iter = n_iter
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _learn(
        self, features: NDArray[np.float32], labels: sparse.csr_matrix | None, rng: np.random.RandomState
    ) -> Learned:
        if self.n_bits_ >= len(features):
            raise ValueError(f"DGH needs more rows than bits. Got {len(features)} rows and n_bits={self.n_bits_}.")
        graph = AnchorGraph.build(features, self.n_anchors, self.n_nearest, rng)
        Z = graph.weights(features)
        degree = np.asarray(Z.sum(axis=0)).ravel()
        inverse = np.divide(1.0, degree, out=np.zeros(len(degree)), where=degree > 0)[:, None]

        def smooth(B: FloatArray) -> FloatArray:
            return Z @ (inverse * (Z.T @ B))

        def objective(B: FloatArray, Y: FloatArray) -> float:
            return float((B * (smooth(B) + self.rho * Y)).sum())

        B, Y = self._start(Z, rng)
        trace = [objective(B, Y)]
        for _ in steps(self.n_iter, "DGH"):
            before = trace[-1]
            for _ in range(INNER_STEPS):
                new = keep_sign(2 * smooth(B) + self.rho * Y, B)
                if np.array_equal(new, B):
                    break
                B = new
                trace.append(objective(B, Y))
            Y = balanced(B, rng)
            trace.append(objective(B, Y))
            if trace[-1] - before <= TOLERANCE * abs(before):
                break
        function = AnchorGraphFunction(graph, inverse * (Z.T @ B))
        return Learned(function, B, {"objective_": np.asarray(trace)})

    def _start(self, Z: sparse.csr_matrix, rng: np.random.RandomState) -> tuple[FloatArray, FloatArray]:
        """B and Y from the graph's first eigenvectors but the constant one."""
        values, weights = graph_eigenvectors(Z, self.n_bits_, rng, largest=np.inf)
        H = completed((Z @ weights)[:, : len(values)] / np.sqrt(Z.shape[0]), self.n_bits_, rng)
        if self.start == "eigenvectors":
            return sign(H).astype(np.float64), np.sqrt(len(H)) * H
        weighted = H * np.pad(values, (0, self.n_bits_ - len(values)))
        R = random_rotation(self.n_bits_, rng)
        B = sign(weighted @ R).astype(np.float64)
        for _ in range(ROTATION_STEPS):
            R = orthogonal_procrustes(weighted.T @ B)
            new = keep_sign(weighted @ R, B)
            if np.array_equal(new, B):
                break
            B = new
        return B, np.sqrt(len(H)) * (H @ R)


def balanced(B: FloatArray, rng: np.random.RandomState) -> FloatArray:
    """argmax tr(B'Y) subject to Y'1 = 0 and Y'Y = n I."""
    left, values, right = linalg.svd(B - B.mean(axis=0), full_matrices=False)
    rank = int((values > 1e-8 * np.sqrt(B.size)).sum())
    return np.sqrt(len(B)) * (completed(left[:, :rank], B.shape[1], rng) @ right)


def completed(basis: FloatArray, count: int, rng: np.random.RandomState) -> FloatArray:
    """``count`` orthonormal columns orthogonal to 1, the given ones first."""
    n_rows, given = basis.shape
    if given == count:
        return basis
    fresh = rng.standard_normal((n_rows, count - given))
    fixed = np.column_stack([np.full(n_rows, 1 / np.sqrt(n_rows)), basis])
    for _ in range(2):  # twice, because one projection leaves rounding errors
        fresh = linalg.qr(fresh - fixed @ (fixed.T @ fresh), mode="economic")[0]
    return np.hstack([basis, fresh])
