"""KSDH: half-steps that only rise, the constraint, shift invariance, label sets, odd data."""

from functools import partial

import numpy as np
import pytest
from zoo_data import blobs

from hashlearn import KSDH, LandmarkKernel, codes

blobs = partial(blobs, d=30, c=5)


def direct_objective(hasher, X, S, B):
    """tr(B' G K A) with S written down."""
    features = hasher.features_.map_block(X) - hasher.features_.center_
    n, m = B.shape
    G = m * S + hasher.weight * m * n * np.eye(n)
    return np.trace(B.T @ G @ (features.astype(float) @ hasher.projection_))


def test_every_half_step_rises_and_the_last_equals_the_direct_sum():
    X, y = blobs()
    hasher = KSDH(n_bits=12, n_landmarks=40, random_state=0).fit(X, y)
    trace = hasher.objective_
    assert len(trace) >= 3
    assert np.all(np.diff(trace) >= -1e-9 * np.abs(trace[:-1]))
    assert trace[-1] > trace[0]
    S = np.where(y[:, None] == y[None, :], 1.0, -1.0)
    B = codes.unpack_signs(hasher.codes_, 12).astype(float)
    assert direct_objective(hasher, X, S, B) == pytest.approx(trace[-1], rel=1e-6)
    # B is the exact maximiser for that A: no single flip helps.
    worse = B.copy()
    worse[3, 5] *= -1
    assert direct_objective(hasher, X, S, worse) < trace[-1]


def test_projection_is_orthogonal_in_the_kernel_metric():
    X, y = blobs()
    hasher = KSDH(n_bits=12, n_landmarks=40, random_state=0).fit(X, y)
    K = (hasher.features_.map_block(X) - hasher.features_.center_).astype(float)
    A = hasher.projection_
    np.testing.assert_allclose(A.T @ K.T @ K @ A / len(X), np.eye(12), atol=5e-3)


@pytest.mark.parametrize("weight", [0.0, 0.01])
def test_centred_features_make_a_constant_in_S_irrelevant(weight, monkeypatch):
    from hashlearn.zoo import ksdh

    X, y = blobs()
    options = {"n_bits": 4, "n_landmarks": 40, "weight": weight, "refit": False, "random_state": 0}
    plain = KSDH(**options).fit(X, y)

    class Shifted(ksdh.LabelProduct):
        def __matmul__(self, Z):
            return super().__matmul__(Z) + 0.7 * Z.sum(axis=0)

        def quadratic(self, X):
            return super().quadratic(X) + 0.7 * np.outer(X.sum(axis=0), X.sum(axis=0))

    monkeypatch.setattr(ksdh, "LabelProduct", Shifted)
    shifted = KSDH(**options).fit(X, y)
    np.testing.assert_array_equal(shifted.codes_, plain.codes_)
    np.testing.assert_allclose(shifted.projection_, plain.projection_, atol=1e-2)
    # Yet the shift is real: rows that are not centred do notice it.
    uncentred = KSDH(**options, kernel="rbf-fixed").fit(X, y)
    monkeypatch.undo()
    again = KSDH(**options, kernel="rbf-fixed").fit(X, y)
    assert abs(uncentred.objective_[-1] / again.objective_[-1] - 1) > 1e-2


def test_variant_h_hashes_its_codes_by_the_projection():
    X, y = blobs()
    hasher = KSDH(n_bits=8, variant="H", refit=False, n_landmarks=40, random_state=0).fit(X, y)
    np.testing.assert_array_equal(hasher.codes_, hasher.encode(X))
    np.testing.assert_allclose(hasher.function_.weights_, hasher.projection_, rtol=1e-6)


def test_refit_helps_when_bits_outnumber_classes():
    X, y = blobs(n=600, d=20, c=4)
    X += np.random.default_rng(1).normal(size=X.shape).astype(np.float32)
    options = {"n_bits": 32, "n_landmarks": 100, "random_state": 0}
    train, test = slice(0, 400), slice(400, 600)
    refitted = KSDH(**options).fit(X[train], y[train]).score(X[test], y[test])
    direct = KSDH(**options, refit=False).fit(X[train], y[train]).score(X[test], y[test])
    assert refitted > direct + 0.05


def test_label_sets_use_graded_similarity():
    rng = np.random.default_rng(0)
    Y = (rng.random((150, 4)) < 0.4).astype(int)
    Y[Y.sum(axis=1) == 0, 0] = 1
    X = (Y @ rng.normal(size=(4, 10)) + 0.1 * rng.normal(size=(150, 10))).astype(np.float32)
    hasher = KSDH(n_bits=8, n_landmarks=30, random_state=0).fit(X, Y)
    shared = Y @ Y.T
    largest = shared.max()
    S = np.where(shared == 0, -largest / 2, shared) / largest
    B = codes.unpack_signs(hasher.codes_, 8).astype(float)
    assert direct_objective(hasher, X, S, B) == pytest.approx(hasher.objective_[-1], rel=1e-6)


def test_unlabeled_rows_are_hashed_and_do_not_teach():
    X, y = blobs()
    y = np.where(np.arange(len(y)) < 30, np.nan, y.astype(float))
    hasher = KSDH(n_bits=8, n_landmarks=40, random_state=0).fit(X, y)
    np.testing.assert_array_equal(hasher.codes_[:30], hasher.encode(X[:30]))
    assert hasher.objective_[-1] <= 8 * 8 * 170**2 * 1.01  # sums over the 170 labelled rows only


def test_odd_data():
    X, y = blobs(n=20)
    with pytest.raises(ValueError, match="5 features for 8 bits"):
        KSDH(n_bits=8, n_landmarks=5).fit(X, y)
    assert KSDH(n_bits=4, random_state=0).fit(np.ones((20, 3)), y).codes_.shape == (20, 1)


def test_more_bits_than_classes_do_not_depend_on_rounding(monkeypatch):
    """The kernel features of two machines differ in their last digits; the codes hardly do."""
    X, y = blobs()
    plain = KSDH(n_bits=24, n_landmarks=60, random_state=0).fit(X, y)
    map_block = LandmarkKernel.map_block

    def rounded_otherwise(self, X, dtype=np.float32):
        mapped = map_block(self, X, dtype)
        return mapped * (1 + 1e-7 * np.random.default_rng(0).choice([-1, 0, 1], mapped.shape)).astype(dtype)

    monkeypatch.setattr(LandmarkKernel, "map_block", rounded_otherwise)
    other = KSDH(n_bits=24, n_landmarks=60, random_state=0).fit(X, y)
    assert np.mean(codes.unpack(plain.codes_, 24) != codes.unpack(other.codes_, 24)) < 0.01
    assert np.mean(plain.transform(X) != other.transform(X)) < 0.01
