"""Starting directions: the leading singular vectors, and a deliberate fill beyond the rank."""

import numpy as np
import pytest
from scipy import linalg

from hashlearn.pairwise.solver import _discriminants, discriminant_directions, leading_directions
from hashlearn.pairwise.supervision import AnchorProblem
from hashlearn.similarity import from_labels


@pytest.fixture
def setting():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 4, 60)
    X = rng.normal(size=(60, 9)) + np.eye(4, 9)[y] * 3
    X -= X.mean(axis=0)
    return X, y, AnchorProblem.from_similarity(from_labels(y), np.arange(60), 3)


@pytest.mark.parametrize("fill", ["random", "principal"])
def test_leading_columns_are_the_singular_vectors(setting, fill):
    X, y, problem = setting
    A = leading_directions(X, problem, 6, fill, np.random.RandomState(0))
    S = np.where(y[:, None] == y, 1.0, -1.0)
    left, strength, _ = np.linalg.svd(X.T @ S @ X)
    assert (strength > 1e-9 * strength[0]).sum() == 3
    np.testing.assert_allclose(np.abs(np.sum(A[:, :3] * left[:, :3], axis=0)), 1, atol=1e-8)
    np.testing.assert_allclose(A.T @ A, np.eye(6), atol=1e-8)


def test_principal_fill_follows_the_remaining_spread(setting):
    X, _, problem = setting
    A = leading_directions(X, problem, 9, "principal", np.random.RandomState(0))
    spread = (X @ A[:, 3:]).var(axis=0)
    assert (np.diff(spread) <= 1e-9).all()


def test_more_bits_than_features(setting):
    X, _, problem = setting
    A = leading_directions(X, problem, 20, "random", np.random.RandomState(0))
    assert A.shape == (9, 20)
    assert np.isfinite(A).all()
    assert np.linalg.matrix_rank(A) == 9


def test_the_same_seed_gives_the_same_directions(setting):
    X, _, problem = setting
    draws = [leading_directions(X, problem, 8, "random", np.random.RandomState(s)) for s in (1, 1, 2)]
    np.testing.assert_array_equal(draws[0], draws[1])
    assert not np.array_equal(draws[0], draws[2])


def scattered(n_features, n_classes=6, per_class=20, seed=0):
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(n_classes), per_class)
    X = rng.normal(size=(n_classes, n_features))[group] + rng.normal(size=(len(group), n_features))
    return X - X.mean(axis=0), group


@pytest.mark.parametrize("n_features", [30, 200], ids=["more rows", "more features"])
def test_discriminants_are_those_of_the_generalized_eigenproblem(n_features):
    X, group = scattered(n_features)
    means = np.array([X[group == k].mean(axis=0) for k in range(6)])
    within, between = X - means[group], means * np.sqrt(20 / 120)
    found = _discriminants(within, between)
    spread = within.T @ within / len(X)
    spread += 0.1 * np.trace(spread) / n_features * np.eye(n_features)
    assert found.shape == (n_features, 5)
    np.testing.assert_allclose(found.T @ spread @ found, np.eye(5), atol=1e-8)
    strength = linalg.eigh(between.T @ between, spread, eigvals_only=True)[::-1]
    np.testing.assert_allclose(found.T @ between.T @ between @ found, np.diag(strength[:5]), atol=1e-8)


@pytest.mark.parametrize("n_bits", [3, 5, 24], ids=["fewer bits than directions", "as many", "more"])
def test_signs_along_discriminant_directions_tell_classes_apart(n_bits):
    X, group = scattered(40)
    codes = np.sign(X @ discriminant_directions(X, group, n_bits, np.random.RandomState(0)))
    agree = codes @ codes.T / n_bits
    same = group[:, None] == group
    assert agree[same].mean() > 0.7
    assert agree[~same].mean() < 0.1


def test_discriminant_directions_of_many_classes_come_from_whole_classes(monkeypatch):
    X, group = scattered(20, n_classes=200, per_class=2)
    monkeypatch.setattr("hashlearn.pairwise.solver.MOST_DISCRIMINANT_ROWS", 100)
    directions = discriminant_directions(X, group, 8, np.random.RandomState(0))
    assert directions.shape == (20, 8)
    assert np.linalg.matrix_rank(directions) == 8


def test_rows_that_are_all_equal_have_no_discriminants():
    directions = discriminant_directions(np.zeros((6, 4)), np.arange(6) % 2, 3, np.random.RandomState(0))
    assert not directions.any()
