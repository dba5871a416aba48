"""OPH: Hamming distances that put the rows of a list in the order of their similarity to a query."""

from __future__ import annotations

import numpy as np
from scipy.spatial.distance import cdist
from scipy.special import expit
from scipy.stats import binom

from hashlearn.methodinfo import MethodInfo
from hashlearn.parameters import NON_NEGATIVE, POSITIVE, Options, parameter
from hashlearn.typing import FloatArray, IntArray
from hashlearn.zoo.bases.descent import Batch, DescentHasher


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
