"""BRE: coordinate descent that moves one weight to the best of all the places where a bit changes."""

from __future__ import annotations

import numpy as np

from hashlearn.hashers.in_memory import InMemoryHasher, Learned, linear
from hashlearn.labels import LabelMatrix
from hashlearn.methodinfo import MethodInfo
from hashlearn.parameters import COUNT, NON_NEGATIVE, Interval, fitted, parameter
from hashlearn.progress import steps
from hashlearn.typing import Float32Array, FloatArray, IntArray, Rng
from hashlearn.zoo.bases.pairs import relevance_block
from hashlearn.zoo.bases.primitives import labeled_rows


class BRE(InMemoryHasher):
    """Binary reconstructive embedding: min sum over pairs of (target - Hamming distance / m)^2 / 2.

    Bit b of x is [sum over q of W_qb <x_qb, x> > 0] with a few support rows per bit. One weight W_qb is moved at a
    time: row i changes its bit where W_qb passes W_qb - U_ib / K_iq, so one sort of these places gives the exact cost
    of every interval between them, and the weight goes to the middle of the best one.

    Targets are 0 for rows of one class and 1 otherwise; for label sets 1 - (shared labels) / (most shared). Learning
    runs on a sample of rows, as in the authors' code, because its cost is quadratic. The rows are centered, the kernel
    is linear, and the fit stops when a pass gains less than ``tol`` of the loss; the authors' code stops at a gain
    below 1, which depends on the number of pairs. ``codes_`` are hashed, as in the authors' evaluation.
    """

    info = MethodInfo(
        name="bre",
        reference="Kulis and Darrell, Learning to Hash with Binary Reconstructive Embeddings (NIPS 2009)",
        kind="pairwise, coordinate descent",
        cost="O(T m (s log s + pairs)) for s sampled rows",
        verified=True,
        slow=True,
        remark="learned on 1,000 rows, as the wrapper the notes describe",
    )

    n_samples: int = parameter(
        Interval(int, 2), "Labeled rows to learn from, drawn at random; all if there are fewer.", default=1000
    )
    n_support: int = parameter(COUNT, "Support rows per bit.", default=20)
    pair_share: float = parameter(
        Interval(float, 0, 1, closed="right"), "Partners of each sampled row, as a share of the sample.", default=0.05
    )
    max_iter: int = parameter(COUNT, "Passes at most; each moves one random weight of every bit.", default=200)
    tol: float = parameter(
        NON_NEGATIVE, "The fit ends when a pass gains less than this share of the loss.", default=0.0001
    )

    objective_: FloatArray = fitted(
        "(n_iter_ * n_bits + 1,) The loss at the start and after every move; it never rises."
    )
    n_iter_: int = fitted("Passes made.")

    def _learn(self, features: Float32Array, labels: LabelMatrix, rng: Rng) -> Learned:
        rows = labeled_rows(labels)
        rows = rng.permutation(rows)[: self.n_samples]
        count, bits = len(rows), self.n_bits_
        sample = features[rows].astype(np.float64)
        left, right = random_pairs(count, max(1, round(self.pair_share * count)), rng)
        shared = relevance_block(labels, rows[left], rows[right])
        targets = 1.0 - shared / max(float(np.diff(labels.indptr).max()), 1.0)

        support = np.stack([rng.permutation(count)[: self.n_support] for _ in range(bits)], axis=1)
        weights = 0.001 * rng.standard_normal(support.shape)
        kernel = sample @ sample.T
        projected = np.einsum("iqb,qb->ib", kernel[:, support], weights)
        signs = projected > 0
        residual = (signs[left] != signs[right]).sum(axis=1) / bits - targets
        objective = [0.5 * float(residual @ residual)]
        for _ in steps(self.max_iter, "passes"):
            before = objective[-1]
            for b in range(bits):
                q = rng.randint(len(support))
                column = kernel[:, support[q, b]]
                own = (signs[left, b] != signs[right, b]) / bits
                move = best_move(projected[:, b], column, left, right, residual - own, 1.0 / bits)
                moved = projected[:, b] + move * column
                changed = residual - own + ((moved > 0)[left] != (moved > 0)[right]) / bits
                # Rounding may put a row on the wrong side of a very narrow interval, so that only real gains are kept.
                loss = 0.5 * float(changed @ changed)
                if loss < objective[-1]:
                    weights[q, b] += move
                    projected[:, b], signs[:, b], residual = moved, moved > 0, changed
                objective.append(min(objective[-1], loss))
            if before - objective[-1] <= self.tol * before:
                break
        directions = np.stack([sample[support[:, b]].T @ weights[:, b] for b in range(bits)], axis=1)
        return Learned(linear(directions), objective_=objective, n_iter_=(len(objective) - 1) // bits)


def random_pairs(count: int, partners: int, rng: Rng) -> tuple[IntArray, IntArray]:
    """``partners`` different random partners of every row, never itself."""
    partners = min(partners, count - 1)
    right = np.stack([rng.permutation(count - 1)[:partners] for _ in range(count)])
    left = np.broadcast_to(np.arange(count)[:, None], right.shape)
    right = right + (right >= left)
    return left.ravel(), right.ravel()


def best_move(
    projected: FloatArray, column: FloatArray, left: IntArray, right: IntArray, residual: FloatArray, unit: float
) -> float:
    """Find the t of least sum (residual_p + unit [bits of pair p differ])^2 / 2 for bits [projected + t column > 0].

    Going up from t = -infinity, row i flips once, at -projected_i / column_i (never where column_i = 0). A pair gains
    or loses its unit between the flips of its two rows, so one cumulative sum gives the cost of all intervals.
    """
    flips = np.flatnonzero(column)
    if not len(flips):
        return 0.0
    places = -projected[flips] / column[flips]
    order = np.argsort(places, kind="stable")
    places = places[order]
    rank = np.full(len(column), len(flips))
    rank[flips[order]] = np.arange(len(flips))
    first = np.where(column != 0, column < 0, projected > 0)  # bits at t = -infinity
    differ = first[left] != first[right]
    price = residual * unit + 0.5 * unit**2  # cost of a pair that differs
    change = np.where(differ, -price, price)
    low, high = np.minimum(rank[left], rank[right]), np.maximum(rank[left], rank[right])
    jumps = np.bincount(low, change, len(flips) + 1) - np.bincount(high, change, len(flips) + 1)
    costs = np.concatenate([[0.0], np.cumsum(jumps[: len(flips)])])
    # Interval k lies between flip k - 1 and flip k; the outer ones end one spread away.
    ends = np.concatenate([[places[0] - np.ptp(places) - 1.0], places, [places[-1] + np.ptp(places) + 1.0]])
    costs[np.diff(ends) <= 0] = np.inf
    k = int(np.argmin(costs))
    return float((ends[k] + ends[k + 1]) / 2)
