"""TSH: inference that never rises, the right gradient, classifiers at their optimum, label sets, odd data."""

import itertools

import numpy as np
import pytest
from scipy import optimize, sparse
from sklearn.svm import LinearSVC
from zoo_data import blobs

from hashlearn import TSH, codes
from hashlearn.hashers.sums import Training
from hashlearn.kernel import PlainFeatures
from hashlearn.rows.reduce import FeatureReader, FitContext
from hashlearn.rows.source import Source
from hashlearn.zoo import tsh
from hashlearn.zoo.bases.pairs import loss_table
from hashlearn.zoo.bases.two_step import CodedRows
from hashlearn.zoo.tsh import draw_followers, infer, smallest_eigenvector, squared_hinge

FAST = {"n_landmarks": 40, "n_partners": 20, "random_state": 0}


def random_matrix(n, seed, density=0.5):
    rng = np.random.RandomState(seed)
    upper = np.triu(rng.randint(-5, 6, size=(n, n)) * (rng.rand(n, n) < density), 1)
    return sparse.csr_matrix((upper + upper.T).astype(float))


def coded_rows(X, B):
    """Rows in memory with codes, features counted from zero."""
    center, group = np.zeros(X.shape[1], dtype=np.float32), np.zeros(len(X), dtype=np.intp)
    training = Training(Source(X), FeatureReader(PlainFeatures(), center, group, len(X)))
    rows = CodedRows(training, codes.pack(B > 0), B.shape[1], FitContext())
    rows.center, rows.shift = center, np.zeros(X.shape[1])
    return rows


def test_inference_never_rises_and_often_finds_the_minimum():
    found = 0
    for seed in range(20):
        matrix = random_matrix(8, seed)
        signs, (before, after), made = infer(matrix, 30, np.random.RandomState(0))
        assert 0 <= made <= 30
        dense = matrix.toarray()
        assert after <= before
        assert after == 0.5 * signs @ dense @ signs
        best = min(0.5 * np.array(z) @ dense @ np.array(z) for z in itertools.product([-1, 1], repeat=8))
        found += after == best
    assert found >= 12


def test_gradient_given_to_the_solver(monkeypatch):
    seen = {}
    original = optimize.minimize

    def spy(function, start, **options):
        seen["function"] = function
        return original(function, start, **options)

    monkeypatch.setattr(optimize, "minimize", spy)
    infer(random_matrix(10, 0), 5, np.random.RandomState(0))
    z = np.random.RandomState(1).uniform(-1, 1, size=10)
    value, slope = seen["function"](z)
    for i in range(10):
        nudge = np.zeros(10)
        nudge[i] = 1e-6
        numeric = (seen["function"](z + nudge)[0] - seen["function"](z - nudge)[0]) / 2e-6
        assert numeric == pytest.approx(slope[i], abs=1e-6)
    assert abs(value) > 1e-3


def test_large_matrices_start_from_the_same_kind_of_vector():
    matrix = random_matrix(150, 0, density=0.2)
    vector = smallest_eigenvector(matrix, np.random.RandomState(0))
    least = np.linalg.eigvalsh(matrix.toarray())[0]
    assert vector @ (matrix @ vector) == pytest.approx(least, rel=0.02)


def test_classifiers_are_at_the_optimum_of_the_squared_hinge():
    rng = np.random.RandomState(0)
    X = rng.normal(size=(150, 6)).astype(np.float32)
    B = np.where(X @ rng.normal(size=(6, 3)) + 0.8 * rng.normal(size=(150, 3)) >= 0, 1.0, -1.0)
    weights = squared_hinge(coded_rows(X, B), 0.5, max_iter=500, tol=1e-9)
    for k in range(3):
        exact = LinearSVC(C=1 / (2 * 0.5), fit_intercept=False, dual=False, tol=1e-8).fit(X, B[:, k]).coef_[0]
        np.testing.assert_allclose(weights[:, k], exact, atol=2e-3)
    early = squared_hinge(coded_rows(X, B), 0.5, max_iter=1)  # plain ridge regression is not it
    assert np.abs(early - weights).max() > 0.05


