"""COSDISH: both steps against enumeration, and codes that follow the labels."""

from itertools import product

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_digits

from hashlearn import COSDISH
from hashlearn.codes import pack, unpack
from hashlearn.zoo.cosdish import balanced_bit, balanced_similarity, other_codes, sampled_codes, vote

X, Y = (part[:500] for part in load_digits(return_X_y=True))


def problem(size, seed):
    rng = np.random.RandomState(seed)
    Q = rng.standard_normal((size, size))
    Q = Q + Q.T
    np.fill_diagonal(Q, 0)
    return Q, rng.standard_normal(size)


def signs(size):
    return np.array(list(product([-1.0, 1.0], repeat=size)))


def test_scatter_grows_with_the_quadratic_form():
    # The claim balanced_bit rests on, for all 15 choices of 4 of 7 points with the last one fixed.
    Q, p = problem(6, 0)
    A = np.zeros((7, 7))
    A[:6, :6] = 4 * Q
    A[6, :6] = A[:6, 6] = p - 2 * Q.sum(axis=1)
    A /= np.abs(A).max()
    points = np.linalg.cholesky(1e4 * np.eye(7) - A)
    bits, forms, scatters = [], [], []
    for x in product([0, 1], repeat=6):
        chosen = np.append(np.array(x), 1)
        if chosen.sum() == 4:
            mine = points[chosen == 1]
            bits.append(2 * chosen[:6] - 1)
            forms.append(chosen @ A @ chosen)
            scatters.append(((mine - mine.mean(axis=0)) ** 2).sum())
    slope, offset = np.polyfit(forms, scatters, 1)
    assert slope == pytest.approx(1 / 4)
    np.testing.assert_allclose(np.polyval([slope, offset], forms), scatters, atol=1e-6)
    values = [b @ Q @ b + p @ b for b in bits]
    np.testing.assert_array_equal(np.argsort(values), np.argsort(forms))


@pytest.mark.parametrize(("size", "ones"), [(1, 0), (2, 1), (3, 1), (8, 4), (9, 4)])
def test_each_sampled_bit_is_balanced(size, ones):
    for seed in range(5):
        assert (balanced_bit(*problem(size, seed)) > 0).sum() == ones


def test_a_sampled_bit_is_among_the_best_balanced_ones():
    ranks = []
    for seed in range(40):
        Q, p = problem(8, seed)
        every = signs(8)
        every = every[every.sum(axis=1) == 0]
        values = np.einsum("ij,ij->i", every @ Q, every) + every @ p
        b = balanced_bit(Q, p)
        ranks.append((values < b @ Q @ b + p @ b - 1e-9).mean())
    assert np.mean(ranks) < 0.03
    assert np.mean(np.equal(ranks, 0)) > 0.3


def test_sampled_bits_minimise_what_earlier_bits_leave_over():
    rng = np.random.RandomState(0)
    S = np.where(rng.random_sample((5, 5)) < 0.5, 1.0, -1.0)
    S = np.triu(S) + np.triu(S, 1).T
    S_others = np.where(rng.random_sample((30, 5)) < 0.5, 1.0, -1.0)
    others = np.where(rng.random_sample((30, 3)) < 0.5, 1.0, -1.0)
    codes = sampled_codes(S, S_others.T @ others, others.T @ others)
    for k in range(3):
        rest = 3 * S - codes[:, :k] @ codes[:, :k].T
        rest_others = 3 * S_others - others[:, :k] @ codes[:, :k].T
        Q = -2 * rest
        np.fill_diagonal(Q, 0)
        p = -2 * rest_others.T @ others[:, k]
        np.testing.assert_array_equal(codes[:, k], balanced_bit(Q, p))
        # b'Qb + p'b is the loss of this bit up to a constant.
        both = [
            ((rest - np.outer(b, b)) ** 2).sum()
            + ((rest_others - np.outer(others[:, k], b)) ** 2).sum()
            - (b @ Q @ b + p @ b)
            for b in signs(5)
        ]
        np.testing.assert_allclose(both, both[0])


