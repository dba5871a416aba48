"""AGH: the anchor graph, its eigenvectors, the two thresholds of the second layer."""

import numpy as np
import pytest

from hashlearn import AGH
from hashlearn.zoo.agh import AnchorGraph, graph_eigenvectors, second_thresholds


def rows(n=200, d=6, seed=0):
    rng = np.random.RandomState(seed)
    return (rng.standard_normal((n, d)) + rng.standard_normal((4, d))[rng.randint(4, size=n)]).astype(np.float32)


def graph_of(X, n_anchors=25, n_nearest=3):
    Z = AnchorGraph.build(X, n_anchors, n_nearest, np.random.RandomState(0)).weights(X)
    degree = np.asarray(Z.sum(axis=0)).ravel()
    return Z, Z.toarray() @ np.diag(1 / degree) @ Z.toarray().T


def test_graph_is_doubly_stochastic_and_positive():
    X = rows()
    Z, A = graph_of(X)
    assert (np.diff(Z.indptr) == 3).all()
    np.testing.assert_allclose(A.sum(axis=0), 1, atol=1e-10)
    np.testing.assert_allclose(A.sum(axis=1), 1, atol=1e-10)
    values = np.linalg.eigvalsh(A)
    assert values[0] > -1e-10
    assert values[-1] == pytest.approx(1)


def test_weights_by_brute_force():
    X = rows(n=40)
    graph = AnchorGraph.build(X, 8, 2, np.random.RandomState(0))
    squared = ((X[:, None].astype(float) - graph.anchors[None]) ** 2).sum(axis=2)
    assert graph.bandwidth == pytest.approx(np.sqrt(np.sort(squared, axis=1)[:, 1]).mean(), rel=1e-5)
    Z = graph.weights(X).toarray()
    for i in range(40):
        near = np.argsort(squared[i])[:2]
        wanted = np.exp(-squared[i, near] / graph.bandwidth**2)
        np.testing.assert_allclose(Z[i, near], wanted / wanted.sum(), rtol=1e-3)
        assert np.count_nonzero(Z[i]) == 2


def test_eigenvectors_of_the_graph():
    X = rows()
    Z, A = graph_of(X)
    values, weights = graph_eigenvectors(Z, 6, np.random.RandomState(0))
    y = Z @ weights
    np.testing.assert_allclose(A @ y, y * values, atol=1e-8)
    np.testing.assert_allclose(y.T @ y, len(X) * np.eye(6), atol=1e-6)
    np.testing.assert_allclose(y.sum(axis=0), 0, atol=1e-7)
    exact = np.sort(np.linalg.eigvalsh(A))[::-1][1:]
    np.testing.assert_allclose(values, exact[exact < 1 - 1e-3][:6], atol=1e-9)


def test_second_thresholds_by_grid_search():
    X = rows()
    Z, A = graph_of(X)
    y = Z @ graph_eigenvectors(Z, 4, np.random.RandomState(0))[1]
    L = np.eye(len(X)) - A
    for k, (upper, lower) in enumerate(second_thresholds(Z, y).T):
        v = y[:, k]
        positive = v >= 0
        n_positive, n_negative, s = positive.sum(), (~positive).sum(), v[positive].sum()
        assert n_positive * upper - n_negative * lower == pytest.approx(2 * s, abs=1e-8)

        def roughness(b, v=v, positive=positive, n_positive=n_positive, n_negative=n_negative, s=s):
            f = np.where(positive, v - b, (n_positive * b - 2 * s) / n_negative - v)
            assert abs(f.sum()) < 1e-8
            return f @ L @ f

        grid = upper + np.linspace(-1, 1, 401)
        assert grid[np.argmin([roughness(b) for b in grid])] == pytest.approx(upper, abs=1e-9)


def test_second_layer_follows_the_first():
    X = rows()
    hasher = AGH(n_bits=7, n_layers=2, n_anchors=25, random_state=0).fit(X)
    projections = hasher.decision_function(X)
    first, second = projections[:, :3], projections[:, 4:]
    upper, lower = hasher.function_.cuts
    wanted = np.where(first >= 0, first > upper, first < lower)
    clear = np.abs(second) > 1e-5
    assert ((second > 0) == wanted)[clear].all()
    assert clear.mean() > 0.95
    # Balanced by construction of the thresholds, as far as signs can tell.
    np.testing.assert_allclose(second.mean(axis=0), 0, atol=1e-5)
    one = AGH(n_bits=4, n_anchors=25, random_state=0).fit(X)
    np.testing.assert_allclose(projections[:, :4], one.decision_function(X), atol=1e-5)


def test_separate_clusters_are_used_when_nothing_else_is_left():
    X = np.repeat(np.eye(3, dtype=np.float32) * 100, 20, axis=0)
    hasher = AGH(n_bits=8, n_anchors=3, n_nearest=1, random_state=0).fit(X)
    np.testing.assert_allclose(hasher.eigenvalues_, 1)
    assert len(np.unique(hasher.codes_, axis=0)) == 3


def test_more_bits_than_anchors_constant_rows_and_far_rows():
    X = rows()
    hasher = AGH(n_bits=40, n_anchors=10, random_state=0).fit(X)
    assert len(hasher.eigenvalues_) <= 9
    assert np.isfinite(hasher.decision_function(1e6 * X)).all()
    same = AGH(n_bits=8, n_layers=2, random_state=0).fit(np.ones((10, 3)))
    assert len(np.unique(same.codes_, axis=0)) == 1


@pytest.mark.parametrize("n_layers", [1, 2])
def test_same_seed_same_codes_whatever_the_threads(n_layers):
    X = rows(n=3000)
    a, b = (AGH(n_bits=12, n_layers=n_layers, random_state=1, n_jobs=jobs).fit(X) for jobs in (1, 2))
    assert (a.codes_ == b.codes_).all()
    assert (a.codes_ == a.encode(X)).all()