def test_bits_fit_the_pairs_of_separable_classes():
    X, y = blobs()
    hasher = TSH(n_bits=8, **FAST).fit(X, y)
    assert np.all(hasher.energy_[:, 1] <= hasher.energy_[:, 0])
    distance = codes.hamming_distances(hasher.codes_, hasher.codes_)
    same = y[:, None] == y[None, :]
    assert distance[same].mean() < 0.2
    assert distance[~same].mean() > 4
    assert hasher.score(X, y) > 0.9


def test_rows_beyond_those_paired_follow_their_group(monkeypatch):
    monkeypatch.setattr(tsh, "PAIRED_ROWS", 60)
    X, y = blobs()
    hasher = TSH(n_bits=8, **FAST).fit(X, y)
    distance = codes.hamming_distances(hasher.codes_, hasher.codes_)
    same = y[:, None] == y[None, :]
    assert distance[same].mean() < 0.2
    assert distance[~same].mean() > 4
    assert hasher.score(X, y) > 0.9


def test_a_following_bit_is_the_cheaper_one():
    """Against the loss of whole codes: of the two codes that differ in the last bit alone, the better one."""
    rng = np.random.RandomState(0)
    labels = sparse.csr_matrix((rng.rand(12, 5) < 0.4) | (np.arange(5) == 0))
    labels[6:, 0] = 0
    labels.eliminate_zeros()
    group, bits = rng.randint(12, size=80), np.where(rng.rand(80, 4) < 0.5, 1, -1).astype(np.int8)
    hasher = TSH(loss="hinge", n_partners=10)
    hasher.n_bits_ = 4
    found = hasher._follow(labels, group, bits, np.random.RandomState(1))
    pairs = draw_followers(labels, slice(0, 12), group, 10, np.random.RandomState(1))
    for g in range(12):
        mine = pairs.left == g
        sharing = (labels[group[pairs.right[mine]]] @ labels[g].T).toarray().ravel() > 0
        np.testing.assert_array_equal(sharing, pairs.similar[mine])
        assert sharing.sum() <= 10
        tables = {s: loss_table("hinge", s, 4) for s in (False, True)}
        costs = []
        for last in (found[g, 3], -found[g, 3]):
            differs = bits[pairs.right[mine]] != np.append(found[g, :3], last)
            costs.append(sum(tables[bool(s)][d] for s, d in zip(sharing, differs.sum(axis=1), strict=True)))
        assert costs[0] <= costs[1]


def test_ksh_and_bre_give_the_same_bits_and_hinge_others():
    X, y = blobs()
    by_loss = {loss: TSH(n_bits=8, loss=loss, **FAST).fit(X, y).codes_ for loss in ("ksh", "bre", "hinge")}
    np.testing.assert_array_equal(by_loss["ksh"], by_loss["bre"])
    assert not np.array_equal(by_loss["ksh"], by_loss["hinge"])


def test_label_sets():
    rng = np.random.default_rng(0)
    Y = (rng.random((200, 5)) < 0.3).astype(int)
    Y[Y.sum(axis=1) == 0, 1] = 1
    X = Y @ rng.normal(size=(5, 12)) + 0.1 * rng.normal(size=(200, 12))
    hasher = TSH(n_bits=16, **FAST).fit(X, Y)
    distance = codes.hamming_distances(hasher.codes_, hasher.codes_)
    shared = Y @ Y.T > 0
    assert distance[shared].mean() + 2 < distance[~shared].mean()


def test_unlabeled_rows_are_hashed_and_do_not_teach():
    X, y = blobs()
    partly = y.astype(float)
    partly[:30] = np.nan
    hasher = TSH(n_bits=8, **FAST).fit(X, partly)
    np.testing.assert_array_equal(hasher.codes_[:30], hasher.encode(X[:30]))
    np.testing.assert_array_equal(hasher.codes_[30:], TSH(n_bits=8, **FAST).fit(X[30:], y[30:]).codes_)