def test_other_codes_reach_the_least_absolute_loss():
    rng = np.random.RandomState(1)
    S = np.where(rng.random_sample((12, 5)) < 0.5, 1.0, -1.0)
    sampled = np.where(rng.random_sample((5, 4)) < 0.5, 1.0, -1.0)
    codes = other_codes(S, sampled, np.ones((12, 4)))
    losses = np.abs(4 * S[:, None, :] - signs(4) @ sampled.T).sum(axis=2)
    np.testing.assert_allclose(np.abs(4 * S - codes @ sampled.T).sum(axis=1), losses.min(axis=1))


def test_ties_keep_the_previous_bit():
    previous = np.array([[1.0, -1.0]])
    np.testing.assert_array_equal(other_codes(np.array([[1.0, -1.0]]), np.ones((2, 2)), previous), previous)


def test_similarity_is_balanced():
    sets = sparse.csr_matrix([[1, 1, 0], [0, 1, 0], [0, 0, 1], [1, 0, 1]])
    found = balanced_similarity(sets, np.array([0, 2]))
    np.testing.assert_allclose(found, [[1, -5 / 3], [1, -5 / 3], [-5 / 3, 1], [1, 1]])
    assert found.sum() == pytest.approx(0)


def test_groups_say_what_their_rows_say():
    """Similarity, votes and sums by group, against the same row by row."""
    rng = np.random.RandomState(0)
    table = sparse.csr_matrix([[1, 1, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]])
    group = rng.randint(4, size=50).astype(np.int8)
    sample = rng.choice(50, 6, replace=False)
    S = balanced_similarity(table, group[sample], np.bincount(group, minlength=4))
    by_row = balanced_similarity(table[group], sample)
    np.testing.assert_array_equal(S[group], by_row)
    # The second label set has no vote on the first two bits: they are ties there.
    previous, sampled = (np.where(rng.random_sample((n, 10)) < 0.5, 1.0, -1.0) for n in (50, 6))
    S[1] = [1, -1, 1, -1, 1, -1]
    sampled[:, :2] = 1
    packed = pack(previous)
    vote(packed, group, S, sampled)
    np.testing.assert_array_equal(unpack(packed, 10) * 2.0 - 1, other_codes(S[group], sampled, previous))
    assert (unpack(packed, 10)[group == 1, 0] == (previous[group == 1, 0] > 0)).all()
    hasher = COSDISH(n_bits=10)
    hasher.n_bits_ = 10
    totals, overlap = hasher._sums_of_others(pack(previous), group, sample, 4)
    others = np.setdiff1d(np.arange(50), sample)
    np.testing.assert_array_equal(overlap, previous[others].T @ previous[others])
    np.testing.assert_array_equal(totals, [previous[others][group[others] == g].sum(axis=0) for g in range(4)])


def test_retrieves_held_out_rows_and_codes_follow_classes():
    hasher = COSDISH(n_bits=32, random_state=0).fit(X[:400], Y[:400])
    assert hasher.score(X[400:], Y[400:]) > 0.6
    B = unpack(hasher.codes_, 32) * 2.0 - 1
    products = B @ B.T
    same = Y[:400, None] == Y[:400]
    assert products[same].mean() > 25
    assert products[~same].mean() < 0


def test_label_sets_and_rows_without_labels():
    sets = np.zeros((500, 10), dtype=int)
    sets[np.arange(500), Y] = 1
    sets[np.arange(500), (Y + 1) % 10] = 1
    sets[::5] = 0
    hasher = COSDISH(n_bits=16, random_state=0).fit(X, sets)
    np.testing.assert_array_equal(hasher.codes_[::5], hasher.encode(X)[::5])
    known = sets.any(axis=1)
    assert (hasher.codes_[known] != hasher.encode(X)[known]).any()


def test_scale_of_a_feature_does_not_matter():
    scaled = X * np.linspace(1, 50, X.shape[1])
    first, second = (
        COSDISH(n_bits=8, kernel=None, random_state=0).fit(rows, Y).decision_function(rows) for rows in (X, scaled)
    )
    np.testing.assert_allclose(first, second, atol=1e-3)
