"""Top-RSBC: stochastic descent on a ranking loss that counts mistakes near the top more."""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from hashlearn.hashers.in_memory import InMemoryHasher, KernelParameters, Learned, linear
from hashlearn.labels import LabelMatrix
from hashlearn.methodinfo import MethodInfo
from hashlearn.parameters import COUNT, NON_NEGATIVE, POSITIVE, Interval, fitted, parameter
from hashlearn.progress import steps
from hashlearn.typing import Float32Array, FloatArray, Rng
from hashlearn.zoo.bases.primitives import labeled_rows

MOMENTUM = 0.9


class TopRSBC(KernelParameters, InMemoryHasher):
    """Top-rank supervised binary coding: min mean of log(1 + R_qs) over pairs of relevant rows q, s.

    R_qs counts the rows that are less relevant to q than s is but no farther away. The logarithm makes the first
    mistakes above a relevant row cost most. For descent the bits become z = tanh(x W + b) and the count a sum of
    sigmoids sgm(kappa (z_q.z_l - z_q.z_s) / m) over a batch; a small penalty keeps bits balanced.

    We had only the paper's abstract, so the formula is our reconstruction; the online variant is left out. Features are
    divided by their root mean square first. Training codes are hashed.
    """

    info = MethodInfo(
        name="top-rsbc",
        title="Top-RSBC",
        reference="Song et al., Top Rank Supervised Binary Coding for Visual Search (ICCV 2015)",
        kind="ranking",
        cost="O(T (b^3 + b d m)), T steps on batches of b rows",
        slow=True,
        remark="reconstruction: the surrogate is ours, so the gap says nothing about the paper's solver",
        example="max_iter=20",
    )

    sharpness: float = parameter(POSITIVE, "kappa, the slope of the sigmoids.", default=8.0)
    balance: float = parameter(NON_NEGATIVE, "Weight of the mean square of a bit's mean.", default=0.05)
    learning_rate: float = parameter(POSITIVE, "Step of the descent.", default=0.5)
    batch_size: int = parameter(
        Interval(int, 2, 1024, closed="both"), "Rows per step; memory grows with its cube.", default=64
    )
    max_iter: int = parameter(COUNT, "Steps of descent with momentum 0.9.", default=400)
    kernel: str | None = None

    losses_: FloatArray = fitted("(max_iter,) The loss of every batch before its step.")

    n_iter_: int = fitted("Steps made.")

    def _learn(self, features: Float32Array, labels: LabelMatrix, rng: Rng) -> Learned:
        known = labeled_rows(labels)
        scale = float(np.sqrt(np.mean(features[known] ** 2, dtype=np.float64))) or 1.0
        # The last row of the weights is the intercept.
        weights = np.vstack([0.1 * rng.standard_normal((features.shape[1], self.n_bits_)), np.zeros(self.n_bits_)])
        velocity = np.zeros_like(weights)
        losses = []
        for _ in steps(self.max_iter, "Top-RSBC"):
            batch = rng.choice(known, min(self.batch_size, len(known)), replace=False)
            rows = np.column_stack([features[batch].astype(np.float64) / scale, np.ones(len(batch))])
            relevance = (labels[batch] @ labels[batch].T).toarray()
            loss, gradient = batch_loss(weights, rows, relevance, self.sharpness, self.balance)
            velocity = MOMENTUM * velocity - self.learning_rate * gradient
            weights = weights + velocity
            losses.append(loss)
        return Learned(linear(weights[:-1] / scale, weights[-1]), losses_=losses, n_iter_=len(losses))


def batch_loss(
    weights: FloatArray, rows: FloatArray, relevance: FloatArray, sharpness: float, balance: float
) -> tuple[float, FloatArray]:
    """Return the loss of a batch (b, d + 1) and its gradient in the weights."""
    n_rows, n_bits = len(rows), weights.shape[1]
    z = np.tanh(rows @ weights)
    rank, slopes = soft_ranks(z @ z.T / n_bits, relevance, sharpness)
    listed = (relevance > 0) & ~np.eye(n_rows, dtype=bool)
    n_listed = max(1, int(listed.sum()))
    means = z.mean(axis=0)
    loss = float(np.log1p(rank[listed]).sum() / n_listed + balance * (means**2).mean())

    outer = np.where(listed, 1 / (1 + rank), 0) / n_listed
    slopes *= outer[:, :, None]
    pull = slopes.sum(axis=1) - slopes.sum(axis=2)  # loss by z_q.z_l / m
    by_z = (pull + pull.T) @ z / n_bits + balance * 2 * means / (n_bits * n_rows)
    return loss, rows.T @ (by_z * (1 - z**2))


def soft_ranks(products: FloatArray, relevance: FloatArray, sharpness: float) -> tuple[FloatArray, FloatArray]:
    """R (b, b): rows l less relevant to q than s, counted by a sigmoid of how much closer l is; and its slopes.

    The slopes (q, s, l) are those by products[q, l], and minus those by products[q, s].
    """
    less_relevant = relevance[:, None, :] < relevance[:, :, None]
    closer = np.where(less_relevant, expit(sharpness * (products[:, None, :] - products[:, :, None])), 0.0)
    return closer.sum(axis=2), sharpness * closer * (1 - closer)
