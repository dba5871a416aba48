"""KNNH: means of neighbors by brute force, tighter clusters, better neighbors than ITQ."""

import numpy as np
from sklearn.datasets import load_digits

from hashlearn import KNNH
from hashlearn.zoo import knnh
from hashlearn.zoo.knnh import neighbor_means


def test_neighbor_means_by_brute_force(monkeypatch):
    monkeypatch.setattr(knnh, "BLOCK", 7)
    rows = np.random.default_rng(0).normal(size=(30, 4)).astype(np.float32)
    found = neighbor_means(rows, 5)
    for row, mean in zip(rows, found, strict=True):
        nearest = np.argsort(((rows - row) ** 2).sum(axis=1))[:5]
        np.testing.assert_allclose(mean, rows[nearest].mean(axis=0), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(neighbor_means(rows, 1), rows)
    np.testing.assert_allclose(neighbor_means(rows, 99), np.tile(rows.mean(axis=0), (30, 1)), atol=1e-6)


def test_of_rows_at_the_same_distance_the_first_are_taken():
    """Otherwise the rounding of a matrix product would choose among them, and another machine would choose others."""
    rng = np.random.default_rng(0)
    corners = rng.integers(0, 2, size=(200, 8))
    rows = (corners - 0.5).astype(np.float32)
    found = neighbor_means(rows, 20)
    for own, mean in zip(corners, found, strict=True):
        nearest = np.argsort(((corners - own) ** 2).sum(axis=1), kind="stable")[:20]
        np.testing.assert_allclose(mean, rows[nearest].mean(axis=0), atol=1e-5)


def test_hashing_is_linear_around_the_mean_of_the_shrunk_rows():
    X, y = load_digits(return_X_y=True)
    hasher = KNNH(24, random_state=0, n_jobs=1).fit(X[:900])
    assert np.all(np.diff(hasher.losses_) <= 1e-6 * hasher.losses_[0])
    shrunk = neighbor_means((X[:900] - X[:900].mean(axis=0)).astype(np.float32), 20)
    middle = (shrunk.mean(axis=0) + X[:900].mean(axis=0))[None]
    assert np.abs(hasher.function_.project((middle - hasher.features_.center_).astype(np.float32))).max() < 1e-3
    alone = KNNH(24, n_neighbors=1, random_state=0, n_jobs=1).fit(X[:900])
    assert hasher.score(X[900:], y[900:]) > alone.score(X[900:], y[900:]) > 0.4


def test_a_sample_of_the_rows_suffices():
    X, y = load_digits(return_X_y=True)
    hasher = KNNH(24, n_samples=300, random_state=0, n_jobs=1).fit(X)
    assert hasher.codes_.shape == (1797, 3)
    assert hasher.score(X, y) > 0.4
