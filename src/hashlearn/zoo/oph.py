"""OPH and RPH: descent on the loss of lists of rows, by relaxed bits z = tanh(x W + b)."""

from __future__ import annotations

from abc import abstractmethod
from typing import NamedTuple

import numpy as np
from scipy.spatial.distance import cdist
from scipy.special import expit
from scipy.stats import binom

from hashlearn.hashers.in_memory import InMemoryHasher, KernelParameters, Learned, linear
from hashlearn.labels import LabelMatrix
from hashlearn.methodinfo import MethodInfo
from hashlearn.parameters import COUNT, NON_NEGATIVE, POSITIVE, Interval, Options, fitted, parameter
from hashlearn.progress import steps
from hashlearn.typing import Float32Array, FloatArray, IntArray, Rng
from hashlearn.zoo.bases.pairs import sample_pairs
from hashlearn.zoo.bases.primitives import labeled_rows

MEMORIES = (0.9, 0.999)
TINY = 1e-8


class Batch(NamedTuple):
    """Queries and the rows of one list, which all queries share; each has a last feature that is always 1.

    ``relevance`` (queries, list) are the numbers of shared labels, None for methods that use no labels. ``done`` is the
    share of the steps made before this one.
    """

    queries: FloatArray
    listed: FloatArray
    relevance: FloatArray | None
    done: float


