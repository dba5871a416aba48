"""Bits from class posteriors: the scores of discriminant analysis, and the expected code."""

import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from hashlearn import AutoHasher
from hashlearn.functions import posterior
from hashlearn.functions.linear import HeldOutRows, RidgeSums
from hashlearn.functions.posterior import ClassScores, ClassSums, fit_posterior


def data(n_classes, seed=0, per_class=30, width=12):
    rng = np.random.default_rng(seed)
    group = np.tile(np.arange(n_classes), per_class)
    X = rng.normal(size=(n_classes, width))[group] + rng.normal(size=(len(group), width))
    return X.astype(np.float32), group


def sums_of(X, group):
    by_class = np.array([X[group == k].sum(axis=0, dtype=np.float64) for k in range(group.max() + 1)])
    return ClassSums(RidgeSums.from_rows(X, np.zeros((len(X), 0))), by_class, np.bincount(group).astype(float))


def test_classes_are_those_of_scikit_learn():
    X, group = data(7)
    mean = X.mean(axis=0, dtype=np.float64)
    found = ClassScores.learn(sums_of(X, group), mean, 1e-9)
    scores = (X - mean) @ found.directions @ found.means.T + found.biases
    wanted = LinearDiscriminantAnalysis(solver="lsqr", priors=np.full(7, 1 / 7)).fit(X, group).predict(X)
    assert (scores.argmax(axis=1) == wanted).mean() > 0.99


def test_fewer_directions_than_classes_keep_the_strongest(monkeypatch):
    X, group = data(40, per_class=10, width=30)
    whole = ClassScores.learn(sums_of(X, group), X.mean(axis=0, dtype=np.float64), 0.1)
    monkeypatch.setattr(posterior, "MOST_DIRECTIONS", 20)
    some = ClassScores.learn(sums_of(X, group), X.mean(axis=0, dtype=np.float64), 0.1)
    assert (whole.directions.shape[1], some.directions.shape[1]) == (30, 20)
    # Distances between class means along 20 directions are the largest part of those along all of them.
    assert (some.means**2).sum() > 0.85 * (whole.means**2).sum()


def test_the_expected_code_is_that_of_the_posteriors():
    X, group = data(5)
    codes = np.random.default_rng(1).choice([-1.0, 1.0], size=(5, 16))
    mean = X.mean(axis=0, dtype=np.float64)
    held = HeldOutRows(X[:50], X[:50, :0], X[:50, :0], group[:50], np.zeros(50, dtype=np.intp))
    function = fit_posterior(sums_of(X, group), codes, held, mean)
    x = X - mean.astype(np.float32)
    scores = x @ function.directions_ @ function.means_.T + function.biases_
    p = np.exp(scores - scores.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(np.tanh(function.project(x) / 2), p @ codes, atol=1e-4)
    # Of these well separated classes most rows are certain, and right.
    assert p[np.arange(len(p)), group].mean() > 0.8
    assert function.temperature_ in posterior.TEMPERATURES


@pytest.mark.parametrize("n_rows", [0, 1])
def test_no_rows_and_one_row(n_rows):
    X, group = data(3)
    held = HeldOutRows(X[:9], X[:9, :0], X[:9, :0], group[:9], np.zeros(9, dtype=np.intp))
    function = fit_posterior(sums_of(X, group), np.ones((3, 4)), held, X.mean(axis=0, dtype=np.float64))
    assert function.project(X[:n_rows]).shape == (n_rows, 4)


def test_features_that_hardly_vary_within_classes():
    """What is left of their covariance is rounding, which may be negative."""
    within = np.full((20, 20), -1e-8)
    lower = posterior._damped_cholesky(within.copy(), 1e-2)
    assert np.isfinite(lower).all()
    plain = np.cov(np.random.default_rng(0).normal(size=(50, 20)), rowvar=False)
    damped = plain + 1e-2 * np.trace(plain) / 20 * np.eye(20)
    np.testing.assert_allclose(posterior._damped_cholesky(plain, 1e-2), np.linalg.cholesky(damped))


def test_one_feature_is_enough_for_a_hasher():
    classes = ["a", "b", "c", "d"] * 100
    hasher = AutoHasher(64, random_state=0).fit(np.arange(400)[:, None] / 4, classes)
    assert hasher.codes_.shape == (400, 8)
