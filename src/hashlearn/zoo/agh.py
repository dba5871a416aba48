"""AGH: eigenvectors of a graph that reaches rows only through anchors, thresholded once or twice."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from hashlearn.functions.linalg import top_eigenvectors
from hashlearn.hashers.in_memory import InMemoryHasher, Learned
from hashlearn.labels import LabelMatrix
from hashlearn.methodinfo import MethodInfo
from hashlearn.parameters import COUNT, Interval, fitted, parameter
from hashlearn.typing import Float32Array, FloatArray, IntArray, Rng
from hashlearn.zoo.bases.primitives import cluster_centers

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
