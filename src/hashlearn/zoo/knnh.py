"""KNNH: each row becomes the mean of its nearest neighbors before principal components and ITQ."""

from __future__ import annotations

import numpy as np

from hashlearn.functions.linalg import itq_rotation, principal_directions
from hashlearn.hashers.in_memory import InMemoryHasher, Learned, linear
from hashlearn.labels import LabelMatrix
from hashlearn.methodinfo import MethodInfo
from hashlearn.parameters import COUNT, Interval, fitted, parameter
from hashlearn.progress import report
from hashlearn.typing import Float32Array, FloatArray, Rng

BLOCK = 512
SAME_DISTANCE = 1e-6
"""Difference of two squared distances that counts as none, as a share of the longest row's squared length."""


class KNNH(InMemoryHasher):
    """K-nearest-neighbors hashing: ITQ on rows that are replaced by the mean of their nearest neighbors.

    That shrinks clusters, so that fewer of the planes learned from them cut through one. Hashing itself is linear, as
    in ITQ: new rows are not shrunk. A row counts among its own neighbors.

    We know the method from notes (``verified`` is False). Neighbors are searched among ``n_samples`` rows at most, in
    O(n_samples^2 d), a block at a time. Labels are not used and training codes are hashed.
    """

    info = MethodInfo(
        name="knnh",
        reference="He, Wang and Cheng, K-Nearest Neighbors Hashing (CVPR 2019)",
        kind="quantization",
        supervision=(),
        cost="O(s^2 d + s d min(s, d) + s m^2) for s sampled rows",
        remark="unsupervised; from notes",
    )

    n_neighbors: int = parameter(COUNT, "Neighbors of a row, itself included; all rows if there are fewer.", default=20)
    n_samples: int = parameter(Interval(int, 2), "Rows to learn from at most, drawn at random.", default=10000)
    max_iter: int = parameter(COUNT, "Rounds of ITQ.", default=50)

    losses_: FloatArray = fitted("(max_iter,) The quantization loss after every round of ITQ; it never rises.")
    n_iter_: int = fitted("Rounds made.")

    def _learn(self, features: Float32Array, labels: LabelMatrix | None, rng: Rng) -> Learned:
        if len(features) > self.n_samples:
            features = features[np.sort(rng.choice(len(features), self.n_samples, replace=False))]
        shrunk = neighbor_means(features, self.n_neighbors)
        center = shrunk.mean(axis=0, dtype=np.float64)
        shrunk -= center.astype(np.float32)
        components = principal_directions(shrunk, self.n_bits_, self.n_jobs)[1]
        components = np.pad(components, ((0, 0), (0, self.n_bits_ - components.shape[1])))
        rotation, losses = itq_rotation(shrunk @ components, rng, self.max_iter)
        weights = components @ rotation
        return Learned(linear(weights, -center @ weights), losses_=losses, n_iter_=len(losses))


def neighbor_means(rows: Float32Array, count: int) -> Float32Array:
    """Return the mean of the ``count`` rows nearest to each row, itself included.

    Of rows at the same distance the first ones are taken. Distances are rounded for that, because the matrix products
    of two machines differ in their last digits.
    """
    count = min(count, len(rows))
    exact = rows.astype(np.float64)
    lengths = np.einsum("ij,ij->i", exact, exact) / 2
    grain = max(float(lengths.max()), np.finfo(np.float64).tiny) * SAME_DISTANCE
    means = np.empty_like(rows)
    for start in range(0, len(rows), BLOCK):
        block = slice(start, start + BLOCK)
        # Half the squared distance, up to a constant per row.
        distance = np.rint((lengths - exact[block] @ exact.T) / grain)
        limits = np.partition(distance, count - 1, axis=1)[:, count - 1]
        for row, (own, limit) in enumerate(zip(distance, limits, strict=True), start):
            nearer, same = np.flatnonzero(own < limit), np.flatnonzero(own == limit)
            nearest = np.concatenate([nearer, same[: count - len(nearer)]])
            means[row] = exact[np.sort(nearest)].mean(axis=0)
        report("neighbors", min(start + BLOCK, len(rows)), len(rows))
    return means