class DescentHasher(KernelParameters, InMemoryHasher):
    """Base of methods that descend on the loss of a batch. A subclass implements ``_batch_loss``.

    Features are divided by their root mean square. The steps are those of Adam, and their length falls linearly to 0.
    """

    learning_rate: float = parameter(POSITIVE, "Length of the first step; it falls linearly to 0.", default=0.005)
    batch_size: int = parameter(
        Interval(int, 2, 1024, closed="both"), "Queries per step, and rows of the list that they rank.", default=64
    )
    max_iter: int = parameter(COUNT, "Steps.", default=500)
    kernel: str | None = None

    losses_: FloatArray = fitted("(max_iter,) The loss of every batch before its step.")
    n_iter_: int = fitted("Steps made.")

    @abstractmethod
    def _batch_loss(self, weights: FloatArray, batch: Batch) -> tuple[float, FloatArray]:
        """Return the loss of a batch and its gradient by weights (d + 1, m), whose last row is the intercept."""

    def _learn(self, features: Float32Array, labels: LabelMatrix | None, rng: Rng) -> Learned:
        known = np.arange(len(features)) if labels is None else labeled_rows(labels)
        scale = float(np.sqrt(np.mean(features[known] ** 2, dtype=np.float64))) or 1.0
        width, bits = features.shape[1], self.n_bits_
        # Projections start with a variance of about 1.
        weights = np.vstack([rng.standard_normal((width, bits)) / np.sqrt(width), np.zeros(bits)])
        mean, square = np.zeros_like(weights), np.zeros_like(weights)
        losses = []
        for step in steps(self.max_iter, self.info.title):
            queries, listed = self._draw(known, labels, rng)
            relevance = None if labels is None else (labels[queries] @ labels[listed].T).toarray()
            rows, others = (_with_one(features[part], scale) for part in (queries, listed))
            loss, gradient = self._batch_loss(weights, Batch(rows, others, relevance, step / self.max_iter))
            losses.append(loss)
            mean += (1 - MEMORIES[0]) * (gradient - mean)
            square += (1 - MEMORIES[1]) * (gradient**2 - square)
            length = self.learning_rate * (1 - step / self.max_iter)
            corrected = np.sqrt(square / (1 - MEMORIES[1] ** (step + 1))) + TINY
            weights -= length * mean / (1 - MEMORIES[0] ** (step + 1)) / corrected
        return Learned(linear(weights[:-1] / scale, weights[-1]), losses_=losses, n_iter_=len(losses))

    def _draw(self, known: IntArray, labels: LabelMatrix | None, rng: Rng) -> tuple[IntArray, IntArray]:
        """Draw queries and a list; about half of the queries have a similar row in the list that was drawn for them."""
        if labels is None:
            size = min(self.batch_size, len(known) // 2)
            both = rng.choice(known, 2 * size, replace=False)
            return both[:size], both[size:]
        queries, listed, _ = sample_pairs(labels, self.batch_size, rng)
        return queries, listed


def _with_one(rows: Float32Array, scale: float) -> FloatArray:
    return np.column_stack([rows.astype(np.float64) / scale, np.ones(len(rows))])


class OPH(DescentHasher):
    """Order preserving hashing: the row at place k of a query's list belongs at the distance that place k has.

    A random code lies at distance r of a query with probability C(m, r) / 2^m. So a list in order of similarity is cut
    into classes 0 ... m of these sizes, and a row of class c should lie at distance c. For every r a row costs
    sgm(sharpness (d - r - 1/2)) if c <= r, and sgm(sharpness (r + 1/2 - d)) otherwise, where d is the distance of the
    relaxed bits; a penalty keeps bits balanced.

    The paper orders by feature distance (``order="features"``, for which y is not needed). With labels the number of
    shared labels decides first and feature distance among equals. We know the method from notes (``verified`` is
    False); the steps are Adam's. Training codes are hashed.
    """

    info = MethodInfo(
        name="oph",
        reference="Wang, Wang, Yu and Li, Order Preserving Hashing for Approximate Nearest Neighbor Search (MM 2013)",
        kind="ranking",
        cost="O(T b (d m + b m)), T steps on batches of b queries",
        slow=True,
        remark="from notes; labels decide the order first, feature distance among equals",
        example="max_iter=20",
    )

    order: str = parameter(
        Options("labels", "features"), "What puts lists in order; 'features' ignores y.", default="labels"
    )
    sharpness: float = parameter(POSITIVE, "Slope of the sigmoids, per bit of distance.", default=1.0)
    balance: float = parameter(NON_NEGATIVE, "Weight of the mean square of a bit's mean.", default=0.1)

    @property
    def _uses_labels(self) -> bool:
        return self.order == "labels"

    def _batch_loss(self, weights: FloatArray, batch: Batch) -> tuple[float, FloatArray]:
        distances = cdist(batch.queries, batch.listed)
        wanted = distance_classes(distances, batch.relevance, weights.shape[1])
        return order_loss(weights, batch.queries, batch.listed, wanted, self.sharpness, self.balance)


def distance_classes(distances: FloatArray, relevance: FloatArray | None, n_bits: int) -> IntArray:
    """Return the class 0 ... n_bits of every row of every query's list: the distance at which it belongs."""
    n_listed = distances.shape[1]
    keys = (distances,) if relevance is None else (distances, -relevance)
    order = np.lexsort(keys, axis=1)
    share = (np.arange(n_listed) + 0.5) / n_listed
    classes = np.empty(distances.shape, dtype=np.intp)
    at_place = np.searchsorted(binom.cdf(np.arange(n_bits), n_bits, 0.5), share)
    np.put_along_axis(classes, order, np.broadcast_to(at_place, order.shape), axis=1)
    return classes


def order_loss(
    weights: FloatArray, queries: FloatArray, listed: FloatArray, wanted: IntArray, sharpness: float, balance: float
) -> tuple[float, FloatArray]:
    """Return the mean cost of a pair plus the penalty, and the gradient by weights (d + 1, m)."""
    n_bits, n_pairs = weights.shape[1], wanted.size
    z, others = np.tanh(queries @ weights), np.tanh(listed @ weights)
    distance = (n_bits - z @ others.T) / 2
    radii = np.arange(n_bits + 1)
    side = np.where(wanted[:, :, None] <= radii, 1.0, -1.0)
    costs = expit(sharpness * side * (distance[:, :, None] - radii - 0.5))
    slopes = sharpness * (side * costs * (1 - costs)).sum(axis=2) / n_pairs
    means = others.mean(axis=0)
    loss = float(costs.sum() / n_pairs + balance * (means**2).mean())
    by_z = -slopes @ others / 2
    by_others = -slopes.T @ z / 2 + balance * 2 * means / (n_bits * len(others))
    return loss, queries.T @ (by_z * (1 - z**2)) + listed.T @ (by_others * (1 - others**2))


LAST_SLOPE = 3.0  # of the tanh, which grows from 1 during the fit


class RPH(DescentHasher):
    """Ranking preserving hashing: max NDCG of lists, with rank 1 + sum of sgm(z_q.(z_j - z_i) / t) for relaxed bits z.

    Row i of a query's list has the gain 2^r - 1 for r shared labels and the discount log2(1 + rank). Bits are
    tanh(a (x W + b)), and a grows from 1 to 3 during the fit. Penalties keep bits balanced and W'W near the identity.

    We know the method from notes (``verified`` is False): the annealing, the weights of the penalties and Adam's steps
    are ours. Training codes are hashed.
    """

    info = MethodInfo(
        name="rph",
        reference="Wang, Zhang and Si, Ranking Preserving Hashing for Fast Similarity Search (IJCAI 2015)",
        kind="ranking",
        cost="O(T (b^3 + b d m)), T steps on batches of b queries",
        slow=True,
        remark="from notes; annealing and penalties are ours",
        example="max_iter=20",
    )

    temperature: float = parameter(POSITIVE, "t as a share of n_bits.", default=0.1)
    balance: float = parameter(NON_NEGATIVE, "Weight of the mean square of a bit's mean.", default=0.1)
    orthogonality: float = parameter(NON_NEGATIVE, "Weight of |W'W - I|^2 / n_bits.", default=0.001)

    def _batch_loss(self, weights: FloatArray, batch: Batch) -> tuple[float, FloatArray]:
        slope = 1 + (LAST_SLOPE - 1) * batch.done
        loss, gradient = ranking_loss(slope * weights, batch, self.temperature, self.balance)
        gradient *= slope
        directions = weights[:-1]
        gap = directions.T @ directions - np.eye(weights.shape[1])
        gradient[:-1] += self.orthogonality * 4 * directions @ gap / len(gap)
        return loss + self.orthogonality * float((gap**2).sum()) / len(gap), gradient


def ranking_loss(weights: FloatArray, batch: Batch, temperature: float, balance: float) -> tuple[float, FloatArray]:
    """1 - the mean NDCG of the queries plus the penalty for balance, and the gradient by weights (d + 1, m)."""
    assert batch.relevance is not None
    n_queries, n_bits = len(batch.queries), weights.shape[1]
    z, listed = np.tanh(batch.queries @ weights), np.tanh(batch.listed @ weights)
    products = z @ listed.T / (n_bits * temperature)
    before = expit(products[:, None, :] - products[:, :, None])  # (query, i, j): j precedes i
    diagonal = np.arange(products.shape[1])
    before[:, diagonal, diagonal] = 0
    ranks = 1 + before.sum(axis=2)
    gains = 2.0**batch.relevance - 1
    ideal = (-np.sort(-gains, axis=1) / np.log2(2 + diagonal)).sum(axis=1, keepdims=True)
    shares = gains / np.where(ideal > 0, ideal, 1)
    means = listed.mean(axis=0)
    ndcg = float((shares / np.log2(1 + ranks)).sum() / n_queries)

    by_rank = shares * np.log(2) / ((1 + ranks) * np.log1p(ranks) ** 2) / n_queries  # of the loss, which NDCG lowers
    flow = by_rank[:, :, None] * before * (1 - before)
    by_product = (flow.sum(axis=1) - flow.sum(axis=2)) / (n_bits * temperature)
    by_z = by_product @ listed
    by_listed = by_product.T @ z + balance * 2 * means / (n_bits * len(listed))
    gradient = batch.queries.T @ (by_z * (1 - z**2)) + batch.listed.T @ (by_listed * (1 - listed**2))
    return 1 - ndcg + balance * float((means**2).mean()), gradient
