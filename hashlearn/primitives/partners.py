"""Draw a few partners of every row, and compute what one more bit of a code changes in the loss of each pair."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from hashlearn.similarity import from_labels
from hashlearn.typing import Int64Array

PAIR_LOSSES = ("hinge", "ksh", "bre")


@dataclass
class Pairs:
    """Distinct pairs of rows with left < right, and whether they are similar."""

    left: Int64Array
    right: Int64Array
    similar: NDArray[np.bool_]
    n_rows: int

    def gain(self, loss: str, distance: Int64Array, bits: int) -> Int64Array:
        """Return loss(d) - loss(d + 1) of codes of ``bits`` bits for every pair: loss of equal minus unequal bits."""
        tables = [-np.diff(loss_table(loss, similar, bits)) for similar in (False, True)]
        return np.where(self.similar, tables[1][distance], tables[0][distance])

    def row_sums(self, values: NDArray[Any]) -> NDArray[np.float64]:
        """Return the sums of pair values over the pairs of each row."""
        left, right = (np.bincount(side, values, self.n_rows) for side in (self.left, self.right))
        return np.asarray(left + right, dtype=np.float64)


def loss_table(loss: str, similar: bool, bits: int) -> Int64Array:
    """Return loss(d) for d = 0 .. bits as integers: times bits^2, or times 4 bits^2 for "hinge"."""
    d = np.arange(bits + 1, dtype=np.int64)
    if loss == "hinge":
        return (2 * d) ** 2 if similar else np.maximum(bits - 2 * d, 0) ** 2
    return (4 if loss == "ksh" else 1) * (d if similar else bits - d) ** 2


def draw_partners(labels: sparse.csr_matrix, count: int, rng: np.random.RandomState) -> Pairs:
    """Draw up to ``count`` similar and ``count`` dissimilar partners of every row; similar means a shared label."""
    similarity = from_labels(labels, relevance="binary", dissimilar=0.0)
    n, group, all_groups = labels.shape[0], similarity.group, np.arange(similarity.n_groups)
    keys = []
    for g in all_groups:
        members = np.flatnonzero(group == g)
        related = similarity.table(all_groups[g : g + 1], all_groups)[0, group] > 0
        for similar in (True, False):
            choice = np.flatnonzero(related == similar)
            if len(choice) > count:
                partners = choice[rng.randint(len(choice), size=(len(members), count))]
            else:
                partners = np.broadcast_to(choice, (len(members), len(choice)))
            low, high = np.minimum(members[:, None], partners), np.maximum(members[:, None], partners)
            keys.append(((low * n + high) * 2 + similar)[low < high])
    key = np.unique(np.concatenate(keys))
    if not len(key):
        raise ValueError("At least 2 labeled rows are needed to draw pairs.")
    return Pairs(key // 2 // n, key // 2 % n, key % 2 == 1, n)


def pair_matrix(pairs: Pairs, chosen: NDArray[np.bool_]) -> sparse.csr_matrix:
    """Return a symmetric CSR matrix of the chosen pairs, whose data are the numbers of the pairs."""
    left, right, number = pairs.left[chosen], pairs.right[chosen], np.flatnonzero(chosen)
    places = (np.concatenate([left, right]), np.concatenate([right, left]))
    matrix = sparse.csr_matrix((np.concatenate([number, number]), places), shape=(pairs.n_rows, pairs.n_rows))
    matrix.sort_indices()
    return matrix
