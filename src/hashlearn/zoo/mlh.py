"""MLH and TRH: stochastic descent on an upper bound of the loss of pairs, or of triplets."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from hashlearn.hashers.in_memory import InMemoryHasher, KernelParameters, Learned, linear
from hashlearn.labels import LabelMatrix
from hashlearn.methodinfo import MethodInfo
from hashlearn.parameters import COUNT, NON_NEGATIVE, POSITIVE, Interval, fitted, parameter
from hashlearn.progress import steps
from hashlearn.typing import Float32Array, FloatArray, IntArray, Rng
from hashlearn.zoo.bases.pairs import sample_pairs, sample_triplets
from hashlearn.zoo.bases.primitives import float_signs, unit_rows

MOMENTUM = np.float32(0.9)
RECALL = 0.3  # of similar pairs within the radius, under random codes


class BoundHasher(InMemoryHasher):
    """Base of methods that draw pairs or triplets in every epoch, and descend on an upper bound of their loss."""

    n_epochs: int = parameter(COUNT, "Epochs, each with newly drawn pairs or triplets.", default=50)
    batch_size: int = parameter(COUNT, "Pairs or triplets per step.", default=100)
    learning_rate: float = parameter(POSITIVE, "Learning rate of the first epoch; it falls linearly to 0.", default=0.1)
    decay: float = parameter(NON_NEGATIVE, "Weight decay.", default=0.0001)

    objective_: FloatArray = fitted("(n_epochs,) The mean bound in each epoch, measured before each step.")

    def _descend(
        self,
        width: int,
        draw: Callable[[], IntArray],
        slope: Callable[[Float32Array, IntArray], tuple[FloatArray, NDArray[np.floating]]],
        rng: Rng,
    ) -> tuple[Float32Array, list[float]]:
        """Return weights and ``objective_``.

        ``draw`` returns a column for each pair or triplet, ``slope`` their bounds and a step against the slope.
        """
        weights = 0.1 * rng.standard_normal((width, self.n_bits_)).astype(np.float32)
        velocity, objective = np.zeros_like(weights), []
        for epoch in steps(self.n_epochs, "epochs"):
            rate = np.float32(self.learning_rate * (1 - epoch / self.n_epochs))
            drawn, total = draw(), 0.0
            for start in range(0, drawn.shape[1], self.batch_size):
                bound, step = slope(weights, drawn[:, start : start + self.batch_size])
                total += float(bound.sum())
                velocity = MOMENTUM * velocity + rate * (step - np.float32(self.decay) * weights)
                weights += velocity
            objective.append(total / drawn.shape[1])
        return weights, objective


class MLH(BoundHasher):
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
    epoch_pairs: int = parameter(COUNT, "Pairs per epoch.", default=100000)

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

        def draw() -> IntArray:
            left, right, shared = sample_pairs(labels, self.epoch_pairs, rng)
            return np.stack([left, right, shared > 0])

        def slope(weights: Float32Array, pairs: IntArray) -> tuple[FloatArray, NDArray[np.floating]]:
            x1, x2 = unit[pairs[0]], unit[pairs[1]]
            u, v = x1 @ weights, x2 @ weights
            g1, g2, bound = adjusted_codes(u, v, tables[pairs[2]])
            return bound, (x1.T @ (float_signs(u) - g1) + x2.T @ (float_signs(v) - g2)) / np.float32(len(x1))

        weights, objective = self._descend(features.shape[1], draw, slope, rng)
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
    g1 = float_signs(np.where(differ, minus, plus))
    g2 = np.where(differ, -g1, g1)
    best = values[np.arange(len(u)), distance] + np.abs(plus).sum(axis=1)
    return g1, g2, best - np.abs(u).sum(axis=1) - np.abs(v).sum(axis=1)


class TRH(KernelParameters, BoundHasher):
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

    n_epochs: int = 20
    epoch_triplets: int = parameter(COUNT, "Triplets per epoch.", default=50000)
    learning_rate: float = 0.5
    kernel: str | None = None

    def _learn(self, features: Float32Array, labels: LabelMatrix, rng: Rng) -> Learned:
        unit = unit_rows(features)

        def draw() -> IntArray:
            return np.stack(sample_triplets(labels, self.epoch_triplets, rng)[:3])

        def slope(weights: Float32Array, triplets: IntArray) -> tuple[FloatArray, NDArray[np.floating]]:
            rows, count = unit[triplets.ravel()], triplets.shape[1]
            projections = (rows @ weights).reshape(3, count, -1)
            augmented, bound = augmented_codes(projections)
            return bound, rows.T @ (float_signs(projections) - augmented).reshape(len(rows), -1) / np.float32(count)

        weights, objective = self._descend(features.shape[1], draw, slope, rng)
        return Learned(linear(weights), objective_=objective)


def augmented_codes(projections: NDArray[np.floating]) -> tuple[NDArray[np.floating], FloatArray]:
    """Return codes (3, t, m) of x, x+, x- that maximize loss + sum of code x projection of t triplets, and the bound.

    Two candidates suffice: the signs of the projections, where the loss may be 0, and the codes that maximize
    (d(g, g+) - d(g, g-) + 1) / m + sum of code x projection, bit by bit.
    """
    query, near, far = projections
    n_bits = projections.shape[2]
    signs = float_signs(projections)
    # A bit of x+ and of x- relative to that of x, and what the four cases add to d(g, g+) - d(g, g-).
    cases = [(1, 1, 0), (-1, -1, 0), (-1, 1, 1), (1, -1, -1)]
    sums = np.stack([query + p * near + n * far for p, n, _ in cases])
    gains = np.abs(sums) + np.array([gain / n_bits for *_, gain in cases], dtype=sums.dtype)[:, None, None]
    best = gains.argmax(axis=0)
    chosen = np.take_along_axis(sums, best[None], axis=0)[0]
    first = float_signs(chosen)
    relative = np.array([(1, p, n) for p, n, _ in cases], dtype=projections.dtype)
    pushed = first * relative[best].transpose(2, 0, 1)
    reached = gains.max(axis=0).sum(axis=1, dtype=np.float64) + 1 / n_bits
    bound = reached - np.abs(projections).sum(axis=(0, 2), dtype=np.float64)
    return np.where((bound > 0)[:, None], pushed, signs), np.maximum(bound, 0)
