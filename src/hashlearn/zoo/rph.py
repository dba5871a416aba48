"""RPH: ascent on the NDCG of lists, with ranks that are sums of sigmoids."""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from hashlearn.methodinfo import MethodInfo
from hashlearn.parameters import NON_NEGATIVE, POSITIVE, parameter
from hashlearn.typing import FloatArray
from hashlearn.zoo.bases.descent import Batch, DescentHasher

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
