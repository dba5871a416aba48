"""Rank weights against the count over all pairs of items."""

import numpy as np

from hashlearn.zoo.bases.primitives import rank_weights


def test_counts_items_below_minus_items_above():
    rng = np.random.RandomState(0)
    relevance = rng.randint(0, 4, size=(5, 7)).astype(float)
    relevance[0] = rng.standard_normal(7)
    sizes = rng.randint(1, 5, size=7).astype(float)
    items = np.repeat(np.arange(7), sizes.astype(int))
    found = rank_weights(relevance, sizes)
    for q in range(5):
        for k in range(7):
            levels = relevance[q, items]
            assert found[q, k] == (levels < relevance[q, k]).sum() - (levels > relevance[q, k]).sum()
    np.testing.assert_allclose(found @ sizes, 0, atol=1e-12)
