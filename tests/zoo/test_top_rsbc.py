"""Top-RSBC: soft ranks against exact counts, the gradient, and that descent learns."""

from functools import partial

import numpy as np
import pytest
from zoo_data import classes

from hashlearn import TopRSBC
from hashlearn.zoo.top_rsbc import batch_loss, soft_ranks

classes = partial(classes, n=300)


@pytest.mark.parametrize("levels", [2, 4])
def test_sharp_ranks_of_codes_without_ties_are_exact_counts(levels):
    rng = np.random.RandomState(0)
    products = rng.permutation(144).reshape(12, 12).astype(float)
    relevance = rng.randint(levels, size=(12, 12)).astype(float)
    found, _ = soft_ranks(products, relevance, sharpness=100.0)
    for q in range(12):
        for s in range(12):
            wanted = ((relevance[q] < relevance[q, s]) & (products[q] > products[q, s])).sum()
            assert found[q, s] == pytest.approx(wanted, abs=1e-9)


def test_loss_is_zero_exactly_when_relevant_rows_come_first():
    relevance = np.kron(np.eye(2), np.ones((3, 3)))
    # The rows are the weights' input, so these weights are the projections; large ones make tanh a sign.
    right = 20.0 * np.array([[1, 1, 1, 1]] * 3 + [[-1, -1, -1, -1]] * 3)
    assert batch_loss(right, np.eye(6), relevance, 50.0, 0.0)[0] == pytest.approx(0, abs=1e-12)
    wrong = right.copy()
    wrong[0] = -20.0
    assert batch_loss(wrong, np.eye(6), relevance, 50.0, 0.0)[0] > 0.3


def test_gradient_by_finite_differences():
    rng = np.random.RandomState(0)
    rows, weights = rng.standard_normal((10, 5)), 0.5 * rng.standard_normal((5, 3))
    Y = rng.randint(2, size=(10, 3))
    arguments = (rows, (Y @ Y.T).astype(float), 8.0, 0.5)
    _, gradient = batch_loss(weights, *arguments)
    step = 1e-6
    for at in np.ndindex(*weights.shape):
        probe = np.zeros_like(weights)
        probe[at] = step
        slope = (batch_loss(weights + probe, *arguments)[0] - batch_loss(weights - probe, *arguments)[0]) / (2 * step)
        assert slope == pytest.approx(gradient[at], abs=1e-7)


def test_learns_to_rank_held_out_rows():
    X, y = classes(n=400, spread=1.0)
    hasher = TopRSBC(n_bits=16, max_iter=150, random_state=0).fit(X[:200], y[:200])
    assert hasher.losses_[-20:].mean() < 0.5 * hasher.losses_[:20].mean()
    fresh = TopRSBC(n_bits=16, max_iter=1, random_state=0).fit(X[:200], y[:200])
    assert hasher.score(X[200:], y[200:]) > fresh.score(X[200:], y[200:]) + 0.15


def test_scale_of_the_features_does_not_matter():
    X, y = classes()
    a = TopRSBC(n_bits=8, max_iter=30, random_state=0).fit(X, y)
    b = TopRSBC(n_bits=8, max_iter=30, random_state=0).fit(1024 * X, y)
    assert (a.codes_ == b.codes_).all()


def test_label_sets_and_unlabeled_rows():
    X, y = classes()
    Y = np.eye(4, dtype=int)[y]
    Y[:, 0] |= Y[:, 1]
    Y[250:] = 0
    first = TopRSBC(n_bits=8, max_iter=60, random_state=0).fit(X, Y)
    other = X.copy()
    other[250:] = other[250:][::-1]
    second = TopRSBC(n_bits=8, max_iter=60, random_state=0).fit(other, Y)
    np.testing.assert_allclose(first.function_.weights_, second.function_.weights_, atol=1e-3)
    assert first.score(X[:250], Y[:250]) > 0.7
