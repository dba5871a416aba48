"""SSH: orthogonal directions, eigenvalues that are the objective, PCA in the limit, the sequential rule."""

from functools import partial

import numpy as np
import pytest
from zoo_data import blobs

from hashlearn import SSH
from hashlearn.zoo.ssh import cholesky_factor, sequential

blobs = partial(blobs, d=8)


def matrix_of(X, S, eta=1.0):
    centred = (X - X.mean(axis=0)).astype(float)
    fit, variance = centred.T @ S @ centred, centred.T @ centred
    return fit + eta * np.trace(fit) / np.trace(variance) * variance


@pytest.mark.parametrize("variant", ["orthogonal", "sequential"])
def test_directions_are_orthonormal(variant):
    X, y = blobs()
    W = SSH(n_bits=8, variant=variant, random_state=0).fit(X, y).function_.weights_
    np.testing.assert_allclose(W.T @ W, np.eye(8), atol=1e-5)


@pytest.mark.parametrize("sets", [False, True])
def test_eigenvalues_sum_to_twice_the_objective(sets):
    X, y = blobs()
    labels = np.stack([y == 0, y <= 1, y >= 2, y == 3], axis=1).astype(int) if sets else y
    related = labels @ labels.T > 0 if sets else y[:, None] == y[None, :]
    hasher = SSH(n_bits=4, variant="orthogonal", random_state=0).fit(X, labels)
    W = hasher.function_.weights_.astype(float)
    M = matrix_of(X, np.where(related, 1.0, -1.0))
    assert hasher.eigenvalues_.sum() == pytest.approx(np.trace(W.T @ M @ W), rel=1e-4)
    assert hasher.eigenvalues_.sum() == pytest.approx(np.linalg.eigvalsh(M)[-4:].sum(), rel=1e-4)


def test_much_variance_is_pca():
    X, y = blobs()
    W = SSH(n_bits=3, variant="orthogonal", eta=1e9, random_state=0).fit(X, y).function_.weights_
    _, _, components = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)
    np.testing.assert_allclose(np.abs(components[:3] @ W), np.eye(3), atol=1e-3)
    supervised = SSH(n_bits=3, variant="orthogonal", eta=0.0, random_state=0).fit(X, y).function_.weights_
    assert np.abs(np.abs(components[:3] @ supervised) - np.eye(3)).max() > 1e-2


def test_first_sequential_bit_is_the_top_eigenvector_and_without_steps_all_are():
    X, y = blobs()
    orthogonal = SSH(n_bits=4, variant="orthogonal", random_state=0).fit(X, y).function_.weights_
    still = SSH(n_bits=4, step=0.0, random_state=0).fit(X, y).function_.weights_
    moving = SSH(n_bits=4, step=1.0, random_state=0).fit(X, y).function_.weights_
    np.testing.assert_allclose(still, orthogonal, atol=1e-4)
    np.testing.assert_allclose(moving[:, 0], orthogonal[:, 0], atol=1e-4)
    assert np.abs(moving - orthogonal).max() > 1e-3


def test_sequential_equals_the_plain_loop():
    rng = np.random.RandomState(0)
    L, S = rng.normal(size=(12, 5)), np.where(rng.rand(12, 12) < 0.5, 1.0, -1.0)
    S = np.triu(S) + np.triu(S, 1).T
    C = L.T @ L
    values, W = sequential(L, S, C, 3, 0.7)
    X = L.copy()
    for k in range(3):
        top, vectors = np.linalg.eigh(L.T @ S @ L + X.T @ X)
        w = vectors[:, -1]
        assert values[k] == pytest.approx(top[-1])
        assert abs(w @ W[:, k]) == pytest.approx(1.0)
        T = L @ np.outer(w, w) @ L.T
        T /= np.abs(T).max()
        S = np.where(T * S < 0, S - 0.7 * T, S)
        L, X = L - L @ np.outer(w, w), X - X @ np.outer(w, w)


def test_directions_never_repeat_even_where_all_remaining_ones_are_bad():
    L = np.random.RandomState(0).normal(size=(10, 4))
    _, W = sequential(L, -np.ones((10, 10)) - np.eye(10), np.zeros((4, 4)), 4, 1.0)
    np.testing.assert_allclose(W.T @ W, np.eye(4), atol=1e-9)


def test_cholesky_factor_exists_for_indefinite_matrices():
    M = np.diag([-5.0, 1.0, 3.0])
    T = cholesky_factor(M, 0.5)
    np.testing.assert_allclose(T @ T.T, np.eye(3) + M / (5.0 + 1.5))
    X, y = blobs()
    hasher = SSH(n_bits=4, variant="non-orthogonal", random_state=0).fit(X, y)
    U = SSH(n_bits=4, variant="orthogonal", random_state=0).fit(X, y).function_.weights_
    M = matrix_of(X, np.where(y[:, None] == y[None, :], 1.0, -1.0))
    np.testing.assert_allclose(hasher.function_.weights_, cholesky_factor(M, 1.0) @ U, rtol=1e-3, atol=1e-4)


def test_unlabeled_rows_teach_variance_only():
    X, y = blobs()
    partly = y.astype(float)
    partly[:100] = np.nan
    far = X.copy()
    far[:100, 3] *= 30  # a loud feature among unlabelled rows
    W = SSH(n_bits=1, variant="orthogonal", random_state=0, eta=10.0).fit(far, partly).function_.weights_
    assert abs(W[3, 0]) > 0.99
    ignored = SSH(n_bits=1, variant="orthogonal", random_state=0, eta=0.0).fit(far, partly).function_.weights_
    assert abs(ignored[3, 0]) < 0.99


def test_retrieves_from_a_sample():
    X, y = blobs(n=400)
    hasher = SSH(n_bits=8, n_samples=60, random_state=0).fit(X, y)
    assert hasher.score(X, y) > 0.5
    np.testing.assert_array_equal(hasher.codes_, hasher.encode(X))


@pytest.mark.parametrize("variant", ["sequential", "orthogonal", "non-orthogonal"])
def test_odd_data(variant):
    X, y = blobs(n=20)
    assert SSH(n_bits=4, variant=variant).fit(np.ones((20, 3)), y).codes_.shape == (20, 1)
    assert SSH(n_bits=4, variant=variant).fit(X[:2, :1], [0, 1]).codes_.shape == (2, 1)
