"""The anchor kernel against its definition, and as a scikit-learn transformer."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.utils.estimator_checks import parametrize_with_checks

from hashlearn import LandmarkKernel


@parametrize_with_checks([LandmarkKernel(n_landmarks=10)])
def test_is_a_transformer(estimator, check):
    check(estimator)


def definition(X, Q, kernel):
    """Section 5 of the method, one row and landmark at a time, in double precision."""

    def unit(rows):
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)

    mean = unit(X).mean(axis=0)
    train, query = unit(X) - mean, unit(Q) - mean
    landmarks = np.array([train[np.argmin(((train - row) ** 2).sum(axis=1))] for row in kernel.landmarks_])
    squares = np.array([[((x - mark) ** 2).sum() for mark in landmarks] for x in train])
    tau = squares.mean()
    features = np.exp(-squares / (2 * tau))
    asked = np.array([[np.exp(-((x - mark) ** 2).sum() / (2 * tau)) for mark in landmarks] for x in query])
    return asked - features.mean(axis=0), tau


def test_equals_its_definition():
    rng = np.random.default_rng(0)
    X, Q = rng.normal(size=(80, 6)) + 1, rng.normal(size=(9, 6))
    kernel = LandmarkKernel(n_landmarks=12, random_state=1).fit(X)
    expected, tau = definition(X, Q, kernel)
    assert kernel.bandwidth_ == pytest.approx(tau, rel=1e-5)
    np.testing.assert_allclose(kernel.transform(Q), expected, atol=2e-6)
    np.testing.assert_allclose(kernel.transform(X).mean(axis=0), 0, atol=1e-6)


def test_sparse_rows_give_the_same_features():
    X = sparse.random(100, 30, density=0.2, random_state=0, format="csr")
    dense = LandmarkKernel(20, random_state=0).fit_transform(X.toarray())
    np.testing.assert_allclose(LandmarkKernel(20, random_state=0).fit_transform(X), dense, atol=1e-6)


def test_threads_change_nothing():
    X = np.random.default_rng(0).normal(size=(5000, 7))
    one, two = (LandmarkKernel(50, random_state=0, n_jobs=jobs).fit_transform(X) for jobs in (1, 2))
    np.testing.assert_array_equal(one, two)


def test_odd_rows():
    constant = np.ones((10, 3))
    assert np.isfinite(LandmarkKernel(5).fit_transform(constant)).all()
    with_zero = np.vstack([np.zeros(3), np.eye(3)])
    assert np.isfinite(LandmarkKernel(5).fit_transform(with_zero)).all()
    assert LandmarkKernel(1000).fit(with_zero).landmarks_.shape == (4, 3)
    with pytest.raises(ValueError, match=r"'n_landmarks' parameter must be 'auto' or at least 1\. Got 0"):
        LandmarkKernel(0).fit(with_zero)


def test_features_of_more_landmarks_follow_from_those_before():
    """The weights are exact for rows that are landmarks, and close for rows like them."""
    X = np.random.default_rng(0).normal(size=(400, 4)).astype(np.float32)
    kernel = LandmarkKernel(300, random_state=0)
    kernel.fit_landmarks(X[:350])
    before = kernel.map_block(X, np.float64)
    weights = kernel.add_landmarks(X[350:], ridge=1e-3)
    after = kernel.map_block(X, np.float64)
    assert weights.shape == (350, 300)
    np.testing.assert_allclose(after[:, :300], before)
    np.testing.assert_allclose(before @ weights.T, after, atol=0.02)
