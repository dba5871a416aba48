"""KSH: kernel hash functions learned bit by bit so that inner products of codes follow similarity."""

from __future__ import annotations

import numbers
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils._param_validation import Interval

from hashlearn.codes import sign
from hashlearn.fitting.frames.in_memory import Learned, LinearHasher, linear
from hashlearn.primitives import LabelProduct, labelled_rows, steps, top_generalised
from hashlearn.typing import FloatArray

MAX_DOUBLINGS = 50


class KSH(LinearHasher):
    """Supervised hashing with kernels: min |H H' - m S|^2 with H = sgn(K A), one column of A after another.

    Each bit starts from an eigenvector of what the earlier bits leave over, R = m S - H H', and is then improved by
    accelerated descent on -u'Ru with u = tanh(K a / 2). The authors' code writes R down, l x l numbers; here R is
    only ever multiplied with, so ``n_samples`` may be all rows. Label sets use the graded S of this library, scaled
    so that its largest entry is m. A projection of 0 is bit 1 (0 in the authors' code).

    Database protocol: hashed. ``codes_`` are those of ``encode``; no other codes are learned.

    Parameters
    ----------
    n_bits : int, default=64
    kernel : {"rbf", "rbf-fixed"} or None, default="rbf"
    n_landmarks : int, default=300
        Rows that span the kernel.
    n_samples : int or None, default=2000
        Labelled rows to learn from, drawn at random; None for all.
    max_steps : int, default=500
        Descent steps a bit at most.
    tol : float, default=0.01
        Descent ends when a step changes -u'Ru by at most ``tol`` times the rows learned from.
    n_jobs : int or None, default=None
        Threads; None for all cores.
    random_state : int, RandomState instance or None, default=None
    verbose : int, default=0

    Attributes
    ----------
    objective_ : ndarray (n_bits + 1,), |R|^2 before and after every bit. A bit may raise it.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from hashlearn import KSH
    >>> X, y = load_digits(return_X_y=True)
    >>> KSH(n_bits=16, n_landmarks=50, n_samples=200, max_steps=20, random_state=0).fit(X, y).encode(X).shape
    (1797, 2)
    """

    title: ClassVar[str] = "KSH"
    reference: ClassVar[str] = "Liu, Wang, Ji, Jiang and Chang, Supervised Hashing with Kernels (CVPR 2012)"
    year: ClassVar[int] = 2012
    kind: ClassVar[str] = "pairwise"
    supervision: ClassVar[str] = "classes, label sets"
    cost: ClassVar[str] = "O(m (l p^2 + p^3 + T l (p + c + m))), l samples, p landmarks, T steps"
    verified: ClassVar[bool] = True

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **LinearHasher._parameter_constraints,
        "n_samples": [None, Interval(numbers.Integral, 1, None, closed="left")],
        "max_steps": [Interval(numbers.Integral, 0, None, closed="left")],
        "tol": [Interval(numbers.Real, 0, None, closed="left")],
    }

    def __init__(
        self,
        n_bits: int = 64,
        *,
        kernel: str | None = "rbf",
        n_landmarks: int = 300,
        n_samples: int | None = 2000,
        max_steps: int = 500,
        tol: float = 0.01,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_bits = n_bits
        self.kernel = kernel
        self.n_landmarks = n_landmarks
        self.n_samples = n_samples
        self.max_steps = max_steps
        self.tol = tol
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _learn(
        self, features: NDArray[np.float32], labels: sparse.csr_matrix | None, rng: np.random.RandomState
    ) -> Learned:
        assert labels is not None
        rows = labelled_rows(labels)
        if self.n_samples is not None and self.n_samples < len(rows):
            rows = rng.choice(rows, self.n_samples, replace=False)
        K = features[rows].astype(np.float64)
        residual = Residual(LabelProduct.of(labels[rows]), self.n_bits_)
        gram, target = K.T @ K, residual.scale * residual.similarity.quadratic(K)
        weights = np.zeros((K.shape[1], self.n_bits_))
        objective = [residual.squared_norm()]
        for k in steps(self.n_bits_, "bits"):
            _, top = top_generalised(target, gram, 1)
            length = float(np.linalg.norm(K @ top))
            start = top[:, 0] * (np.sqrt(len(rows)) / length if length > 0 else 0.0)
            end = descend(K, residual, start, self.max_steps, self.tol * len(rows))
            bits, weights[:, k] = max(
                ((sign(K @ a).astype(np.float64), a) for a in (start, end)), key=lambda bit: residual.fit_of(bit[0])
            )
            objective.append(objective[-1] - 2 * residual.fit_of(bits) + len(rows) ** 2)
            residual.subtract(bits)
            target -= np.outer(K.T @ bits, K.T @ bits)
        return Learned(linear(weights), attributes={"objective_": np.asarray(objective)})


class Residual:
    """R = scale S - H H' as something to multiply with; H are the bits found so far."""

    def __init__(self, similarity: LabelProduct, n_bits: int) -> None:
        self.similarity = similarity
        self.scale = n_bits / similarity.similarity.largest
        self.bits = np.empty((len(similarity.group), 0))

    def __matmul__(self, u: FloatArray) -> FloatArray:
        return self.scale * (self.similarity @ u[:, None])[:, 0] - self.bits @ (self.bits.T @ u)

    def fit_of(self, bits: FloatArray) -> float:
        """b'Rb: how much of R the bit explains."""
        return float(bits @ (self @ bits))

    def subtract(self, bits: FloatArray) -> None:
        self.bits = np.column_stack([self.bits, bits])

    def squared_norm(self) -> float:
        """|scale S|^2 over all pairs, group by group."""
        sizes, total = np.bincount(self.similarity.group).astype(np.float64), 0.0
        for g in range(len(sizes)):
            table = self.similarity.similarity.table(np.array([g]), np.arange(len(sizes)))[0]
            total += sizes[g] * float(table**2 @ sizes)
        return self.scale**2 * total


def smooth_loss(residual: Residual, projections: FloatArray) -> tuple[float, FloatArray]:
    """-u'Ru with u = tanh(z / 2), and its gradient by the projections z = K a."""
    u = np.tanh(projections / 2)
    product = residual @ u
    return -float(u @ product), -product * (1 - u**2)


def descend(K: FloatArray, residual: Residual, start: FloatArray, max_steps: int, tol: float) -> FloatArray:
    """Accelerated gradient descent; the curvature estimate doubles until it bounds a step and never shrinks.

    Projections are linear in a, so they are moved along with it: K is read twice a step, however often it is tried.
    """
    previous = current = start
    z_previous = z_current = K @ start
    last, curvature = smooth_loss(residual, z_current)[0], 1.0
    momentum_before, momentum = 0.0, 1.0
    for _ in range(max_steps):
        push = (momentum_before - 1) / momentum
        probe = current + push * (current - previous)
        z_probe = z_current + push * (z_current - z_previous)
        value, by_projection = smooth_loss(residual, z_probe)
        gradient = K.T @ by_projection
        z_gradient, steepness = K @ gradient, float(gradient @ gradient)
        for _ in range(MAX_DOUBLINGS):
            reached = smooth_loss(residual, z_probe - z_gradient / curvature)[0]
            if reached <= value - steepness / (2 * curvature):
                break
            curvature *= 2
        previous, current = current, probe - gradient / curvature
        z_previous, z_current = z_current, z_probe - z_gradient / curvature
        momentum_before, momentum = momentum, (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        if abs(reached - last) <= tol:
            break
        last = reached
    return current
