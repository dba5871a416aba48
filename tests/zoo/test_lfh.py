"""LFH: the gradient, steps that never lower the score, and codes that follow the labels."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_digits

from hashlearn import LFH
from hashlearn.codes import unpack
from hashlearn.zoo.lfh import SampledRounds, ascend, score

X, Y = (part[:500] for part in load_digits(return_X_y=True))


def small_problem(seed, scale=1.0):
    rng = np.random.RandomState(seed)
    U, V = scale * rng.standard_normal((20, 4)), scale * rng.standard_normal((6, 4))
    return U, V, rng.random_sample((20, 6)) < 0.4


def test_score_is_the_sum_over_both_orders_of_a_pair():
    U, V, similar = small_problem(0)
    total = 0.0
    for i in range(20):
        for j in range(6):
            t = U[i] @ V[j] / 2
            total += 2 * (similar[i, j] * t - np.log(1 + np.exp(t)))
    assert score(U, V, similar, 0.7) == pytest.approx(total - 0.35 * (U**2).sum())


def test_a_step_is_the_gradient_over_the_curvature_bound():
    U, V, similar = small_problem(1)
    prior, eps = 0.5, 1e-5
    gradient = np.zeros_like(U)
    for index in np.ndindex(*U.shape):
        up, down = U.copy(), U.copy()
        up[index] += eps
        down[index] -= eps
        gradient[index] = (score(up, V, similar, prior) - score(down, V, similar, prior)) / (2 * eps)
    step = ascend(U, V, similar, prior) - U
    np.testing.assert_allclose(step @ (V.T @ V / 8 + prior * np.eye(4)), gradient, atol=1e-6)


@pytest.mark.parametrize("scale", [0.1, 1.0, 10.0])
def test_no_row_loses_by_a_step(scale):
    for seed in range(10):
        U, V, similar = small_problem(seed, scale)
        moved = ascend(U, V, similar, 0.5)
        for i in range(20):
            row = slice(i, i + 1)
            assert score(moved[row], V, similar[row], 0.5) >= score(U[row], V, similar[row], 0.5) - 1e-9


def test_the_full_score_never_falls_when_one_row_moves_at_a_time():
    rng = np.random.RandomState(0)
    y = rng.randint(3, size=15)
    similar = y[:, None] == y
    U = rng.standard_normal((15, 4))

    def full(U):
        off = ~np.eye(15, dtype=bool)
        theta = U @ U.T / 2
        return (similar * theta - np.logaddexp(0, theta))[off].sum() - 0.25 * (U**2).sum()

    values = [full(U)]
    for _ in range(5):
        for i in range(15):
            rest = np.flatnonzero(np.arange(15) != i)
            U[i] = ascend(U[i : i + 1], U[rest], similar[i : i + 1, rest], 0.5)[0]
            values.append(full(U))
    assert np.all(np.diff(values) >= -1e-9)
    assert values[-1] > values[0] + 1


def test_rows_that_move_alone_end_where_they_end_together():
    """Against a loop over rounds that moves all rows at once and samples among them."""
    rng = np.random.RandomState(0)
    labels = sparse.csr_matrix([[1, 1, 0], [0, 1, 0], [0, 0, 1]])
    group, start = rng.randint(3, size=40), rng.standard_normal((40, 4)).astype(np.float32)
    samples = np.array([rng.choice(40, 5, replace=False) for _ in range(6)])
    U = start.astype(np.float64)
    similar = (labels[group] @ labels[group].T).toarray() > 0
    objective = []
    for sample in samples:
        others, V = np.setdiff1d(np.arange(40), sample), U[sample]
        shared = similar[np.ix_(others, sample)]
        before = score(U[others], V, shared, 0.5)
        U[others] = ascend(U[others], V, shared, 0.5)
        objective.append((before, score(U[others], V, shared, 0.5)))
    sampled = np.unique(samples)
    rounds = SampledRounds(labels, 0.5)
    rounds.run(start[sampled], sampled, samples, group[sampled])
    found, sums = start.astype(np.float64), np.zeros((6, 2))
    for rows in np.split(np.arange(40), [7, 30]):
        part = found[rows]
        sums += [rounds.move(part, rows, group[rows], k) for k in range(6)]
        found[rows] = part
    assert len(sampled) < 40
    np.testing.assert_allclose(found, U, atol=1e-10)
    np.testing.assert_allclose(sums, objective)


def test_huge_factors_overflow_nothing():
    U, V, similar = small_problem(0, 1e3)
    with np.errstate(all="raise", under="ignore"):
        assert np.isfinite(score(U, V, similar, 1.0))
        assert np.isfinite(ascend(U, V, similar, 1.0)).all()


@pytest.mark.parametrize("multi", [False, True])
def test_every_round_raises_its_own_score(multi):
    sets = np.eye(10, dtype=int)[Y] | np.eye(10, dtype=int)[(Y + 1) % 10]
    hasher = LFH(n_bits=16, random_state=0).fit(X, sets if multi else Y)
    before, after = hasher.objective_.T
    assert len(before) == 50
    assert np.all(after >= before)
    assert after[0] > before[0]


def test_codes_follow_classes_and_retrieve():
    hasher = LFH(n_bits=16, random_state=0).fit(X[:400], Y[:400])
    B = unpack(hasher.codes_, 16) * 2.0 - 1
    products = B @ B.T
    same = Y[:400, None] == Y[:400]
    assert products[same].mean() > 12
    assert products[~same].mean() < 0.2 * products[same].mean()
    assert hasher.score(X[400:], Y[400:]) > 0.35


def test_more_bits_than_features_are_not_copies():
    hasher = LFH(n_bits=24, random_state=0).fit(X[:, 20:30], Y)
    bits = unpack(hasher.codes_, 24)
    assert len(np.unique(bits, axis=1).T) > 20


def test_rows_without_labels_are_hashed():
    y = Y.astype(object)
    y[::4] = None
    hasher = LFH(n_bits=16, random_state=0).fit(X, y)
    np.testing.assert_array_equal(hasher.codes_[::4], hasher.encode(X)[::4])
    known = np.arange(500) % 4 > 0
    assert (hasher.codes_[known] != hasher.encode(X)[known]).any()
