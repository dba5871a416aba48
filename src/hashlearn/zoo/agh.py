"""AGH and DGH: codes smooth on a graph that reaches rows only through anchors."""

from __future__ import annotations

import numpy as np
from scipy import linalg, sparse

from hashlearn.codes import sign
from hashlearn.functions.linalg import random_rotation, top_eigenvectors
from hashlearn.hashers.in_memory import InMemoryHasher, Learned
from hashlearn.labels import LabelMatrix
from hashlearn.methodinfo import MethodInfo
from hashlearn.parameters import COUNT, POSITIVE, Interval, Options, fitted, parameter
from hashlearn.progress import steps
from hashlearn.typing import Float32Array, FloatArray, IntArray, Rng
from hashlearn.zoo.bases.primitives import cluster_centers, keep_sign, orthogonal_procrustes

ROW_BLOCK = 2048
TRIVIAL = 1e-3
SMALLEST = 1e-6


class AnchorGraph:
    """Anchors (p, d), the bandwidth sigma and the number of nearest anchors, which give a row its weights."""

    def __init__(self, anchors: Float32Array, bandwidth: float, n_nearest: int) -> None:
        self.anchors = anchors
        self.bandwidth = bandwidth
        self.n_nearest = n_nearest

    @classmethod
    def build(cls, features: Float32Array, n_anchors: int, n_nearest: int, rng: Rng) -> AnchorGraph:
        """Anchors by k-means; sigma is the mean distance to the last of the nearest ones."""
        anchors = cluster_centers(features, n_anchors, rng)
        n_nearest = min(n_nearest, len(anchors))
        graph = cls(anchors, 1.0, n_nearest)
        blocks = range(0, len(features), ROW_BLOCK)
        last = np.concatenate([graph._nearest(features[at : at + ROW_BLOCK])[1].max(axis=1) for at in blocks])
        graph.bandwidth = float(np.sqrt(last).mean()) or 1.0
        return graph

    def weights(self, features: Float32Array) -> sparse.csr_matrix:
        """Z (n, p): ``n_nearest`` weights per row that sum to 1."""
        blocks = [self._block(features[at : at + ROW_BLOCK]) for at in range(0, max(1, len(features)), ROW_BLOCK)]
        return sparse.vstack(blocks, format="csr")

    def _block(self, rows: Float32Array) -> sparse.csr_matrix:
        nearest, squared = self._nearest(rows)
        # The smallest is subtracted so that a row far from all anchors still has weights.
        weights = np.exp(-(squared - squared.min(axis=1, keepdims=True)) / self.bandwidth**2)
        weights /= weights.sum(axis=1, keepdims=True)
        starts = np.arange(0, nearest.size + 1, self.n_nearest)
        return sparse.csr_matrix((weights.ravel(), nearest.ravel(), starts), shape=(len(rows), len(self.anchors)))

    def _nearest(self, rows: Float32Array) -> tuple[IntArray, FloatArray]:
        """Return numbers and squared distances of the nearest anchors (n, n_nearest)."""
        products = rows.astype(np.float64) @ self.anchors.T.astype(np.float64)
        squared = (self.anchors.astype(np.float64) ** 2).sum(axis=1) - 2 * products
        nearest = np.argpartition(squared, self.n_nearest - 1, axis=1)[:, : self.n_nearest]
        lengths = np.einsum("ij,ij->i", rows, rows, dtype=np.float64)
        return nearest, np.maximum(np.take_along_axis(squared, nearest, axis=1) + lengths[:, None], 0)


class AnchorGraphFunction:
    """Projections y = z(x) W of a row's anchor weights z(x); second-layer bits from y by two thresholds each."""

    def __init__(self, graph: AnchorGraph, weights: FloatArray, cuts: FloatArray | None = None) -> None:
        self.graph = graph
        self.weights = weights
        self.cuts = np.empty((2, 0)) if cuts is None else cuts

    def project(self, features: Float32Array) -> Float32Array:
        first = self.graph.weights(features) @ self.weights
        upper, lower = self.cuts
        cut = first[:, : len(upper)]
        second = np.where(cut >= 0, cut - upper, lower - cut)
        return np.hstack([first, second]).astype(np.float32)


