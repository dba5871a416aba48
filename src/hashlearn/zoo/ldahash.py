"""LDAHash: projections that bring similar pairs together and dissimilar ones apart, and a best threshold for each."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from hashlearn.functions.linalg import fix_signs
from hashlearn.hashers.in_memory import InMemoryHasher, Learned, linear
from hashlearn.labels import LabelMatrix
from hashlearn.methodinfo import MethodInfo
from hashlearn.parameters import COUNT, NON_NEGATIVE, POSITIVE, Options, fitted, parameter
from hashlearn.progress import steps
from hashlearn.typing import Float32Array, FloatArray, Rng
from hashlearn.zoo.bases.pairs import sample_pairs
from hashlearn.zoo.bases.primitives import LabelProduct, inverse_root, labeled_rows, with_mixtures


class LDAHash(InMemoryHasher):
    """LDAHash: bits [p.x >= t] with the least spread of similar pairs along p for a given one of dissimilar pairs.

    With P and N the mean outer products of differences over similar and dissimilar pairs, directions are the smallest
    generalized eigenvectors of (P, N) ("ratio") or eigenvectors of alpha P - N ("difference"). Each threshold
    minimizes the share of similar pairs it separates plus the share of dissimilar pairs it does not.

    We did not have the paper; this follows notes on it (``verified`` is False). P and N are sums over all pairs, in
    closed form from the labels; thresholds come from sampled pairs. Bits beyond the number of features are random
    mixtures of the directions, each with its own threshold. Training codes are hashed.
    """

    info = MethodInfo(
        name="ldahash",
        title="LDAHash",
        reference="Strecha et al., LDAHash: Improved Matching with Smaller Descriptors (TPAMI 2012)",
        kind="pairwise, spectral",
        cost="O(n d^2 + d^3 + m pairs log pairs)",
        slow=True,
    )

    variant: str = parameter(Options("ratio", "difference"), "Which eigenvectors are the directions.", default="ratio")
    alpha: float = parameter(NON_NEGATIVE, "Weight of P in the variant 'difference'.", default=10.0)
    ridge: float = parameter(POSITIVE, "Added to N as a share of the mean variance of a feature.", default=0.0001)
    n_pairs: int = parameter(COUNT, "Pairs drawn to place the thresholds, half of them similar.", default=100000)

    errors_: FloatArray = fitted("(n_bits,) Sum of the two shares at each threshold; a constant bit has 1.")

    def _learn(self, features: Float32Array, labels: LabelMatrix, rng: Rng) -> Learned:
        rows = labeled_rows(labels)
        similar, dissimilar = pair_spreads(features[rows].astype(np.float64), labels[rows])
        count = min(self.n_bits_, features.shape[1])
        if self.variant == "ratio":
            scale = max(float(np.trace(similar + dissimilar)) / len(similar), 1e-12)
            whiten = inverse_root(dissimilar, ridge=self.ridge * scale)
            _, vectors = linalg.eigh(whiten @ similar @ whiten, subset_by_index=(0, count - 1))
            directions = fix_signs(whiten @ vectors)
        else:
            _, vectors = linalg.eigh(self.alpha * similar - dissimilar, subset_by_index=(0, count - 1))
            directions = fix_signs(vectors)
        directions = with_mixtures(directions, self.n_bits_, rng)

        left, right, shared = sample_pairs(labels, self.n_pairs, rng)
        thresholds, errors = np.zeros(self.n_bits_), np.ones(self.n_bits_)
        for b in steps(self.n_bits_, "thresholds"):
            projected = features @ directions[:, b].astype(np.float32)
            thresholds[b], errors[b] = best_threshold(projected[left], projected[right], shared > 0)
        return Learned(linear(directions, -thresholds), errors_=errors)


def pair_spreads(features: FloatArray, labels: LabelMatrix) -> tuple[FloatArray, FloatArray]:
    """Mean outer products of differences over all ordered similar pairs and over all dissimilar ones.

    The similar pairs include each row with itself.

    sum s_ij (x_i - x_j)(x_i - x_j)' = 2 X'(D - S)X for a 0/1 similarity S with row sums D, so no pair is visited.
    """
    count = len(features)
    related = LabelProduct.from_labels(labels, relevance="binary", dissimilar=0.0)
    partners = related @ np.ones((count, 1))
    similar = 2 * (features.T @ (partners * features) - related.quadratic(features))
    total = features.sum(axis=0)
    everyone = 2 * (count * (features.T @ features) - np.outer(total, total))
    n_similar = float(partners.sum())
    return similar / n_similar, (everyone - similar) / max(count**2 - n_similar, 1.0)


def best_threshold(
    left: NDArray[np.floating], right: NDArray[np.floating], similar: NDArray[np.bool_]
) -> tuple[float, float]:
    """Find the t of least (share of similar pairs that [x >= t] separates) + (share of others that it does not).

    A pair is separated for min < t <= max of its two ends, so one pass over the sorted ends gives the cost of every t.
    """
    low, high = np.minimum(left, right), np.maximum(left, right)
    weight = np.where(similar, 1 / max(similar.sum(), 1), -1 / max((~similar).sum(), 1))
    ends = np.concatenate([low, high])
    order = np.argsort(ends, kind="stable")
    ends = ends[order]
    costs = np.cumsum(np.concatenate([weight, -weight])[order], dtype=np.float64)
    # Only the last of equal ends tells the cost of the interval above them; a bit needs rows on both sides.
    inner = np.flatnonzero(np.diff(ends) > 0)
    if not len(inner):
        return float(ends[0]), float((~similar).any())
    k = int(inner[np.argmin(costs[inner])])
    middle = float((np.float64(ends[k]) + np.float64(ends[k + 1])) / 2)
    return middle, float(costs[k]) + float((~similar).any())
