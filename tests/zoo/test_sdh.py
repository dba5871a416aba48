"""SDH: the objective written out, its descent, and codes that follow label sets."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from hashlearn import SDH
from hashlearn.codes import unpack
from hashlearn.zoo.bases.rounds import random_codes

X, Y = (part[:500] for part in load_digits(return_X_y=True))
SMALL = {"n_landmarks": 60, "random_state": 0}


def learned(hasher):
    return unpack(hasher.codes_, hasher.n_bits_).astype(np.float64) * 2 - 1


def one_hot(y):
    return (np.asarray(y)[:, None] == np.unique(y)).astype(float)


@pytest.mark.parametrize("nu", [1e-5, 1.0])
@pytest.mark.parametrize("multi", [False, True])
def test_objective_never_rises(nu, multi):
    y = (np.random.RandomState(0).random_sample((500, 6)) < 0.3).astype(int) if multi else Y
    objective = SDH(n_bits=12, nu=nu, **SMALL).fit(X, y).objective_
    assert len(objective) >= 4
    assert np.all(np.diff(objective) <= 1e-6 * objective[0])
    assert objective[-1] < 0.9 * objective[0]


def test_objective_is_the_formula_at_the_end():
    hasher = SDH(n_bits=10, nu=0.5, reg=2.0, ridge=0.1, **SMALL).fit(X, Y)
    B, T = learned(hasher), one_hot(Y)
    G = np.linalg.solve(B.T @ B + 2.0 * np.eye(10), B.T @ T)
    K = hasher.features_.map_block(X).astype(np.float64)
    K = np.column_stack([K, np.ones(500)])
    P = np.linalg.solve(K.T @ K + 0.1 * np.eye(61), K.T @ B)
    wanted = ((T - B @ G) ** 2).sum() + 2 * (G**2).sum() + 0.5 * (((B - K @ P) ** 2).sum() + 0.1 * (P**2).sum())
    assert hasher.objective_[-1] == pytest.approx(wanted, rel=1e-5)
    np.testing.assert_allclose(hasher.decision_function(X), K @ P, atol=1e-3)


def test_no_single_bit_can_be_improved():
    hasher = SDH(n_bits=8, nu=0.0, max_iter=1, inner_iter=100, **SMALL).fit(X[:60], Y[:60])
    B, T = learned(hasher), one_hot(Y[:60])
    start = np.random.RandomState(0)
    start.randint(2**31)  # the landmarks' seed
    first = random_codes(int(start.randint(2**31)), slice(0, 60), 8)
    G = np.linalg.solve(first.T @ first + np.eye(8), first.T @ T)
    base = ((T - B @ G) ** 2).sum(axis=1)
    for k in range(8):
        flipped = B.copy()
        flipped[:, k] *= -1
        assert np.all(((T - flipped @ G) ** 2).sum(axis=1) >= base - 1e-12)


def test_a_class_collapses_to_few_codes():
    hasher = SDH(n_bits=16, **SMALL).fit(X, Y)
    assert len(np.unique(hasher.codes_, axis=0)) <= 20
    strict = SDH(n_bits=16, nu=100.0, **SMALL).fit(X, Y)
    assert len(np.unique(strict.codes_, axis=0)) > 50


def test_retrieves_held_out_rows():
    assert SDH(n_bits=16, **SMALL).fit(X[:400], Y[:400]).score(X[400:], Y[400:]) > 0.7


def test_rows_without_labels_are_hashed():
    y = Y.astype(object)
    y[::4] = None
    hasher = SDH(n_bits=16, **SMALL).fit(X, y)
    np.testing.assert_array_equal(hasher.codes_[::4], hasher.encode(X)[::4])
    known = np.arange(500) % 4 > 0
    assert (hasher.codes_[known] != hasher.encode(X)[known]).any()
    assert len(np.unique(hasher.codes_[known], axis=0)) <= 20
