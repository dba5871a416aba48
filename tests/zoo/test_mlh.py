"""MLH: exact inference, a bound that bounds, its gradient, label sets, odd data."""

import itertools

import numpy as np
import pytest
from zoo_data import blobs

from hashlearn import MLH
from hashlearn.labels import label_matrix
from hashlearn.zoo.mlh import adjusted_codes, loss_tables, random_radius

FAST = {"epoch_pairs": 2000, "n_epochs": 10, "random_state": 0}


def test_losses_are_the_two_hinges():
    tables = loss_tables(6, 2)
    np.testing.assert_allclose(tables[0], [3 / 3, 2 / 3, 1 / 3, 0, 0, 0, 0])
    np.testing.assert_allclose(tables[1], [0, 0, 1 / 5, 2 / 5, 3 / 5, 4 / 5, 5 / 5])


@pytest.mark.parametrize("scale", [0.05, 1.0])  # the loss decides, and the projections decide
def test_inference_equals_enumeration(scale):
    rng = np.random.RandomState(0)
    u, v = scale * rng.normal(size=(2, 20, 4))
    losses = loss_tables(4, 2)[rng.randint(2, size=20)]
    g1, g2, bound = adjusted_codes(u, v, losses)
    all_codes = [np.array(code) for code in itertools.product([-1.0, 1.0], repeat=4)]
    for i in range(20):

        def value(a, b, i=i):
            return losses[i][int((a != b).sum())] + a @ u[i] + b @ v[i]

        best = max(value(a, b) for a in all_codes for b in all_codes)
        assert value(g1[i], g2[i]) == pytest.approx(best)
        assert bound[i] == pytest.approx(best - np.abs(u[i]).sum() - np.abs(v[i]).sum())


def test_bound_is_above_the_loss_of_the_signs():
    rng = np.random.RandomState(1)
    u, v = rng.normal(size=(2, 500, 8))
    losses = loss_tables(8, 3)[rng.randint(2, size=500)]
    _, _, bound = adjusted_codes(u, v, losses)
    distance = ((u >= 0) != (v >= 0)).sum(axis=1)
    actual = losses[np.arange(500), distance]
    assert (bound >= actual - 1e-9).all()
    assert (bound > actual + 1e-3).any()


def test_step_is_the_gradient_of_the_bound():
    rng = np.random.RandomState(2)
    x1, x2, W = rng.normal(size=(5, 3)), rng.normal(size=(5, 3)), 0.3 * rng.normal(size=(3, 6))
    losses = loss_tables(6, 2)[[0, 1, 0, 1, 1]]

    def total(W):
        return adjusted_codes(x1 @ W, x2 @ W, losses)[2].sum()

    g1, g2, _ = adjusted_codes(x1 @ W, x2 @ W, losses)
    step = x1.T @ (np.sign(x1 @ W) - g1) + x2.T @ (np.sign(x2 @ W) - g2)
    assert np.abs(step).max() > 0.1
    for place in np.ndindex(W.shape):
        nudge = np.zeros_like(W)
        nudge[place] = 1e-6
        assert (total(W + nudge) - total(W - nudge)) / 2e-6 == pytest.approx(-step[place], abs=1e-5)


def test_radius_holds_three_tenths_of_similar_pairs():
    X, y = blobs(n=400)
    radius = random_radius(X, label_matrix(y), 32, np.random.RandomState(0))
    distances = []
    for seed in range(20):
        signs = X @ np.random.RandomState(seed).normal(size=(10, 32)) >= 0
        same = np.triu(y[:, None] == y[None, :], 1)
        distances.append((signs[:, None] != signs[None]).sum(axis=2)[same])
    distance = np.concatenate(distances)
    assert np.mean(distance <= radius + 1) > 0.3 > np.mean(distance <= radius - 2)


@pytest.mark.parametrize("sets", [False, True])
def test_learning_lowers_the_bound_and_retrieves(sets):
    X, y = blobs(spread=1.0)
    labels = np.stack([y == 0, y <= 1, y >= 2, y == 3], axis=1).astype(int) if sets else y
    hasher = MLH(n_bits=16, **FAST).fit(X, labels)
    assert hasher.objective_[-1] < 0.8 * hasher.objective_[0]
    start = MLH(n_bits=16, epoch_pairs=1, n_epochs=1, random_state=0).fit(X, labels)
    assert hasher.score(X, labels) > start.score(X, labels) + 0.05
    np.testing.assert_array_equal(hasher.codes_, hasher.encode(X))


def test_length_of_rows_does_not_matter():
    X, y = blobs()
    X -= X.mean(axis=0)
    hasher = MLH(n_bits=8, **FAST).fit(X, y)
    np.testing.assert_array_equal(hasher.encode(X), MLH(n_bits=8, **FAST).fit(4 * X, y).encode(4 * X))


def test_unlabeled_rows_do_not_teach():
    X, y = blobs()
    X -= X.mean(axis=0)
    partly = y.astype(float)
    partly[:40] = np.nan
    swapped = X.copy()
    swapped[:40] = swapped[:40][::-1]  # the same centre, other unlabelled rows
    one, two = (MLH(n_bits=8, **FAST).fit(rows, partly) for rows in (X, swapped))
    np.testing.assert_array_equal(one.encode(X), two.encode(X))


def test_odd_data():
    X, y = blobs(n=20)
    assert MLH(n_bits=4, **FAST).fit(X, np.arange(20)).codes_.shape == (20, 1)
    assert MLH(n_bits=4, **FAST).fit(np.ones((20, 3)), y).codes_.shape == (20, 1)
    assert MLH(n_bits=3, radius=3, **FAST).fit(X, y).radius_ == 3
    with pytest.raises(ValueError, match="at most n_bits=4"):
        MLH(n_bits=4, radius=5).fit(X, y)
    with pytest.raises(ValueError, match="All labeled rows have the same label"):
        MLH(n_bits=4).fit(X, [0.0] + [np.nan] * 19)
