"""TRH (Hamming distance metric learning): the stochastic descent of MLH, on triplets."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hashlearn.hashers.in_memory import InMemoryHasher, KernelParameters, Learned, linear
from hashlearn.labels import LabelMatrix
from hashlearn.methodinfo import MethodInfo
from hashlearn.parameters import COUNT, NON_NEGATIVE, POSITIVE, fitted, parameter
from hashlearn.progress import steps
from hashlearn.typing import Float32Array, FloatArray, Rng
from hashlearn.zoo.bases.pairs import sample_triplets
from hashlearn.zoo.bases.primitives import unit_rows

MOMENTUM = np.float32(0.9)


class TRH(KernelParameters, InMemoryHasher):
    """Triplet ranking hashing: linear bits sgn(W x) with min [d(h, h+) - d(h, h-) + 1]_+ / m over triplets (x, x+, x-).

    Descent is on the bound max over codes g, g+, g- of [d(g, g+) - d(g, g-) + 1]_+ / m + g.Wx + g+.Wx+ + g-.Wx-, less
    |Wx|_1 + |Wx+|_1 + |Wx-|_1; the division by the m bits keeps it tight for long codes. The paper finds the maximum by
    dynamic programming, for any loss of both distances. This loss is the larger of 0 and a sum over the bits, so each
    bit can be maximized alone.

    x+ shares more labels with x than x- does. Rows have unit length for learning, as in MLH of the same authors. We
    know the method from notes (``verified`` is False); the paper also learns from neighbors in feature space, which
    this does not. Training codes are hashed.
    """

    info = MethodInfo(
        name="trh",
        reference="Norouzi, Fleet and Salakhutdinov, Hamming Distance Metric Learning (NIPS 2012)",
        kind="ranking, stochastic",
        cost="O(triplets m d)",
        slow=True,
        remark="from notes; 20 epochs, unit-length rows",
        example="epoch_triplets=500",
    )

    n_epochs: int = parameter(COUNT, "Epochs, each with newly drawn triplets.", default=20)
    epoch_triplets: int = parameter(COUNT, "Triplets per epoch.", default=50000)
    batch_size: int = parameter(COUNT, "Triplets per step.", default=100)
    learning_rate: float = parameter(POSITIVE, "Learning rate of the first epoch; it falls linearly to 0.", default=0.5)
    decay: float = parameter(NON_NEGATIVE, "Weight decay.", default=0.0001)
    kernel: str | None = None

    objective_: FloatArray = fitted(
        "(n_epochs,) The mean bound over the triplets of each epoch, measured before each step."
    )

    def _learn(self, features: Float32Array, labels: LabelMatrix, rng: Rng) -> Learned:
        unit = unit_rows(features)
        weights = 0.1 * rng.standard_normal((features.shape[1], self.n_bits_)).astype(np.float32)
        velocity, objective = np.zeros_like(weights), []
        for epoch in steps(self.n_epochs, "epochs"):
            rate = np.float32(self.learning_rate * (1 - epoch / self.n_epochs))
            triplets = np.stack(sample_triplets(labels, self.epoch_triplets, rng)[:3])
            total = 0.0
            for start in range(0, triplets.shape[1], self.batch_size):
                rows = unit[triplets[:, start : start + self.batch_size].ravel()]
                n_triplets = len(rows) // 3
                projections = (rows @ weights).reshape(3, n_triplets, -1)
                augmented, bound = augmented_codes(projections)
                total += float(bound.sum())
                signs = np.where(projections >= 0, np.float32(1), np.float32(-1))
                step = rows.T @ (signs - augmented).reshape(len(rows), -1) / np.float32(n_triplets)
                velocity = MOMENTUM * velocity + rate * (step - np.float32(self.decay) * weights)
                weights += velocity
            objective.append(total / triplets.shape[1])
        return Learned(linear(weights), objective_=objective)


def augmented_codes(projections: NDArray[np.floating]) -> tuple[NDArray[np.floating], FloatArray]:
    """Return codes (3, t, m) of x, x+, x- that maximize loss + sum of code x projection for each of t triplets.

    And the bound.

    Two candidates suffice: the signs of the projections, where the loss may be 0, and the codes that maximize
    (d(g, g+) - d(g, g-) + 1) / m + sum of code x projection, bit by bit.
    """
    query, near, far = projections
    n_bits = projections.shape[2]
    signs = np.where(projections >= 0, projections.dtype.type(1), projections.dtype.type(-1))
    # A bit of x+ and of x- relative to that of x, and what the four cases add to d(g, g+) - d(g, g-).
    cases = [(1, 1, 0), (-1, -1, 0), (-1, 1, 1), (1, -1, -1)]
    sums = np.stack([query + p * near + n * far for p, n, _ in cases])
    gains = np.abs(sums) + np.array([gain / n_bits for *_, gain in cases], dtype=sums.dtype)[:, None, None]
    best = gains.argmax(axis=0)
    chosen = np.take_along_axis(sums, best[None], axis=0)[0]
    first = np.where(chosen >= 0, projections.dtype.type(1), projections.dtype.type(-1))
    relative = np.array([(1, p, n) for p, n, _ in cases], dtype=projections.dtype)
    pushed = first * relative[best].transpose(2, 0, 1)
    reached = gains.max(axis=0).sum(axis=1, dtype=np.float64) + 1 / n_bits
    bound = reached - np.abs(projections).sum(axis=(0, 2), dtype=np.float64)
    return np.where((bound > 0)[:, None], pushed, signs), np.maximum(bound, 0)
