"""TRH: the augmented codes are the maximum over all codes, and descent lowers the bound."""

import itertools

import numpy as np
import pytest
from sklearn.datasets import load_digits

from hashlearn import TRH
from hashlearn.zoo.mlh import augmented_codes


def loss(query, near, far):
    return max(0, np.sum(query != near) - np.sum(query != far) + 1) / len(query)


@pytest.mark.parametrize("scale", [0.02, 0.3, 3.0])
@pytest.mark.parametrize("n_bits", [1, 3])
def test_augmented_codes_against_all_codes(scale, n_bits):
    projections = scale * np.random.default_rng(0).standard_normal((3, 6, n_bits))
    found, bound = augmented_codes(projections)
    every = np.array(list(itertools.product([-1, 1], repeat=n_bits)))
    for t in range(6):
        z = projections[:, t]
        best = max(
            loss(*three) + sum(code @ own for code, own in zip(three, z, strict=True))
            for three in itertools.product(every, repeat=3)
        )
        reached = loss(*found[:, t]) + np.sum(found[:, t] * z)
        assert reached == pytest.approx(best)
        assert bound[t] == pytest.approx(best - np.abs(z).sum())
        signs = np.where(z >= 0, 1, -1)
        assert bound[t] >= loss(*signs) - 1e-12


def test_the_bound_falls_and_codes_get_better():
    X, y = load_digits(return_X_y=True)
    short = {"n_bits": 16, "epoch_triplets": 2000, "random_state": 0, "n_jobs": 1}
    hasher = TRH(n_epochs=6, **short).fit(X[:1000], y[:1000])
    assert hasher.objective_[-1] < 0.5 * hasher.objective_[0]
    assert hasher.score(X[1000:], y[1000:]) > 0.6


def test_label_sets_order_the_triplets():
    """Rows that share two labels come nearer to each other than rows that share one."""
    X, y = load_digits(return_X_y=True)
    X, y = X[y < 4], y[y < 4]
    sets = np.array([[1, 1, 0, 0], [1, 1, 0, 0], [1, 0, 1, 0], [0, 0, 0, 1]])[y]
    hasher = TRH(n_bits=16, n_epochs=5, epoch_triplets=2000, random_state=0, n_jobs=1).fit(X, sets)
    bits = hasher.transform(X).astype(float)
    means = np.array([bits[y == k].mean(axis=0) for k in range(4)])
    distance = np.abs(means - means[0]).sum(axis=1)
    assert distance[1] < distance[2] < distance[3]
