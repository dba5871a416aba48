"""ADGH: three steps that only rise, the graph without a graph, classes only, odd data."""

from functools import partial

import numpy as np
import pytest
from zoo_data import blobs

from hashlearn import ADGH, LandmarkKernel, codes

blobs = partial(blobs, d=30, c=5)


def features_of(hasher, X):
    return (hasher.features_.map_block(X) - hasher.features_.center_).astype(float)


def test_every_step_rises_and_the_last_equals_the_direct_sum():
    X, y = blobs(spread=0.5)
    hasher = ADGH(n_bits=12, n_landmarks=40, n_anchors=50, random_state=0).fit(X, y)
    trace = hasher.objective_
    assert len(trace) >= 5
    assert np.all(np.diff(trace) >= -1e-9 * np.abs(trace[:-1]))
    assert trace[-1] > trace[0]
    # The graph written down with 10 anchors a class.
    anchor_class = np.repeat(np.arange(5), 10)
    T = (y[:, None] == anchor_class[None, :]).astype(float)
    A = T / np.sqrt(T.sum(axis=1, keepdims=True) * T.sum(axis=0, keepdims=True))
    assert np.linalg.norm(A, 2) == pytest.approx(1.0)
    B = codes.unpack_signs(hasher.codes_, 12).astype(float)
    P = hasher.anchor_codes_[anchor_class]
    KW = features_of(hasher, X) @ hasher.projection_
    assert np.sum(B * (A @ P)) + hasher.weight * np.sum(B * KW) == pytest.approx(trace[-1], rel=1e-9)
    # Both discrete factors are exact maximisers given the rest.
    np.testing.assert_array_equal(P, np.sign(A.T @ B + 1e-12 * P))
    np.testing.assert_array_equal(B, np.sign(A @ P + hasher.weight * KW))


def test_projection_is_orthogonal_in_the_kernel_metric():
    X, y = blobs()
    hasher = ADGH(n_bits=12, n_landmarks=40, random_state=0).fit(X, y)
    KW = features_of(hasher, X) @ hasher.projection_
    np.testing.assert_allclose(KW.T @ KW / len(X), np.eye(12), atol=5e-3)


def test_separable_classes_get_codes_of_their_own():
    X, y = blobs(n=300, c=6, spread=5.0)
    hasher = ADGH(n_bits=16, n_landmarks=60, random_state=0).fit(X, y)
    own = {tuple(code) for code in hasher.anchor_codes_}
    assert len(own) == 6
    assert len(np.unique(hasher.codes_, axis=0)) >= 6
    assert hasher.score(X, y) > 0.95


def test_uneven_classes_weigh_by_their_size():
    X, y = blobs(n=120, c=3)
    rare = np.flatnonzero(y == 2)[4:]
    keep = np.setdiff1d(np.arange(120), rare)
    hasher = ADGH(n_bits=8, n_landmarks=40, n_anchors=30, random_state=0).fit(X[keep], y[keep])
    B = codes.unpack_signs(hasher.codes_, 8).astype(float)
    KW = features_of(hasher, X[keep]) @ hasher.projection_
    sizes = np.bincount(y[keep])
    strength = np.sqrt(np.minimum(sizes, 10) / sizes)
    graph = strength[y[keep], None] * hasher.anchor_codes_[y[keep]]
    assert np.sum(B * graph) + hasher.weight * np.sum(B * KW) == pytest.approx(hasher.objective_[-1], rel=1e-9)


def test_label_sets_are_refused_in_one_sentence():
    X, _ = blobs(n=20)
    with pytest.raises(ValueError, match="ADGH takes one class per row"):
        ADGH(n_bits=4).fit(X, np.eye(3, dtype=int)[np.arange(20) % 3] | [1, 0, 0])


def test_unlabeled_rows_are_hashed_and_do_not_teach():
    X, y = blobs()
    partly = np.where(np.arange(len(y)) < 30, np.nan, y.astype(float))
    hasher = ADGH(n_bits=8, n_landmarks=40, random_state=0).fit(X, partly)
    np.testing.assert_array_equal(hasher.codes_[:30], hasher.encode(X[:30]))
    assert len(hasher.anchor_codes_) == 5


def test_hash_function_is_ridge_on_codes_or_the_projection():
    X, y = blobs()
    hasher = ADGH(n_bits=8, n_landmarks=40, random_state=0).fit(X, y)
    K, B = features_of(hasher, X), codes.unpack_signs(hasher.codes_, 8).astype(float)
    expected = np.linalg.solve(K.T @ K + hasher.ridge * np.eye(40), K.T @ B)
    np.testing.assert_allclose(hasher.function_.weights_, expected, rtol=1e-3, atol=1e-4)
    direct = ADGH(n_bits=8, n_landmarks=40, refit=False, random_state=0).fit(X, y)
    np.testing.assert_allclose(direct.function_.weights_, direct.projection_, rtol=1e-6)


def test_odd_data():
    X, y = blobs(n=20)
    with pytest.raises(ValueError, match="5 features for 8 bits"):
        ADGH(n_bits=8, n_landmarks=5).fit(X, y)
    assert ADGH(n_bits=4, random_state=0).fit(np.ones((20, 3)), y).codes_.shape == (20, 1)


def test_more_bits_than_classes_do_not_depend_on_rounding(monkeypatch):
    """The kernel features of two machines differ in their last digits; the codes hardly do."""
    X, y = blobs(spread=0.5)
    plain = ADGH(n_bits=24, n_landmarks=60, random_state=0).fit(X, y)
    map_block = LandmarkKernel.map_block

    def rounded_otherwise(self, X, dtype=np.float32):
        mapped = map_block(self, X, dtype)
        return mapped * (1 + 1e-7 * np.random.default_rng(0).choice([-1, 0, 1], mapped.shape)).astype(dtype)

    monkeypatch.setattr(LandmarkKernel, "map_block", rounded_otherwise)
    other = ADGH(n_bits=24, n_landmarks=60, random_state=0).fit(X, y)
    assert np.mean(codes.unpack(plain.codes_, 24) != codes.unpack(other.codes_, 24)) < 0.01
    assert np.mean(plain.transform(X) != other.transform(X)) < 0.01
