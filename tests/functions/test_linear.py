"""Ridge regression from sums: equal to the direct solution, whatever the chunks and the centre."""

import numpy as np
import pytest

from hashlearn.functions.linear import LinearFunction, RidgeFactor, RidgeSums


@pytest.fixture
def problem():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 12)).astype(np.float32) + 2
    T = np.sign(X @ rng.normal(size=(12, 5)) + rng.normal(size=(300, 5))).astype(np.float32)
    return X, T


def direct(X, T, ridge):
    X = X.astype(np.float64)
    return np.linalg.solve(X.T @ X + ridge * np.eye(X.shape[1]), X.T @ T)


def test_chunks_add_up_to_the_direct_solution(problem):
    X, T = problem
    sums = RidgeSums.from_rows(X[:100], T[:100])
    sums += RidgeSums.from_rows(X[100:], T[100:])
    np.testing.assert_allclose(LinearFunction.solve(sums, 1e-3).weights_, direct(X, T, 1e-3), rtol=1e-3, atol=1e-5)


def test_recentered_sums_are_those_of_centred_rows(problem):
    X, T = problem
    shift = X.mean(axis=0, dtype=np.float64)
    moved, centred = RidgeSums.from_rows(X, T).recentered(shift), RidgeSums.from_rows((X - shift).astype(np.float32), T)
    for name in ("count", "x", "xx", "xt", "t", "tt"):
        np.testing.assert_allclose(getattr(moved, name), getattr(centred, name), rtol=1e-4, atol=2e-3)


def test_a_singular_matrix_still_has_a_solution():
    X = np.ones((20, 3), dtype=np.float32)
    T = np.ones((20, 1), dtype=np.float32)
    weights = LinearFunction.solve(RidgeSums.from_rows(X, T), 1e-9).weights_
    np.testing.assert_allclose(X @ weights, 1, atol=1e-3)


def test_an_indefinite_matrix_is_lifted():
    """Rounding can leave eigenvalues below zero by more than the ridge: Cholesky fails, the answer must not."""
    sums = RidgeSums(10, np.zeros(2), np.array([[1.0, 0.0], [0.0, -0.01]]), np.eye(2), np.zeros(2), np.ones(2))
    np.testing.assert_allclose(LinearFunction.solve(sums, 1e-3).weights_, np.diag([1 / 1.001, 1000]), rtol=1e-5)


def test_where_cholesky_fails_late_the_matrix_is_what_it_was():
    """At the last of many pivots."""
    rng = np.random.default_rng(0)
    basis, _ = np.linalg.qr(rng.normal(size=(60, 60)))
    matrix = basis @ np.diag(np.append(np.linspace(1, 2, 59), -0.5)) @ basis.T
    matrix = (matrix + matrix.T) / 2
    targets = rng.normal(size=(60, 3))
    values, vectors = np.linalg.eigh(matrix)
    lifted = vectors @ np.diag(1 / (np.maximum(values, 0) + 0.1)) @ vectors.T
    before = matrix.copy()
    np.testing.assert_allclose(RidgeFactor(matrix, 0.1).solve(targets), lifted @ targets, rtol=1e-9)
    np.testing.assert_array_equal(matrix, before)


def test_intercept_is_added():
    function = LinearFunction(np.eye(2), intercept=np.array([1.0, -2.0]))
    assert function.project(np.zeros((1, 2), dtype=np.float32)).tolist() == [[1.0, -2.0]]


@pytest.mark.parametrize("ridge", [0, -1.0, "auto"])
def test_bad_ridges(problem, ridge):
    with pytest.raises(ValueError, match="'ridge' parameter must be a number above 0"):
        LinearFunction.solve(RidgeSums.from_rows(*problem), ridge)


def test_rows_in_double_precision_are_summed_in_double_precision():
    """One huge shared direction and tiny others: sums in single precision would drown the ridge."""
    rng = np.random.RandomState(0)
    X = (100 + 0.01 * rng.standard_normal((9000, 40))).astype(np.float32).astype(np.float64)
    T = rng.standard_normal((9000, 3))
    sums = RidgeSums.from_rows(X[:4096], T[:4096])
    sums += RidgeSums.from_rows(X[4096:], T[4096:])
    wanted = np.linalg.solve(X.T @ X + 1e-2 * np.eye(40), X.T @ T)
    assert np.abs(X @ (RidgeFactor(sums.xx, 1e-2).solve(sums.xt) - wanted)).max() < 1e-6
