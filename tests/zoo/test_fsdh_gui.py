"""FSDH (Gui): descent, and majority votes of the random bits."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from hashlearn import FSDHGui
from hashlearn.codes import unpack
from hashlearn.zoo.bases.rounds import random_codes

X, Y = (part[:500] for part in load_digits(return_X_y=True))
SMALL = {"n_landmarks": 60, "random_state": 0}


def learned(hasher):
    return unpack(hasher.codes_, hasher.n_bits_).astype(np.float64) * 2 - 1


def first_bits(n_rows, n_bits):
    rng = np.random.RandomState(0)
    rng.randint(2**31)  # the landmarks' seed
    return random_codes(int(rng.randint(2**31)), slice(0, n_rows), n_bits)


@pytest.mark.parametrize("nu", [1e-5, 1.0])
@pytest.mark.parametrize("multi", [False, True])
def test_objective_never_rises(nu, multi):
    y = (np.random.RandomState(0).random_sample((500, 6)) < 0.3).astype(int) if multi else Y
    objective = FSDHGui(n_bits=12, nu=nu, **SMALL).fit(X, y).objective_
    assert objective.shape == (16,)
    assert np.all(np.diff(objective) <= 1e-6 * objective[0])
    assert objective[-1] < 0.9 * objective[0]


def test_objective_is_the_formula_at_the_end():
    hasher = FSDHGui(n_bits=10, nu=0.5, reg=2.0, ridge=0.1, **SMALL).fit(X, Y)
    B, T = learned(hasher), np.eye(10)[Y]
    G = np.linalg.solve(T.T @ T + 2.0 * np.eye(10), T.T @ B)
    K = np.column_stack([hasher.features_.map_block(X).astype(np.float64), np.ones(500)])
    P = np.linalg.solve(K.T @ K + 0.1 * np.eye(61), K.T @ B)
    wanted = ((B - T @ G) ** 2).sum() + 2 * (G**2).sum() + 0.5 * (((B - K @ P) ** 2).sum() + 0.1 * (P**2).sum())
    assert hasher.objective_[-1] == pytest.approx(wanted, rel=1e-5)
    np.testing.assert_allclose(hasher.decision_function(X), K @ P, atol=1e-3)


def test_codes_of_odd_classes_are_the_first_majority_votes():
    rows = np.concatenate([np.flatnonzero(c == Y)[:31] for c in range(10)])
    hasher = FSDHGui(n_bits=16, **SMALL).fit(X[rows], Y[rows])
    votes = np.eye(10)[Y[rows]].T @ first_bits(310, 16)
    np.testing.assert_array_equal(learned(hasher), np.sign(votes)[Y[rows]])
    once = FSDHGui(n_bits=16, max_iter=1, **SMALL).fit(X[rows], Y[rows])
    np.testing.assert_array_equal(once.codes_, hasher.codes_)


def test_a_tied_vote_keeps_the_bits():
    # Two rows a class: a bit they disagree on is a tie, and nu = 0 leaves the features out.
    rows = np.concatenate([np.flatnonzero(c == Y)[:2] for c in range(10)])
    hasher = FSDHGui(n_bits=16, nu=0.0, **SMALL).fit(X[rows], Y[rows])
    np.testing.assert_array_equal(learned(hasher), first_bits(20, 16))


def test_retrieves_held_out_rows():
    assert FSDHGui(n_bits=32, **SMALL).fit(X[:400], Y[:400]).score(X[400:], Y[400:]) > 0.6


def test_rows_without_labels_are_hashed():
    y = Y.astype(object)
    y[::4] = None
    hasher = FSDHGui(n_bits=16, **SMALL).fit(X, y)
    np.testing.assert_array_equal(hasher.codes_[::4], hasher.encode(X)[::4])
    known = np.arange(500) % 4 > 0
    assert len(np.unique(hasher.codes_[known], axis=0)) <= 20
