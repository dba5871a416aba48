"""Weights of items by how many others they should precede in a ranking by relevance."""

from __future__ import annotations

import numpy as np

from hashlearn.typing import FloatArray


def rank_weights(relevance: FloatArray, sizes: FloatArray) -> FloatArray:
    """Return #{less relevant items} - #{more relevant items} for each query (row) and each kind of item (column).

    ``sizes`` is the number of items of each kind. Weighted by sizes, every row sums to zero.
    """
    weights = np.empty(relevance.shape)
    for row, values in zip(weights, relevance, strict=True):
        levels, level = np.unique(values, return_inverse=True)
        counts = np.bincount(level, weights=sizes, minlength=len(levels))
        upto = np.cumsum(counts)
        below, above = upto - counts, upto[-1] - upto
        row[:] = (below - above)[level]
    return weights
