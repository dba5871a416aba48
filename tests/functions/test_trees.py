"""Boosted trees: plain arrays that predict as LightGBM does, bit by bit or all at once."""

import numpy as np
import pytest

from hashlearn.functions import trees as trees_module
from hashlearn.functions.trees import BoostedTrees, TreeGrower

lightgbm = pytest.importorskip("lightgbm")


def problem(n=300, d=6, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)).astype(np.float32)
    bits = np.stack([X[:, 0] * X[:, 1] > 0, X[:, 2] > 0.3, np.ones(n)], axis=1).astype(int)
    return X, bits


def test_one_bit_at_a_time_equals_all_at_once():
    X, bits = problem()
    together = BoostedTrees(n_trees=20).fit(X, bits, seed=5, n_jobs=1)
    single = BoostedTrees(n_trees=20)
    grower = TreeGrower(single, X, 3, seed=5, n_jobs=1)
    for j in (1, 2, 0):  # the order of the bits does not matter either
        grower.grow(j, bits[:, j])
    np.testing.assert_array_equal(single.project(X), together.project(X))
    np.testing.assert_array_equal(single.project_bit(X, 1), together.project(X)[:, 1])


def test_projection_equals_lightgbm():
    X, bits = problem()
    trees = BoostedTrees(n_trees=20)
    grower = TreeGrower(trees, X, 1, seed=5, n_jobs=1)
    grower.grow(0, bits[:, 0])
    booster = lightgbm.train(grower.parameters, grower.data, 20)
    np.testing.assert_allclose(trees.project(X)[:, 0], booster.predict(X, raw_score=True), rtol=1e-5, atol=1e-6)


def test_weights_are_per_bit_and_do_not_linger():
    X, bits = problem()
    weights = np.where(X[:, 0] > 0, 5.0, 0.2)
    trees = BoostedTrees(n_trees=10)
    grower = TreeGrower(trees, X, 2, n_jobs=1)
    grower.grow(0, bits[:, 0], weights)
    grower.grow(1, bits[:, 0])
    plain = BoostedTrees(n_trees=10).fit(X, bits[:, :1], n_jobs=1)
    weighted = BoostedTrees(n_trees=10).fit(X, bits[:, :1], weights=weights, n_jobs=1)
    np.testing.assert_array_equal(trees.project_bit(X, 1), plain.project_bit(X, 0))
    np.testing.assert_array_equal(trees.project_bit(X, 0), weighted.project_bit(X, 0))
    assert not np.array_equal(trees.project_bit(X, 0), trees.project_bit(X, 1))


def test_the_number_of_threads_changes_nothing(monkeypatch):
    monkeypatch.setattr(trees_module, "THREADED_WORK", 0)
    X, bits = problem(n=600)
    one = BoostedTrees(n_trees=15).fit(X, bits, n_jobs=1)
    two = BoostedTrees(n_trees=15).fit(X, bits, n_jobs=2)
    for name in ("feature_", "threshold_", "leaf_"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))


def test_constant_and_missing_bits():
    X, _ = problem()
    trees = BoostedTrees(n_trees=5)
    grower = TreeGrower(trees, X, 3, n_jobs=1)
    grower.grow(0, np.ones(len(X)))
    grower.grow(1, np.zeros(len(X)))
    projections = trees.project(X)
    assert (projections[:, 0] > 0).all()
    assert (projections[:, 1] < 0).all()
    assert (projections[:, 2] == 0).all()


def test_constant_features_do_not_crash():
    X, bits = problem(n=40)
    assert np.isfinite(BoostedTrees(n_trees=5).fit(np.ones_like(X), bits).project(X)).all()
