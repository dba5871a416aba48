"""BRE: moves priced exactly, a loss that never rises and equals the recomputed one, label sets, odd data."""

from functools import partial

import numpy as np
import pytest
from zoo_data import blobs

from hashlearn import BRE, codes
from hashlearn.zoo.bre import best_move, random_pairs

blobs = partial(blobs, n=120)


def cost_of(t, projected, column, left, right, residual, unit):
    bits = projected + t * column > 0
    return 0.5 * ((residual + unit * (bits[left] != bits[right])) ** 2).sum()


@pytest.mark.parametrize("seed", range(8))
def test_best_move_equals_trying_every_interval(seed):
    rng = np.random.RandomState(seed)
    projected, column = rng.normal(size=15), rng.normal(size=15)
    column[rng.rand(15) < 0.2] = 0.0  # rows that never flip
    left, right = random_pairs(15, 5, rng)
    arguments = (projected, column, left, right, rng.normal(size=len(left)), 0.25)
    places = np.sort(-projected[column != 0] / column[column != 0])
    tries = np.concatenate([[places[0] - 1], (places[1:] + places[:-1]) / 2, [places[-1] + 1]])
    costs = [cost_of(t, *arguments) for t in tries]
    assert cost_of(best_move(*arguments), *arguments) == pytest.approx(min(costs), rel=1e-12)
    assert max(costs) > min(costs)


def test_best_move_without_a_kernel_stays():
    left, right = random_pairs(4, 2, np.random.RandomState(0))
    assert best_move(np.ones(4), np.zeros(4), left, right, np.zeros(8), 0.5) == 0.0


def test_pairs_are_directed_distinct_and_never_loops():
    left, right = random_pairs(30, 7, np.random.RandomState(0))
    assert (left != right).all()
    assert len({*zip(left, right, strict=True)}) == 30 * 7
    assert np.bincount(left).tolist() == [7] * 30
    assert len(random_pairs(3, 7, np.random.RandomState(0))[0]) == 6


@pytest.mark.parametrize("sets", [False, True])
def test_loss_never_rises_and_equals_the_recomputed_one(sets):
    X, y = blobs()
    labels, shared, most = y, (y[:, None] == y[None, :]).astype(float), 1
    if sets:
        labels = (np.random.default_rng(0).random((120, 4)) < 0.4).astype(int)
        labels[labels.sum(axis=1) == 0, 1] = 1
        X, shared, most = (labels @ X[:4]).astype(np.float32), labels @ labels.T, labels.sum(axis=1).max()
    hasher = BRE(n_bits=12, pair_share=1.0, max_iter=20, random_state=0).fit(X, labels)
    assert np.all(np.diff(hasher.objective_) <= 0)
    assert hasher.objective_[-1] < 0.8 * hasher.objective_[0]
    distance = codes.hamming_distances(hasher.codes_, hasher.codes_) / 12
    off = ~np.eye(120, dtype=bool)
    direct = 0.5 * ((distance - (1 - shared / most))[off] ** 2).sum()
    assert direct == pytest.approx(hasher.objective_[-1], rel=2e-2)  # encoding rounds to float32
    assert len(hasher.objective_) == hasher.n_iter_ * 12 + 1
    one_bit = BRE(n_bits=1, random_state=0).fit(X, labels)
    assert len(one_bit.objective_) == one_bit.n_iter_ + 1


def test_learns_on_a_sample_and_retrieves():
    X, y = blobs(n=400)
    hasher = BRE(n_bits=16, n_samples=100, random_state=0).fit(X, y)
    assert hasher.codes_.shape == (400, 2)
    np.testing.assert_array_equal(hasher.codes_, hasher.encode(X))
    assert hasher.score(X, y) > BRE(n_bits=16, n_samples=100, max_iter=1, random_state=0).fit(X, y).score(X, y)


def test_unlabeled_rows_do_not_teach():
    X, y = blobs()
    partly = y.astype(float)
    partly[:20] = np.nan
    hasher = BRE(n_bits=8, pair_share=1.0, random_state=0).fit(X, partly)
    assert hasher.objective_[0] <= 0.5 * 100 * 99
    np.testing.assert_array_equal(hasher.codes_, hasher.encode(X))
