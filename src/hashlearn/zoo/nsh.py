"""NSH: random planes in a space that stretches small distances."""

from __future__ import annotations

import numpy as np
from scipy import linalg

from hashlearn.codes import sign
from hashlearn.hashers.in_memory import InMemoryHasher, Learned
from hashlearn.labels import LabelMatrix
from hashlearn.methodinfo import MethodInfo
from hashlearn.parameters import COUNT, POSITIVE, parameter
from hashlearn.progress import steps
from hashlearn.typing import Float32Array, FloatArray, Rng
from hashlearn.zoo.bases.primitives import cluster_centers


class PivotFunction:
    """Projections f(x) W with f(x) = [exp(-|x - pivot|^2 / eps^2) ..., 1]."""

    weights: FloatArray

    def __init__(self, pivots: Float32Array, eps: float) -> None:
        self.pivots = pivots
        self.eps = eps

    def stretch(self, features: Float32Array) -> FloatArray:
        """f(x) of every row."""
        pivots = self.pivots.astype(np.float64)
        exponent = 2 * (features.astype(np.float64) @ pivots.T) - (pivots**2).sum(axis=1)
        exponent -= np.einsum("ij,ij->i", features, features, dtype=np.float64)[:, None]
        stretched = np.ones((len(features), len(pivots) + 1))
        np.exp(np.minimum(exponent, 0) / self.eps**2, out=stretched[:, :-1])
        return stretched

    def project(self, features: Float32Array) -> Float32Array:
        return (self.stretch(features) @ self.weights).astype(np.float32)


class NSH(InMemoryHasher):
    """Neighbor-sensitive hashing: random planes over f(x) = [exp(-|x - pivot|^2 / eps^2) ..., 1].

    Near rows differ more in f than their distance says, so more bits distinguish neighbors. Each bit's plane is random
    but for two conditions, met by projecting out directions: its projections sum to zero over the training rows, and
    they are uncorrelated with the bits before it. When all directions are used up (few different rows), the second
    condition starts again. Labels are not used and the training codes are hashed.
    """

    info = MethodInfo(
        name="nsh",
        reference="Park et al., Neighbor-Sensitive Hashing (PVLDB 2015)",
        kind="random, data-dependent",
        supervision=(),
        cost="O(n m d + n m^2)",
        verified=True,
        slow=True,
        remark="unsupervised",
        components=(PivotFunction,),
    )

    pivots_per_bit: int = parameter(
        COUNT, "Pivots are this many times ``n_bits``, found by k-means; all rows if there are fewer.", default=4
    )
    width: float = parameter(
        POSITIVE, "eps as a multiple of the mean distance from a pivot to the nearest other one.", default=1.9
    )

    def _learn(self, features: Float32Array, labels: LabelMatrix | None, rng: Rng) -> Learned:
        pivots = cluster_centers(features, self.pivots_per_bit * self.n_bits_, rng)
        function = PivotFunction(pivots, self.width * pivot_spacing(pivots))
        F = function.stretch(features)
        total = F.sum(axis=0)
        forbidden = (total / linalg.norm(total))[:, None]
        weights = np.zeros((F.shape[1], self.n_bits_))
        for k in steps(self.n_bits_, "NSH"):
            plane = without(rng.standard_normal(len(weights)), forbidden)
            if plane is None:
                forbidden = forbidden[:, :1]
                plane = without(rng.standard_normal(len(weights)), forbidden)
            if plane is None:  # no direction at all: a single pivot and its constant
                break
            weights[:, k] = plane
            used = without(F.T @ sign(F @ plane).astype(np.float64), forbidden)
            if used is not None:
                forbidden = np.column_stack([forbidden, used])
        function.weights = weights
        return Learned(function)


def pivot_spacing(pivots: Float32Array) -> float:
    """Mean distance from a pivot to the nearest other one."""
    if len(pivots) < 2:
        return 1.0
    points = pivots.astype(np.float64)
    lengths = (points**2).sum(axis=1)
    squared = lengths[:, None] + lengths - 2 * (points @ points.T)
    np.fill_diagonal(squared, np.inf)
    return float(np.sqrt(np.maximum(squared.min(axis=1), 0)).mean()) or 1.0


def without(vector: FloatArray, basis: FloatArray) -> FloatArray | None:
    """Return the unit vector left of ``vector`` outside an orthonormal basis; None if only rounding errors are."""
    length = linalg.norm(vector)
    for _ in range(2):  # twice, because one projection leaves rounding errors
        vector = vector - basis @ (basis.T @ vector)
    left = linalg.norm(vector)
    return vector / left if left > 1e-10 * length else None
