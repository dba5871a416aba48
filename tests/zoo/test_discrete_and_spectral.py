"""Eigenproblems, rotations, sweeps and samplers against brute force and their definitions."""

import itertools

import numpy as np
import pytest
from scipy import linalg, sparse

from hashlearn.functions.linalg import fix_signs, itq_rotation, random_rotation, top_eigenvectors, top_generalized
from hashlearn.labels import label_matrix
from hashlearn.zoo.bases.pairs import sample_pairs, sample_triplets
from hashlearn.zoo.bases.primitives import FeatureMetric, column_sweep, keep_sign, orthogonal_procrustes


@pytest.fixture
def matrices():
    rng = np.random.default_rng(0)
    A, B = rng.normal(size=(7, 7)), rng.normal(size=(20, 7))
    return A + A.T, B.T @ B


def test_top_eigenvectors(matrices):
    A, _ = matrices
    values, vectors = top_eigenvectors(A, 3)
    np.testing.assert_allclose(values, np.sort(linalg.eigvalsh(A))[::-1][:3])
    np.testing.assert_allclose(A @ vectors, vectors * values, atol=1e-10)
    assert (vectors[np.abs(vectors).argmax(axis=0), range(3)] > 0).all()
    assert top_eigenvectors(A, 50)[1].shape == (7, 7)


def test_top_generalized(matrices):
    A, M = matrices
    values, vectors = top_generalized(A, M, 3, ridge=0.0)
    np.testing.assert_allclose(A @ vectors, M @ vectors * values, atol=1e-8)
    np.testing.assert_allclose(vectors.T @ M @ vectors, np.eye(3), atol=1e-8)
    assert (np.diff(values) <= 0).all()


def test_a_singular_metric_is_lifted(matrices):
    A, _ = matrices
    metric = np.zeros((7, 7))
    metric[0, 0] = 1
    assert np.isfinite(top_generalized(A, metric, 2)[1]).all()


def test_fix_signs():
    assert fix_signs(np.array([[1.0, 1.0], [-3.0, 2.0]])).tolist() == [[-1.0, 1.0], [3.0, 2.0]]


def test_procrustes_beats_random_rotations():
    rng = np.random.RandomState(0)
    C = rng.standard_normal((6, 4))
    W = orthogonal_procrustes(C)
    np.testing.assert_allclose(W.T @ W, np.eye(4), atol=1e-12)
    others = (linalg.qr(rng.standard_normal((6, 4)), mode="economic")[0] for _ in range(200))
    assert all(np.trace(C.T @ W) >= np.trace(C.T @ other) for other in others)


def features_of(rank=7, n=200):
    """Features of 7 columns that extend in ``rank`` directions of different strengths."""
    rng = np.random.default_rng(1)
    return rng.normal(size=(n, rank)) * np.linspace(3, 1, rank) @ rng.normal(size=(rank, 7))


def test_procrustes_in_a_metric():
    rng = np.random.default_rng(0)
    K = features_of()
    metric, C = FeatureMetric(K.T @ K), rng.normal(size=(7, 3))
    W = metric.top_directions(np.zeros((7, 7)), 3)
    for _ in range(50):
        before, W = W, metric.procrustes(C, W)
        np.testing.assert_allclose(W.T @ metric.gram @ W, np.eye(3), atol=1e-8)
        assert np.trace(C.T @ W) >= np.trace(C.T @ before) - 1e-12
    root = linalg.inv(linalg.sqrtm(metric.gram))
    turned = (root @ linalg.qr(rng.normal(size=(7, 3)), mode="economic")[0] for _ in range(200))
    assert all(np.trace(C.T @ W) >= np.trace(C.T @ other) for other in turned)


def test_directions_beyond_the_rank_do_not_depend_on_rounding():
    rng = np.random.default_rng(0)
    K, means = features_of(), rng.normal(size=(2, 7))

    def noisy(matrix):
        return matrix * (1 + 1e-12 * rng.normal(size=matrix.shape))

    def projections():
        metric = FeatureMetric(noisy(K).T @ noisy(K))
        start = metric.top_directions(noisy(means).T @ noisy(means), 5)
        return start, metric.procrustes(noisy(means).T @ np.ones((2, 5)), start)

    for first, second in zip(projections(), projections(), strict=True):
        np.testing.assert_allclose(first, second, atol=1e-6)
    # Beyond the two directions of the means, those of the largest variance that are orthogonal to them.
    start = projections()[0]
    np.testing.assert_allclose(start.T @ (K.T @ K) @ start, np.eye(5), atol=5e-3)
    assert np.linalg.norm(means @ start[:, 2:]) < 1e-6 * np.linalg.norm(means @ start[:, :2])


def test_itq_only_improves():
    rng = np.random.RandomState(0)
    V = rng.standard_normal((200, 6)) * np.arange(1, 7)
    R, losses = itq_rotation(V, rng, 30)
    np.testing.assert_allclose(R.T @ R, np.eye(6), atol=1e-10)
    assert (np.diff(losses) <= 1e-8).all()
    assert losses[-1] < losses[0]


def test_rotations_are_orthogonal():
    R = random_rotation(8, np.random.RandomState(0))
    np.testing.assert_allclose(R @ R.T, np.eye(8), atol=1e-12)


def test_zero_keeps_the_previous_sign():
    assert keep_sign(np.array([0.0, 0.0, 2.0, -1.0]), np.array([-1.0, 1.0, -1.0, 1.0])).tolist() == [-1, 1, 1, -1]


def test_column_sweep_never_raises_its_objective_and_ends_at_a_fixed_point():
    rng = np.random.default_rng(0)
    Q, C = rng.normal(size=(3, 4)), rng.normal(size=(4, 4))
    C = C @ C.T

    def objective(B):
        return np.trace(B @ C @ B.T) - 2 * np.trace(B.T @ Q)

    B = np.ones((3, 4))
    before = objective(B)
    for _ in range(10):
        column_sweep(B, Q, C, max_sweeps=1)
        assert objective(B) <= before + 1e-12
        before = objective(B)
    for row, column in itertools.product(range(3), range(4)):
        flipped = B.copy()
        flipped[row, column] *= -1
        assert objective(flipped) >= before - 1e-12


def test_pairs_are_what_they_say():
    rng = np.random.RandomState(0)
    labels = label_matrix(np.random.default_rng(0).random((60, 5)) < 0.3)
    left, right, shared = sample_pairs(labels, 500, rng, similar_share=0.4)
    assert len(left) == 500
    assert (left != right).all()
    dense = labels.toarray()
    np.testing.assert_array_equal(shared, (dense[left] * dense[right]).sum(axis=1))
    assert (shared > 0).sum() == 200
    assert dense[left].any(axis=1).all()


def test_triplets_are_ordered():
    labels = label_matrix(np.random.default_rng(1).random((60, 5)) < 0.3)
    i, j, k, margin = sample_triplets(labels, 300, np.random.RandomState(0))
    dense = labels.toarray()
    relevance = [(dense[i] * dense[other]).sum(axis=1) for other in (j, k)]
    np.testing.assert_array_equal(margin, relevance[0] - relevance[1])
    assert (margin > 0).all()


def test_no_triplet_from_one_class():
    with pytest.raises(ValueError, match="No triplet can be drawn"):
        sample_triplets(sparse.csr_matrix(np.ones((5, 1))), 10, np.random.RandomState(0))
