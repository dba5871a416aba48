"""Starting directions: the leading singular vectors, and a deliberate fill beyond the rank."""

import numpy as np
import pytest

from hashlearn.similarity import from_labels
from hashlearn.solvers.problem import AnchorProblem
from hashlearn.solvers.start import leading_directions


@pytest.fixture
def setting():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 4, 60)
    X = rng.normal(size=(60, 9)) + np.eye(4, 9)[y] * 3
    X -= X.mean(axis=0)
    return X, y, AnchorProblem.of_anchors(from_labels(y), np.arange(60), 3)


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
