"""DGH: codes smooth on the anchor graph, kept discrete while they are learned."""

from __future__ import annotations

import numpy as np
from scipy import linalg, sparse

from hashlearn.codes import sign
from hashlearn.functions.linalg import random_rotation
from hashlearn.hashers.in_memory import InMemoryHasher, Learned
from hashlearn.labels import LabelMatrix
from hashlearn.methodinfo import MethodInfo
from hashlearn.parameters import COUNT, POSITIVE, Options, fitted, parameter
from hashlearn.progress import steps
from hashlearn.typing import Float32Array, FloatArray, Rng
from hashlearn.zoo.agh import AnchorGraph, AnchorGraphFunction, graph_eigenvectors
from hashlearn.zoo.bases.primitives import keep_sign, orthogonal_procrustes

ROTATION_STEPS = 100
INNER_STEPS = 300
TOLERANCE = 1e-4


class DGH(InMemoryHasher):
    """Discrete graph hashing: max tr(B'AB) + rho tr(B'Y) over B in {-1, +1}, Y'1 = 0, Y'Y = n I.

    A = Z L^-1 Z' is the anchor graph of AGH. Y is the nearest matrix with balanced, uncorrelated columns, so rho is the
    weight of these two properties. B <- sgn(2AB + rho Y) is repeated until it is stable (A is positive, so the
    objective cannot fall), then Y follows from the singular vectors of the centered B.

    This follows notes on a reimplementation. If the centered B loses rank, Y is completed by random columns orthogonal
    to the others and to 1, which a plain decomposition would not give. ``codes_`` are the learned B; new rows get
    sgn(z(x) L^-1 Z'B). Labels are not used. There must be more rows than bits.
    """

    info = MethodInfo(
        name="dgh",
        reference="Liu et al., Discrete Graph Hashing (NIPS 2014)",
        kind="graph, discrete",
        supervision=(),
        cost="O(n p d + p^3 + T n m^2)",
        database="learned",
        slow=True,
        remark="unsupervised",
        example="n_anchors=30",
    )

    rho: float = parameter(POSITIVE, "Weight of balance and decorrelation, 0.1 to 5 in the paper.", default=0.1)
    start: str = parameter(
        Options("rotation", "eigenvectors"),
        "First B: signs of the graph's eigenvectors, weighted and rotated towards their signs (DGH-R), or "
        "plain (DGH-I).",
        default="rotation",
    )
    n_anchors: int = parameter(COUNT, "Anchors, found by k-means; all rows if there are fewer.", default=300)
    n_nearest: int = parameter(COUNT, "Anchors that a row is connected with.", default=2)
    max_iter: int = parameter(
        COUNT,
        "Rounds at most; the fit ends when the objective rises by less than 1e-4 of itself.",
        default=20,
    )

    objective_: FloatArray = fitted("The objective at the start and after every step of B and of Y; it never falls.")

    n_iter_: int = fitted("Rounds made.")

    def _learn(self, features: Float32Array, labels: LabelMatrix | None, rng: Rng) -> Learned:
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
        trace, n_iter = [objective(B, Y)], 0
        for _ in steps(self.max_iter, "DGH"):
            before = trace[-1]
            for _ in range(INNER_STEPS):
                new = keep_sign(2 * smooth(B) + self.rho * Y, B)
                if np.array_equal(new, B):
                    break
                B = new
                trace.append(objective(B, Y))
            Y = balanced(B, rng)
            n_iter += 1
            trace.append(objective(B, Y))
            if trace[-1] - before <= TOLERANCE * abs(before):
                break
        function = AnchorGraphFunction(graph, inverse * (Z.T @ B))
        return Learned(function, B, objective_=trace, n_iter_=n_iter)

    def _start(self, Z: sparse.csr_matrix, rng: Rng) -> tuple[FloatArray, FloatArray]:
        """B and Y from the first eigenvectors of the graph, without the constant one."""
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


def balanced(B: FloatArray, rng: Rng) -> FloatArray:
    """argmax tr(B'Y) subject to Y'1 = 0 and Y'Y = n I."""
    left, values, right = linalg.svd(B - B.mean(axis=0), full_matrices=False)
    rank = int((values > 1e-8 * np.sqrt(B.size)).sum())
    return np.sqrt(len(B)) * (completed(left[:, :rank], B.shape[1], rng) @ right)


def completed(basis: FloatArray, count: int, rng: Rng) -> FloatArray:
    """``count`` orthonormal columns orthogonal to 1, the given ones first."""
    n_rows, given = basis.shape
    if given == count:
        return basis
    fresh = rng.standard_normal((n_rows, count - given))
    fixed = np.column_stack([np.full(n_rows, 1 / np.sqrt(n_rows)), basis])
    for _ in range(2):  # twice, because one projection leaves rounding errors
        fresh = linalg.qr(fresh - fixed @ (fixed.T @ fresh), mode="economic")[0]
    return np.hstack([basis, fresh])
