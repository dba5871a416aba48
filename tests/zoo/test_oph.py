"""OPH: distance classes of the binomial sizes, an exact gradient, order by labels or by features."""

import numpy as np
import pytest
from scipy.optimize import check_grad
from scipy.special import comb
from sklearn.datasets import load_digits

from hashlearn import OPH
from hashlearn.zoo.oph import distance_classes, order_loss

X, Y = load_digits(return_X_y=True)


def test_classes_have_the_sizes_of_random_distances():
    distances = np.random.default_rng(0).random((2, 64))
    classes = distance_classes(distances, None, 6)
    for row, own in zip(classes, distances, strict=True):
        assert np.bincount(row).tolist() == [comb(6, r) for r in range(7)]
        np.testing.assert_array_equal(row[np.argsort(own)], np.sort(row))


def test_relevance_comes_before_distance():
    distances, relevance = np.array([[0.1, 0.2, 0.3, 0.4]]), np.array([[0, 2, 0, 1]])
    assert distance_classes(distances, relevance, 2).tolist() == [[1, 0, 2, 1]]


def test_loss_by_loops_and_gradient_by_finite_differences():
    rng = np.random.default_rng(0)
    queries, listed, wanted = rng.normal(size=(3, 5)), rng.normal(size=(4, 5)), rng.integers(0, 4, (3, 4))
    weights = rng.normal(size=(5, 3))
    z, others = np.tanh(queries @ weights), np.tanh(listed @ weights)
    total = 0.0
    for q in range(3):
        for i in range(4):
            distance = (3 - z[q] @ others[i]) / 2
            for r in range(4):
                side = 1 if wanted[q, i] <= r else -1
                total += 1 / (1 + np.exp(-2.0 * side * (distance - r - 0.5)))
    expected = total / 12 + 0.3 * (others.mean(axis=0) ** 2).mean()
    arguments = (queries, listed, wanted, 2.0, 0.3)
    assert order_loss(weights, *arguments)[0] == pytest.approx(expected)
    assert (
        check_grad(
            lambda w: order_loss(w.reshape(5, 3), *arguments)[0],
            lambda w: order_loss(w.reshape(5, 3), *arguments)[1].ravel(),
            weights.ravel(),
        )
        < 1e-6
    )


def test_labels_or_features_decide_the_order():
    short = {"n_bits": 16, "max_iter": 60, "batch_size": 32, "learning_rate": 0.02, "random_state": 0, "n_jobs": 1}
    by_labels = OPH(**short).fit(X[:1000], Y[:1000])
    assert by_labels.score(X[1000:], Y[1000:]) > 0.4
    by_features = OPH(order="features", **short).fit(X[:1000])
    again = OPH(order="features", **short).fit(X[:1000], Y[:1000])
    np.testing.assert_array_equal(by_features.codes_, again.codes_)
    assert by_features.losses_[-20:].mean() < by_features.losses_[:20].mean()
    with pytest.raises(ValueError, match="requires y"):
        OPH(**short).fit(X[:1000])
