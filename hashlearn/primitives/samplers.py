"""Draw random pairs and triplets by labels. The same seed gives every method the same ones."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from hashlearn.typing import IntArray


def relevance_block(labels: sparse.csr_matrix, left: IntArray, right: IntArray) -> NDArray[np.float64]:
    """Return the number of shared labels of left[i] and right[i] for every i."""
    return np.asarray(labels[left].multiply(labels[right]).sum(axis=1), dtype=np.float64).ravel()


def sample_pairs(
    labels: sparse.csr_matrix, count: int, rng: np.random.RandomState, similar_share: float = 0.5
) -> tuple[IntArray, IntArray, NDArray[np.float64]]:
    """Draw ``count`` random pairs i != j of labeled rows; return them with their numbers of shared labels.

    A share of ``similar_share`` is similar if enough such pairs exist: a similar partner is a random row with a random
    label of i. The rest is drawn uniformly from dissimilar pairs.
    """
    rows = np.flatnonzero(np.diff(labels.indptr) > 0)
    if len(rows) < 2:
        raise ValueError("At least 2 labeled rows are needed to draw pairs.")
    wanted = round(count * similar_share)
    near = _draw(labels, rows, wanted, rng, similar=True)
    far = _draw(labels, rows, count - len(near[0]), rng, similar=False)
    left, right = (np.concatenate([a, b]) for a, b in zip(near, far, strict=True))
    order = rng.permutation(len(left))
    left, right = left[order], right[order]
    return left, right, relevance_block(labels, left, right)


def sample_triplets(
    labels: sparse.csr_matrix, count: int, rng: np.random.RandomState
) -> tuple[IntArray, IntArray, IntArray, NDArray[np.float64]]:
    """Draw triplets (i, j, k) with i more relevant to j than to k; return them with the differences of relevance."""
    rows = np.flatnonzero(np.diff(labels.indptr) > 0)
    i, j = _draw(labels, rows, count, rng, similar=True)
    k = rows[rng.randint(len(rows), size=len(i))]
    for _ in range(64):
        bad = np.flatnonzero((relevance_block(labels, i, j) <= relevance_block(labels, i, k)) | (k == i))
        if not len(bad):
            break
        k[bad] = rows[rng.randint(len(rows), size=len(bad))]
    margin = relevance_block(labels, i, j) - relevance_block(labels, i, k)
    good = np.flatnonzero((margin > 0) & (k != i))
    if not len(good):
        raise ValueError("No triplet can be drawn: every row is equally relevant to every other.")
    return i[good], j[good], k[good], margin[good]


def _draw(
    labels: sparse.csr_matrix, rows: IntArray, count: int, rng: np.random.RandomState, similar: bool
) -> tuple[IntArray, IntArray]:
    """Draw up to ``count`` similar or dissimilar pairs by rejection; fewer if such pairs are rare."""
    by_label = labels.tocsc()
    left: list[IntArray] = []
    right: list[IntArray] = []
    missing = count
    for _ in range(64):
        if missing <= 0:
            break
        i = rows[rng.randint(len(rows), size=missing)]
        j = _partner(labels, by_label, i, rng) if similar else rows[rng.randint(len(rows), size=missing)]
        good = (i != j) & ((relevance_block(labels, i, j) > 0) == similar)
        left.append(i[good])
        right.append(j[good])
        missing -= int(good.sum())
    if not left:
        return np.empty(0, dtype=np.intp), np.empty(0, dtype=np.intp)
    return np.concatenate(left), np.concatenate(right)


def _partner(
    labels: sparse.csr_matrix, by_label: sparse.csc_matrix, i: IntArray, rng: np.random.RandomState
) -> IntArray:
    """Return for each i a random row with a random label of i."""
    sizes = np.diff(labels.indptr)
    chosen = labels.indices[labels.indptr[i] + (rng.random_sample(len(i)) * sizes[i]).astype(np.intp)]
    members = np.diff(by_label.indptr)[chosen]
    offset = (rng.random_sample(len(i)) * members).astype(np.intp)
    return by_label.indices[by_label.indptr[chosen] + offset].astype(np.intp)
