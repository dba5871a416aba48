"""LDAHash: spreads without pairs, directions as scipy has them, thresholds as enumeration has them, odd data."""

from functools import partial

import numpy as np
import pytest
from scipy import linalg
from zoo_data import blobs

from hashlearn import LDAHash
from hashlearn.labels import label_matrix
from hashlearn.zoo.ldahash import best_threshold, pair_spreads

blobs = partial(blobs, d=8)


def label_sets(n, seed=0):
    Y = (np.random.default_rng(seed).random((n, 4)) < 0.35).astype(int)
    Y[Y.sum(axis=1) == 0, 2] = 1
    return Y


@pytest.mark.parametrize("sets", [False, True])
def test_spreads_equal_the_sum_over_pairs(sets):
    X, y = blobs(n=30)
    X = X.astype(float)
    labels = label_sets(30) if sets else y
    related = labels @ labels.T > 0 if sets else y[:, None] == y[None, :]
    similar, dissimilar = pair_spreads(X, label_matrix(labels))
    difference = X[:, None] - X[None]
    outer = difference[..., :, None] * difference[..., None, :]
    np.testing.assert_allclose(similar, outer[related].mean(axis=0), atol=1e-9)
    np.testing.assert_allclose(dissimilar, outer[~related].mean(axis=0), atol=1e-9)


def test_spreads_of_classes_follow_from_their_covariances():
    X, y = blobs(n=50, c=3)
    X = X.astype(float)
    similar, _ = pair_spreads(X, label_matrix(y))
    sizes = np.bincount(y)
    expected = 2 * sum(n**2 * np.cov(X[y == k].T, bias=True) for k, n in enumerate(sizes)) / (sizes**2).sum()
    np.testing.assert_allclose(similar, expected, atol=1e-9)


def test_directions_are_the_smallest_generalised_eigenvectors():
    X, y = blobs()
    hasher = LDAHash(n_bits=5, ridge=1e-9, random_state=0).fit(X, y)
    similar, dissimilar = pair_spreads((X - X.mean(axis=0)).astype(float), label_matrix(y))
    W = hasher.function_.weights_.astype(float)
    between = W.T @ dissimilar @ W
    np.testing.assert_allclose(between, np.eye(5), atol=1e-4)
    within = W.T @ similar @ W
    np.testing.assert_allclose(within, np.diag(linalg.eigh(similar, dissimilar)[0][:5]), atol=1e-4)


def test_difference_directions():
    X, y = blobs()
    hasher = LDAHash(n_bits=5, variant="difference", alpha=2.0, random_state=0).fit(X, y)
    similar, dissimilar = pair_spreads((X - X.mean(axis=0)).astype(float), label_matrix(y))
    W = hasher.function_.weights_.astype(float)
    values = linalg.eigh(2.0 * similar - dissimilar)[0][:5]
    np.testing.assert_allclose(W.T @ (2.0 * similar - dissimilar) @ W, np.diag(values), atol=1e-4)


@pytest.mark.parametrize("seed", range(6))
def test_threshold_equals_trying_all(seed):
    rng = np.random.RandomState(seed)
    left, right = rng.randint(0, 12, size=(2, 25)).astype(float)  # with ties
    similar = rng.rand(25) < 0.5
    threshold, error = best_threshold(left, right, similar)

    def cost(t):
        apart = (left >= t) != (right >= t)
        return apart[similar].mean() + (~apart[~similar]).mean()

    tries = np.arange(0.5, 12)
    inside = tries[(tries > min(left.min(), right.min())) & (tries < max(left.max(), right.max()))]
    assert error == pytest.approx(min(cost(t) for t in inside))
    assert cost(threshold) == pytest.approx(error)


def test_thresholds_separate_classes():
    X = np.concatenate([np.full(20, 3.0), np.full(20, 9.0)])[:, None] + 0.1 * np.arange(40)[:, None] % 0.5
    y = np.repeat([0, 1], 20)
    hasher = LDAHash(n_bits=1, random_state=0).fit(X, y)
    assert hasher.errors_[0] == pytest.approx(0.0)
    assert len(set(hasher.transform(X)[:, 0][y == 0])) == 1
    assert hasher.score(X[::3], y[::3]) == 1.0


def test_more_bits_than_features_and_no_constant_bit():
    X, y = blobs(d=3)
    bits = LDAHash(n_bits=20, random_state=0).fit(X, y).transform(X)
    assert bits.shape == (200, 20)
    assert (bits.min(axis=0) < bits.max(axis=0)).all()
    assert len(np.unique(bits, axis=1).T) > 3


@pytest.mark.slow
def test_retrieves_label_sets_better_than_chance():
    Y = label_sets(300)
    X = Y @ np.random.default_rng(1).normal(size=(4, 12)) + 0.3 * np.random.default_rng(2).normal(size=(300, 12))
    shuffled = Y[np.random.default_rng(3).permutation(300)]
    assert LDAHash(n_bits=12, random_state=0).fit(X, Y).score(X, Y) > 0.05 + LDAHash(n_bits=12, random_state=0).fit(
        X, shuffled
    ).score(X, Y)


def test_unlabeled_rows_do_not_teach():
    X, y = blobs()
    partly = y.astype(float)
    partly[:40] = np.nan
    swapped = X.copy()
    swapped[:40] = swapped[:40][::-1]  # the same centre, other unlabelled rows
    one, two = (LDAHash(n_bits=8, random_state=0).fit(rows, partly) for rows in (X, swapped))
    np.testing.assert_allclose(one.function_.weights_, two.function_.weights_, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(one.codes_, one.encode(X))


def test_odd_data():
    X, y = blobs(n=20)
    assert LDAHash(n_bits=4).fit(X, np.arange(20)).codes_.shape == (20, 1)
    assert LDAHash(n_bits=4).fit(np.ones((20, 3)), y).codes_.shape == (20, 1)
    with pytest.raises(ValueError, match="All labeled rows have the same label"):
        LDAHash(n_bits=4).fit(X, [0.0] + [np.nan] * 19)