class AGH(InMemoryHasher):
    """Anchor graph hashing: the smoothest functions on the anchor graph A = Z L^-1 Z', cut into bits.

    Z (n, p) weighs the ``n_nearest`` anchors of every row by exp(-d^2 / sigma^2), rows sum to 1; L = diag(Z'1).
    One layer cuts each eigenvector y of A at zero. Two layers take half as many eigenvectors and cut each half
    again, where y > b+ on the positive side and y < b- on the negative one; b+ and b- are chosen to make this second
    bit smooth and balanced. All bits of the first layer come first.

    As in the authors' code, eigenvectors with eigenvalues above 1 - 1e-3 are skipped, because they mark separate pieces
    of the graph. If too few others remain, these are used next (never the constant one), and then random mixtures of
    all, so that every number of bits works. With an odd number the first layer has one bit more. Labels are not used
    and the training codes are hashed.
    """

    info = MethodInfo(
        name="agh",
        reference="Liu et al., Hashing with Graphs (ICML 2011)",
        kind="graph",
        supervision=(),
        cost="O(n p d + p^3)",
        verified=True,
        slow=True,
        remark="unsupervised",
        components=(AnchorGraph, AnchorGraphFunction),
        example="n_anchors=30",
    )

    n_layers: int = parameter(Interval(int, 1, 2, closed="both"), "Bits that each eigenvector gives.", default=1)
    n_anchors: int = parameter(COUNT, "Anchors, found by k-means; all rows if there are fewer.", default=300)
    n_nearest: int = parameter(COUNT, "Anchors that a row is connected with.", default=2)

    eigenvalues_: FloatArray = fitted("Eigenvalues of the eigenvectors that became bits.")

    def _learn(self, features: Float32Array, labels: LabelMatrix | None, rng: Rng) -> Learned:
        graph = AnchorGraph.build(features, self.n_anchors, self.n_nearest, rng)
        Z = graph.weights(features)
        first = -(-self.n_bits_ // self.n_layers)
        values, vectors = graph_eigenvectors(Z, first, rng)
        if self.n_layers == 2:
            cuts = second_thresholds(Z, Z @ vectors)[:, : self.n_bits_ - first]
        else:
            cuts = np.empty((2, 0))
        return Learned(AnchorGraphFunction(graph, vectors, cuts), eigenvalues_=values)


def graph_eigenvectors(
    Z: sparse.csr_matrix, count: int, rng: Rng, largest: float = 1 - TRIVIAL
) -> tuple[FloatArray, FloatArray]:
    """Eigenvalues of A and weights W (p, count) such that Z W are its eigenvectors, of length sqrt(n).

    Those with eigenvalues of at least ``largest`` come last, followed by mixtures if there are fewer than ``count``.
    """
    n_rows, n_anchors = Z.shape
    degree = np.asarray(Z.sum(axis=0)).ravel()
    root = np.sqrt(np.divide(1.0, degree, out=np.zeros(n_anchors), where=degree > 0))
    small = root[:, None] * (Z.T @ Z).toarray() * root
    # The constant eigenvector is removed, because it says nothing about rows.
    constant = np.sqrt(degree / n_rows)
    values, vectors = top_eigenvectors(small - np.outer(constant, constant), n_anchors)
    usable = np.flatnonzero(values > SMALLEST)
    order = np.concatenate([usable[values[usable] < largest], usable[values[usable] >= largest]])[:count]
    weights = np.sqrt(n_rows) * root[:, None] * vectors[:, order] / np.sqrt(values[order])
    mixtures = rng.standard_normal((len(order), count - len(order)))
    return values[order], np.hstack([weights, weights @ mixtures])


def second_thresholds(Z: sparse.csr_matrix, y: FloatArray) -> FloatArray:
    """Thresholds b+ and b- (2, k) of the second bits.

    f = y - b+ where y >= 0 and b- - y elsewhere; they minimize f'(I - A)f subject to a mean of zero.
    """
    degree = np.asarray(Z.sum(axis=0)).ravel()
    inverse = np.divide(1.0, degree, out=np.zeros(len(degree)), where=degree > 0)
    positive = (y >= 0).astype(np.float64)
    rough = positive - Z @ (inverse[:, None] * (Z.T @ positive))  # (I - A) 1+
    above = (rough * np.abs(y)).sum(axis=0)
    below = (rough * positive).sum(axis=0)
    shift = np.divide(above, below, out=np.zeros(y.shape[1]), where=below > 1e-9)
    total, n_positive = np.abs(y).sum(axis=0), positive.sum(axis=0)
    upper = (total + (len(y) - n_positive) * shift) / len(y)
    return np.vstack([upper, shift - upper])


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
