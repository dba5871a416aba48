"""FSDH: Hadamard class codes are optimal, distinct and free of repeated columns."""

import numpy as np
import pytest
from scipy.linalg import hadamard as sylvester
from sklearn.datasets import load_digits

from hashlearn import FSDH
from hashlearn.codes import pack
from hashlearn.zoo.fsdh import class_codes, hadamard, useful_columns

X, Y = (part[:500] for part in load_digits(return_X_y=True))
SMALL = {"n_landmarks": 60, "random_state": 0}


def least_label_loss(codes, size, reg):
    """min over G of |Y - B G|^2 + reg |G|^2, summed over the rows of balanced classes."""
    B = np.repeat(codes, size, axis=0).astype(float)
    T = np.repeat(np.eye(len(codes)), size, axis=0)
    G = np.linalg.solve(B.T @ B + reg * np.eye(B.shape[1]), B.T @ T)
    return ((T - B @ G) ** 2).sum() + reg * (G**2).sum()


@pytest.mark.parametrize("least", [1, 2, 3, 7, 12, 17, 23, 25, 45, 48, 65, 100])
def test_hadamard_rows_are_orthogonal(least):
    H = hadamard(least)
    assert len(H) >= least
    assert set(np.unique(H)) <= {-1, 1}
    np.testing.assert_array_equal(H @ H.T, len(H) * np.eye(len(H)))


def test_orders_between_powers_of_two():
    assert [len(hadamard(k)) for k in (9, 20, 24, 33, 48)] == [12, 20, 24, 40, 48]


@pytest.mark.parametrize("n_bits", [12, 16, 48])
def test_class_codes_reach_the_least_loss(n_bits):
    c, size, reg = 10, 5, 1.0
    found = least_label_loss(class_codes(c, n_bits, np.random.RandomState(0)), size, reg)
    assert found == pytest.approx(size * c * reg / (size * n_bits + reg), rel=1e-9)
    rng = np.random.RandomState(1)
    others = [least_label_loss(rng.choice([-1, 1], (c, n_bits)), size, reg) for _ in range(100)]
    assert found < min(others)


def test_no_column_repeats_where_the_first_rows_repeat_many():
    assert useful_columns(sylvester(64)[:10]) == 15
    codes = class_codes(10, 64, np.random.RandomState(0))
    assert useful_columns(codes) == 64
    np.testing.assert_array_equal(codes.astype(int) @ codes.T, 64 * np.eye(10))


def test_useful_columns_by_hand():
    # Columns: a, a again, a flipped, constant, b.
    assert useful_columns(np.array([[1, 1, -1, 1, 1], [-1, -1, 1, 1, 1], [1, 1, -1, 1, -1]])) == 2


@pytest.mark.parametrize(("c", "n_bits"), [(1, 3), (2, 1), (10, 4), (10, 8), (10, 37), (100, 16), (256, 8), (200, 8)])
def test_codes_differ_whatever_the_numbers(c, n_bits):
    codes = class_codes(c, n_bits, np.random.RandomState(0))
    assert codes.shape == (c, n_bits)
    assert set(np.unique(codes)) <= {-1, 1}
    assert len(np.unique(codes, axis=0)) == c


def test_too_few_bits_for_the_classes():
    with pytest.raises(ValueError, match="10 classes need at least 4 bits"):
        FSDH(n_bits=3).fit(X, Y)


def test_learned_codes_are_those_of_the_classes():
    hasher = FSDH(n_bits=16, **SMALL).fit(X, Y)
    np.testing.assert_array_equal(hasher.codes_, pack(hasher.class_codes_[Y]))
    K = hasher.features_.map_block(X).astype(np.float64)
    B = hasher.class_codes_[Y].astype(float)
    P = np.linalg.solve(K.T @ K + 1e-2 * np.eye(60), K.T @ B)
    np.testing.assert_allclose(hasher.decision_function(X), K @ P, atol=1e-3)


def test_retrieves_held_out_rows():
    assert FSDH(n_bits=16, **SMALL).fit(X[:400], Y[:400]).score(X[400:], Y[400:]) > 0.7


def test_label_sets_are_refused():
    with pytest.raises(ValueError, match="FSDH takes one class per row"):
        FSDH(n_bits=8).fit(X, np.eye(10, dtype=int)[Y] | np.eye(10, dtype=int)[(Y + 1) % 10])


def test_rows_without_labels_are_hashed():
    y = Y.astype(float)
    y[::4] = np.nan
    hasher = FSDH(n_bits=16, **SMALL).fit(X, y)
    np.testing.assert_array_equal(hasher.codes_[::4], hasher.encode(X)[::4])
    known = np.arange(500) % 4 > 0
    np.testing.assert_array_equal(hasher.codes_[known], pack(hasher.class_codes_[Y[known]]))
