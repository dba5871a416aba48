"""MLH: stochastic descent on an upper bound of a hinge-like loss, with exact loss-adjusted inference."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hashlearn.hashers.in_memory import InMemoryHasher, Learned, linear
from hashlearn.labels import LabelMatrix
from hashlearn.methodinfo import MethodInfo
from hashlearn.parameters import COUNT, NON_NEGATIVE, POSITIVE, Interval, fitted, parameter
from hashlearn.progress import steps
from hashlearn.typing import Float32Array, FloatArray, Rng
from hashlearn.zoo.bases.pairs import sample_pairs
from hashlearn.zoo.bases.primitives import unit_rows

RECALL = 0.3  # of similar pairs within the radius, under random codes


class MLH(InMemoryHasher):
    """Minimal loss hashing: linear bits sgn(W x) that bring similar pairs within a Hamming radius and others out.

    At distance h of m bits a similar pair costs max(h - radius + 1, 0) / (m - radius + 1), a dissimilar one
    max(radius - h + 1, 0) / (radius + 1). Descent is on the bound max over codes g1, g2 of [loss(g1, g2) + g1.W x1 +
    g2.W x2] - |W x1|_1 - |W x2|_1, whose maximum has a closed form (a sort of the bits).

    Rows are centered and scaled to unit length for learning, which makes no difference to a hash function without bias.
    A row is never paired with itself, and half of the pairs are similar. The authors' code makes 500 epochs (the paper
    2000), ten times the default here, and improves the radius on held-out data, which this does not. ``codes_`` are
    hashed, as in the authors' evaluation.
    """

    info = MethodInfo(
        name="mlh",
        reference="Norouzi and Fleet, Minimal Loss Hashing for Compact Binary Codes (ICML 2011)",
        kind="pairwise, stochastic",
        cost="O(pairs m (d + log m))",
        verified=True,
        slow=True,
        remark="50 epochs, balanced pairs, unit-length rows",
        example="epoch_pairs=500",
    )

    radius: int | None = parameter(
        [None, Interval(int, 0)],
        "At most n_bits. None for the smallest radius that holds 30 % of the similar pairs under random projections.",
        default=None,
    )
    n_epochs: int = parameter(COUNT, "Epochs, each with newly drawn pairs.", default=50)
    epoch_pairs: int = parameter(COUNT, "Pairs per epoch.", default=100000)
    batch_size: int = parameter(COUNT, "Pairs per step.", default=100)
    learning_rate: float = parameter(POSITIVE, "Learning rate of the first epoch; it falls linearly to 0.", default=0.1)
    decay: float = parameter(NON_NEGATIVE, "Weight decay.", default=0.0001)

    objective_: FloatArray = fitted(
        "(n_epochs,) The mean bound over the pairs of each epoch, measured before each step."
    )
    radius_: int = fitted("The radius that was used.")

    def _learn(self, features: Float32Array, labels: LabelMatrix, rng: Rng) -> Learned:
        bits = self.n_bits_
        unit = unit_rows(features)
        radius = self.radius
        if radius is None:
            radius = random_radius(unit, labels, bits, rng)
        elif radius > bits:
            raise ValueError(f"The 'radius' parameter of MLH must be at most n_bits={bits}. Got {radius} instead.")
        tables = loss_tables(bits, radius)
        weights = 0.1 * rng.standard_normal((features.shape[1], bits)).astype(np.float32)
        velocity, objective = np.zeros_like(weights), []
        for epoch in steps(self.n_epochs, "epochs"):
            rate = np.float32(self.learning_rate * (1 - epoch / self.n_epochs))
            left, right, shared = sample_pairs(labels, self.epoch_pairs, rng)
            total = 0.0
            for start in range(0, len(left), self.batch_size):
                batch = slice(start, start + self.batch_size)
                x1, x2 = unit[left[batch]], unit[right[batch]]
                u, v = x1 @ weights, x2 @ weights
                g1, g2, bound = adjusted_codes(u, v, tables[(shared[batch] > 0).astype(np.intp)])
                total += float(bound.sum())
                step = (x1.T @ (_signs(u) - g1) + x2.T @ (_signs(v) - g2)) / np.float32(len(x1))
                velocity = np.float32(0.9) * velocity + rate * (step - np.float32(self.decay) * weights)
                weights += velocity
            objective.append(total / len(left))
        return Learned(linear(weights), objective_=objective, radius_=int(radius))


def loss_tables(bits: int, radius: int) -> FloatArray:
    """Loss (2, bits + 1) at every distance, of dissimilar pairs (row 0) and similar ones (row 1)."""
    h = np.arange(bits + 1)
    dissimilar = np.maximum(radius - h + 1, 0) / (radius + 1)
    similar = np.maximum(h - radius + 1, 0) / (bits - radius + 1)
    return np.stack([dissimilar, similar])


def random_radius(rows: Float32Array, labels: LabelMatrix, bits: int, rng: Rng) -> int:
    """Return the smallest radius within which random projections put 30 % of the similar pairs."""
    left, right, shared = sample_pairs(labels, 10_000, rng)
    signs = rows @ rng.standard_normal((rows.shape[1], bits)).astype(np.float32) >= 0
    near = shared > 0
    if not near.any():
        return bits // 2
    distance = np.sort((signs[left[near]] != signs[right[near]]).sum(axis=1))
    return int(distance[int(np.ceil(RECALL * len(distance))) - 1])


def adjusted_codes(
    u: NDArray[np.floating], v: NDArray[np.floating], losses: FloatArray
) -> tuple[NDArray[np.floating], NDArray[np.floating], FloatArray]:
    """Return codes g1, g2 that maximize loss(distance) + g1.u + g2.v for each pair, and the bound.

    A bit that disagrees gains |u - v| - |u + v| over one that agrees, so for any distance j the bits with the j
    largest gains disagree. ``losses`` (pairs, m + 1) holds each pair's loss at every distance.
    """
    plus, minus = u + v, u - v
    gain = np.abs(minus) - np.abs(plus)
    order = np.argsort(-gain, axis=1, kind="stable")
    sums = np.cumsum(np.take_along_axis(gain, order, axis=1), axis=1, dtype=np.float64)
    values = losses.copy()
    values[:, 1:] += sums
    distance = values.argmax(axis=1)
    differ = np.empty(u.shape, dtype=bool)
    np.put_along_axis(differ, order, np.arange(u.shape[1]) < distance[:, None], axis=1)
    g1 = _signs(np.where(differ, minus, plus))
    g2 = np.where(differ, -g1, g1)
    best = values[np.arange(len(u)), distance] + np.abs(plus).sum(axis=1)
    return g1, g2, best - np.abs(u).sum(axis=1) - np.abs(v).sum(axis=1)


def _signs(values: NDArray[np.floating]) -> NDArray[np.floating]:
    return np.where(values >= 0, values.dtype.type(1), values.dtype.type(-1))
