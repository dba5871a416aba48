"""KSH against direct sums on small data."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from hashlearn import KSH
from hashlearn.codes import unpack
from hashlearn.zoo.bases.primitives import LabelProduct
from hashlearn.zoo.ksh import Residual, descend, smooth_loss

X, Y = (part[:400] for part in load_digits(return_X_y=True))
SMALL = {"n_landmarks": 40, "n_samples": None, "max_iter": 20, "random_state": 0}


def signs(hasher, rows):
    return unpack(hasher.encode(rows), hasher.n_bits_).astype(np.float64) * 2 - 1


def label_sets(rng, n=400, c=8):
    sets = (rng.random_sample((n, c)) < 0.25).astype(int)
    sets[np.arange(n), Y[:n] % c] = 1
    return sets


def similarity(sets):
    shared = (sets @ sets.T).astype(np.float64)
    return np.where(shared > 0, shared, -shared.max() / 2) / shared.max()


@pytest.mark.parametrize("multi", [False, True])
def test_objective_is_the_squared_distance_to_similarity(multi):
    y = label_sets(np.random.RandomState(0)) if multi else Y
    hasher = KSH(n_bits=12, **SMALL).fit(X, y)
    S = similarity(y) if multi else np.where(Y[:, None] == Y, 1.0, -1.0)
    B = signs(hasher, X)
    assert hasher.objective_.shape == (13,)
    for k in (0, 1, 5, 12):
        direct = ((B[:, :k] @ B[:, :k].T - 12 * S) ** 2).sum()
        assert hasher.objective_[k] == pytest.approx(direct, rel=1e-9)
    if not multi:  # label sets drawn at random have nothing to do with the rows: which way it goes is chance
        assert hasher.objective_[3] < hasher.objective_[0]


def test_loss_stays_above_the_floor_of_balanced_classes():
    rows = np.concatenate([np.flatnonzero(c == Y)[:30] for c in range(10)])
    m = 16
    hasher = KSH(n_bits=m, **SMALL).fit(X[rows], Y[rows])
    rms = np.sqrt(hasher.objective_[-1]) / len(rows)
    floor = m * np.sqrt(1 - 1 / 10) * (1 - 1 / 9)
    assert floor <= rms < 1.08 * floor


def small_problem(seed=0):
    rng = np.random.RandomState(seed)
    K = rng.standard_normal((50, 6))
    residual = Residual(LabelProduct.from_labels(rng.randint(3, size=50)), 8)
    residual.subtract(np.where(rng.random_sample(50) < 0.5, 1.0, -1.0))
    return K, residual, rng.standard_normal(6)


def test_gradient_equals_finite_differences():
    K, residual, a = small_problem()
    gradient = K.T @ smooth_loss(residual, K @ a)[1]
    numeric = [
        (smooth_loss(residual, K @ (a + step))[0] - smooth_loss(residual, K @ (a - step))[0]) / 2e-6
        for step in 1e-6 * np.eye(6)
    ]
    np.testing.assert_allclose(gradient, numeric, rtol=1e-5)


@pytest.mark.parametrize("seed", range(3))
def test_descent_lowers_the_smooth_loss_to_a_flat_place(seed):
    K, residual, a = small_problem(seed)
    end, made = descend(K, residual, a, 1500, 0.0)
    assert 0 < made <= 1500
    before, after = (smooth_loss(residual, K @ point) for point in (a, end))
    assert after[0] < before[0]
    assert np.abs(K.T @ after[1]).max() < 1e-3 * np.abs(K.T @ before[1]).max()


def test_descent_beats_the_eigenvectors_it_starts_from():
    start = KSH(n_bits=8, **{**SMALL, "max_iter": 0}).fit(X, Y)
    end = KSH(n_bits=8, **SMALL).fit(X, Y)
    assert end.objective_[1] <= start.objective_[1]
    assert end.objective_[-1] < start.objective_[-1]


def test_near_classes_get_near_codes():
    hasher = KSH(n_bits=16, **SMALL).fit(X[:300], Y[:300])
    assert hasher.score(X[300:], Y[300:]) > 0.7


def test_rows_without_labels_only_centre_the_kernel():
    y = Y.astype(object)
    y[::3] = None
    hasher = KSH(n_bits=8, **SMALL).fit(X, y)
    known = np.flatnonzero(np.arange(400) % 3)
    B = signs(hasher, X)[known]
    S = np.where(Y[known, None] == Y[known], 1.0, -1.0)
    assert hasher.objective_[-1] == pytest.approx(((B @ B.T - 8 * S) ** 2).sum())
    np.testing.assert_array_equal(hasher.codes_, hasher.encode(X))
