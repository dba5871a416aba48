"""CGH: columns, margins, the optimality of the weights, and an objective that never rises."""

from functools import partial

import numpy as np
import pytest
from scipy import optimize
from zoo_data import classes

from hashlearn import CGH
from hashlearn.labels import label_matrix
from hashlearn.zoo.bases.pairs import sample_triplets
from hashlearn.zoo.cgh import best_function, repeats, solve_weights, triplet_form

classes = partial(classes, n=150, spread=1.0)


def test_triplet_form_is_the_difference_of_squared_distances():
    rng = np.random.RandomState(0)
    i, j, k = rng.randint(9, size=(3, 20))
    u, z = rng.random_sample(20), rng.standard_normal(9)
    form = triplet_form(i, j, k, u, 9)
    wanted = (u * ((z[i] - z[k]) ** 2 - (z[i] - z[j]) ** 2)).sum()
    assert z @ (form @ z) == pytest.approx(wanted, rel=1e-12)
    bits = np.sign(z)
    assert bits @ (form @ bits) == pytest.approx(2 * (u * bits[i] * (bits[j] - bits[k])).sum(), rel=1e-12)


def test_the_search_climbs_the_gradient_of_its_form(monkeypatch):
    # The function handed to L-BFGS is compared with finite differences where it is used.
    X, y = classes(n=30, d=5)
    i, j, k, _ = sample_triplets(label_matrix(y), 100, np.random.RandomState(0))
    errors = []

    def checked(function, start, **options):
        step = 1e-2  # features are float32, so no smaller
        probes = [(function(start + step * e)[0], function(start - step * e)[0]) for e in np.eye(len(start))]
        slope = np.array([(up - down) / (2 * step) for up, down in probes])
        errors.append(np.abs(slope - function(start)[1]).max() / np.abs(slope).max())
        return minimize(function, start, **options)

    minimize = optimize.minimize
    monkeypatch.setattr(optimize, "minimize", checked)
    best_function(X, triplet_form(i, j, k, np.ones(len(i)), len(X)), np.random.RandomState(0))
    assert len(errors) == 2
    assert max(errors) < 1e-2


def test_weights_satisfy_the_optimality_conditions():
    rng = np.random.RandomState(0)
    wins = np.linspace(0.1, 0.6, 12)
    draws = rng.random_sample((400, 12))
    columns = np.where(draws < wins, 2.0, np.where(draws < wins + 0.3, -2.0, 0.0))
    price = 20 / 400
    weights, value = solve_weights(columns, price, np.zeros(12))
    duals = 2 * price * np.maximum(0, 1 - columns @ weights)
    held = columns.T @ duals
    used = weights > 1e-9
    assert 0 < used.sum() < 12
    np.testing.assert_allclose(held[used], 1, atol=1e-5)
    assert (held <= 1 + 1e-5).all()
    # Primal = dual: for the squared hinge the dual is sum(u) - sum(u^2) / (4 price).
    assert value == pytest.approx(duals.sum() - (duals**2).sum() / (4 * price), rel=1e-5)


def test_objective_never_rises_and_violations_fall():
    X, y = classes(spread=0.7)
    hasher = CGH(n_bits=24, random_state=0).fit(X, y)
    assert hasher.n_columns_ > 5
    assert (np.diff(hasher.objective_) <= 1e-9 * hasher.objective_[0]).all()
    assert hasher.objective_[-1] < 0.9 * hasher.objective_[0]
    assert hasher.violated_[-1] < 0.5 * hasher.violated_[0]


def test_learned_bits_separate_held_out_rows():
    X, y = classes(n=300, spread=2.0)
    hasher = CGH(n_bits=16, random_state=0).fit(X[:150], y[:150])
    assert hasher.score(X[150:], y[150:]) > 0.9


def test_bits_past_the_stop_repeat_by_weight():
    assert repeats(np.array([4.0, 1.0, 0.0]), 8).tolist() == [5, 2, 1]
    X, y = classes(n=60, c=2, spread=8.0)
    hasher = CGH(n_bits=8, random_state=0).fit(X, y)
    assert hasher.n_columns_ < 8
    assert len(np.unique(hasher.transform(X), axis=1).T) == hasher.n_columns_
    assert hasher.score(X, y) == pytest.approx(1.0)


@pytest.mark.parametrize("spread", [0.7, 8.0])
def test_reported_objective_follows_from_the_codes_and_weights(spread):
    X, y = classes(n=60, c=2, spread=spread)
    hasher = CGH(n_bits=8, random_state=0).fit(X, y)
    i, j, k, _ = sample_triplets(label_matrix(y), 4 * len(X), np.random.RandomState(0))
    bits = 2.0 * hasher.transform(X) - 1
    margins = (bits[i] * (bits[j] - bits[k])) @ hasher.weights_
    value = hasher.weights_.sum() + 20 * (np.maximum(0, 1 - margins) ** 2).mean()
    assert value == pytest.approx(hasher.objective_[-1], rel=1e-6)


def test_label_sets_and_unlabeled_rows():
    X, y = classes(spread=2.0)
    Y = np.eye(4, dtype=int)[y]
    Y[:, 0] |= Y[:, 1]
    Y[120:] = 0
    moved = X.copy()
    first = CGH(n_bits=8, random_state=0).fit(X, Y)
    moved[120:] = moved[120:][::-1]  # other unlabelled rows in their place: same mean, same scale
    second = CGH(n_bits=8, random_state=0).fit(moved, Y)
    np.testing.assert_allclose(first.function_.weights_, second.function_.weights_, rtol=1e-2, atol=1e-3)
    assert first.score(X[:120], Y[:120]) > 0.7


def test_two_rows_of_two_classes_have_no_triplets():
    X, _ = classes()
    with pytest.raises(ValueError, match="No triplet"):
        CGH(n_bits=4).fit(X[:2], [0, 1])
