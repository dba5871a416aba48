"""DGH: an objective that never falls, the constraints on Y, rank-deficient codes."""

import numpy as np
import pytest

from hashlearn import DGH, codes
from hashlearn.zoo.agh import AnchorGraph, balanced, completed


def rows(n=200, d=6, seed=0):
    rng = np.random.RandomState(seed)
    return (rng.standard_normal((n, d)) + 2 * rng.standard_normal((4, d))[rng.randint(4, size=n)]).astype(np.float32)


def assert_feasible(Y):
    n, m = Y.shape
    np.testing.assert_allclose(Y.sum(axis=0), 0, atol=1e-8 * n)
    np.testing.assert_allclose(Y.T @ Y, n * np.eye(m), atol=1e-8 * n)


def test_balanced_is_the_best_feasible_matrix():
    rng = np.random.RandomState(0)
    B = np.sign(rng.standard_normal((30, 4)))
    best = balanced(B, rng)
    assert_feasible(best)
    for _ in range(200):
        other = np.sqrt(30) * completed(np.empty((30, 0)), 4, rng)
        assert_feasible(other)
        assert (B * other).sum() <= (B * best).sum() + 1e-9


def test_codes_that_lose_rank_still_give_a_feasible_matrix():
    rng = np.random.RandomState(1)
    B = np.sign(rng.standard_normal((40, 6)))
    B[:, 1] = B[:, 0]
    B[:, 2] = -B[:, 3]
    B[:, 4] = 1
    Y = balanced(B, rng)
    assert_feasible(Y)
    nuclear = np.linalg.svd(B - B.mean(axis=0), compute_uv=False).sum()
    assert (B * Y).sum() == pytest.approx(np.sqrt(40) * nuclear)


@pytest.mark.parametrize("start", ["rotation", "eigenvectors"])
@pytest.mark.parametrize("rho", [0.1, 5.0])
def test_objective_never_falls(start, rho):
    hasher = DGH(n_bits=12, rho=rho, start=start, n_anchors=30, random_state=0).fit(rows())
    assert len(hasher.objective_) > 3
    assert (np.diff(hasher.objective_) >= -1e-9 * hasher.objective_[0]).all()
    assert hasher.objective_[-1] > hasher.objective_[0]


def test_rounds_end_where_codes_are_stable_and_queries_follow_the_graph():
    X = rows() - rows().mean(axis=0)
    hasher = DGH(n_bits=8, n_anchors=30, random_state=0).fit(X)
    graph = hasher.function_.graph
    Z = AnchorGraph(graph.anchors, graph.bandwidth, graph.n_nearest).weights(X).toarray()
    B = codes.unpack_signs(hasher.codes_, 8)
    np.testing.assert_allclose(hasher.decision_function(X), Z @ np.diag(1 / Z.sum(axis=0)) @ Z.T @ B, atol=1e-4)
    assert (hasher.transform(X) == (B > 0)).mean() > 0.9


def test_bits_are_nearly_balanced():
    hasher = DGH(n_bits=16, rho=5.0, n_anchors=50, random_state=0).fit(rows(n=500))
    assert np.abs(codes.unpack_signs(hasher.codes_, 16).mean(axis=0)).max() < 0.3


def test_more_bits_than_anchors_but_not_than_rows():
    hasher = DGH(n_bits=24, n_anchors=6, random_state=0).fit(rows())
    assert (np.diff(hasher.objective_) >= -1e-9 * hasher.objective_[0]).all()
    with pytest.raises(ValueError, match=r"needs more rows than bits\. Got 10 rows and n_bits=12"):
        DGH(n_bits=12).fit(rows(n=10))


def test_same_seed_same_codes_whatever_the_threads():
    a, b = (DGH(n_bits=12, n_anchors=40, random_state=1, n_jobs=jobs).fit(rows(n=2500)) for jobs in (1, 2))
    assert (a.codes_ == b.codes_).all()
    assert (a.objective_ == b.objective_).all()
