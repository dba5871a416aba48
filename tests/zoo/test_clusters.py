"""Cluster centres: means of their rows, all different, the same for the same seed."""

import numpy as np

from hashlearn.zoo.bases.primitives import cluster_centers


def test_centres_sit_in_the_clusters():
    rng = np.random.RandomState(0)
    corners = np.array([[0, 0], [10, 0], [0, 10]], dtype=np.float32)
    X = (corners[rng.randint(3, size=300)] + 0.1 * rng.standard_normal((300, 2))).astype(np.float32)
    found = cluster_centers(X, 3, np.random.RandomState(0))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found[np.lexsort(found.round().T)], corners, atol=0.1)
    assert (found == cluster_centers(X, 3, np.random.RandomState(0))).all()
    sampled = cluster_centers(X, 3, np.random.RandomState(0), n_samples=50)
    np.testing.assert_allclose(sampled[np.lexsort(sampled.round().T)], corners, atol=0.1)


def test_no_more_centres_than_different_rows():
    X = np.repeat(np.arange(6, dtype=np.float32).reshape(3, 2), 20, axis=0)
    assert cluster_centers(X, 10, np.random.RandomState(0)).tolist() == [[0, 1], [2, 3], [4, 5]]
