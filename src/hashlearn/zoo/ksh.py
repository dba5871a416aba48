"""KSH: kernel hash functions learned bit by bit so that inner products of codes follow similarity."""

from __future__ import annotations

import numpy as np

from hashlearn.codes import sign
from hashlearn.functions.linalg import top_generalized
from hashlearn.hashers.in_memory import InMemoryHasher, KernelParameters, Learned, linear
from hashlearn.labels import LabelMatrix
from hashlearn.methodinfo import MethodInfo
from hashlearn.parameters import COUNT, NON_NEGATIVE, Interval, fitted, parameter
from hashlearn.progress import steps
from hashlearn.typing import Float32Array, FloatArray, Rng
from hashlearn.zoo.bases.primitives import LabelProduct, labeled_rows

MAX_DOUBLINGS = 50


class KSH(KernelParameters, InMemoryHasher):
    """Supervised hashing with kernels: min |H H' - m S|^2 with H = sgn(K A), one column of A after another.

    Each bit starts from an eigenvector of what the earlier bits leave, R = m S - H H', and is then improved by
    accelerated descent on -u'Ru with u = tanh(K a / 2). The authors' code stores R, l x l numbers; here R is only
    multiplied with vectors, so ``n_samples`` may be all rows. Label sets use the graded S of this library, scaled so
    that its largest entry is m. A projection of 0 is bit 1 (0 in the authors' code). Training codes are hashed.
    """

    info = MethodInfo(
        name="ksh",
        reference="Liu, Wang, Ji, Jiang and Chang, Supervised Hashing with Kernels (CVPR 2012)",
        kind="pairwise",
        cost="O(m (l p^2 + p^3 + T l (p + c + m))), l samples, p landmarks, T steps",
        verified=True,
        remark="authors' sample of 2,000 rows and 300 landmarks; the paper's run is nearer to ksh-large",
        example="max_iter=20",
    )

    n_landmarks: int = 300
    n_samples: int | None = parameter(
        [None, COUNT], "Labeled rows to learn from, drawn at random; None for all.", default=2000
    )
    max_iter: int = parameter(Interval(int, 0), "Descent steps per bit at most.", default=500)
    tol: float = parameter(
        NON_NEGATIVE,
        "Descent ends when a step changes -u'Ru by at most ``tol`` times the rows learned from.",
        default=0.01,
    )

    objective_: FloatArray = fitted("(n_bits + 1,) |R|^2 before and after every bit. A bit may raise it.")

    n_iter_: int = fitted("Descent steps made, the most of any bit.")

    def _learn(self, features: Float32Array, labels: LabelMatrix, rng: Rng) -> Learned:
        rows = labeled_rows(labels)
        if self.n_samples is not None and self.n_samples < len(rows):
            rows = rng.choice(rows, self.n_samples, replace=False)
        K = features[rows].astype(np.float64)
        residual = Residual(LabelProduct.from_labels(labels[rows]), self.n_bits_)
        gram, target = K.T @ K, residual.scale * residual.similarity.quadratic(K)
        weights = np.zeros((K.shape[1], self.n_bits_))
        objective, n_iter = [residual.squared_norm()], 0
        for k in steps(self.n_bits_, "bits"):
            _, top = top_generalized(target, gram, 1)
            length = float(np.linalg.norm(K @ top))
            start = top[:, 0] * (np.sqrt(len(rows)) / length if length > 0 else 0.0)
            end, made = descend(K, residual, start, self.max_iter, self.tol * len(rows))
            n_iter = max(n_iter, made)
            bits, weights[:, k] = max(
                ((sign(K @ a).astype(np.float64), a) for a in (start, end)), key=lambda bit: residual.fit_of(bit[0])
            )
            objective.append(objective[-1] - 2 * residual.fit_of(bits) + len(rows) ** 2)
            residual.subtract(bits)
            target -= np.outer(K.T @ bits, K.T @ bits)
        return Learned(linear(weights), objective_=objective, n_iter_=n_iter)


class Residual:
    """R = scale S - H H' as an operator; H are the bits found so far."""

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


def descend(K: FloatArray, residual: Residual, start: FloatArray, max_iter: int, tol: float) -> tuple[FloatArray, int]:
    """Accelerated gradient descent, and the number of its steps.

    The curvature estimate doubles until it bounds a step, and never shrinks.
    Projections are linear in a and are updated together with it, so that K is read twice per step, however often the
    step is tried.
    """
    previous = current = start
    z_previous = z_current = K @ start
    last, curvature = smooth_loss(residual, z_current)[0], 1.0
    momentum_before, momentum = 0.0, 1.0
    made = 0
    while made < max_iter:
        made += 1
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
    return current, made
