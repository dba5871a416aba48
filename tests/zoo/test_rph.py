"""RPH: its loss is 1 - NDCG for sharp sigmoids, its gradient is exact, and it learns."""

import numpy as np
import pytest
from scipy.optimize import check_grad
from sklearn.datasets import load_digits

from hashlearn import RPH
from hashlearn.zoo.oph import Batch, ranking_loss


@pytest.fixture
def batch():
    rng = np.random.default_rng(0)
    return Batch(rng.normal(size=(3, 5)), rng.normal(size=(6, 5)), rng.integers(0, 3, (3, 6)).astype(float), 0.5)


def test_sharp_sigmoids_give_the_ndcg(batch):
    weights = np.random.default_rng(1).normal(size=(5, 4))
    scores = np.tanh(batch.queries @ weights) @ np.tanh(batch.listed @ weights).T
    total = 0.0
    for own, relevance in zip(scores, batch.relevance, strict=True):
        gains = 2.0**relevance - 1
        discounts = np.log2(np.arange(2, 8))
        total += (gains[np.argsort(-own)] / discounts).sum() / (np.sort(gains)[::-1] / discounts).sum()
    loss, _ = ranking_loss(weights, batch, temperature=1e-6, balance=0.0)
    assert loss == pytest.approx(1 - total / 3)


def test_gradient_by_finite_differences(batch):
    hasher = RPH(n_bits=3, temperature=0.3, balance=0.2, orthogonality=0.1)

    def value(w):
        return hasher._batch_loss(w.reshape(5, 3), batch)

    start = np.random.default_rng(2).normal(size=15)
    assert check_grad(lambda w: value(w)[0], lambda w: value(w)[1].ravel(), start) < 1e-6


def test_a_query_without_a_relevant_row_costs_nothing_more(batch):
    empty = batch._replace(relevance=np.zeros((3, 6)))
    loss, gradient = ranking_loss(np.ones((5, 2)), empty, temperature=0.1, balance=0.0)
    assert loss == 1
    assert not gradient.any()


def test_it_learns():
    X, y = load_digits(return_X_y=True)
    hasher = RPH(n_bits=16, max_iter=100, batch_size=32, learning_rate=0.02, random_state=0, n_jobs=1)
    hasher.fit(X[:1000], y[:1000])
    assert hasher.losses_[-20:].mean() < 0.7 * hasher.losses_[:20].mean()
    assert hasher.score(X[1000:], y[1000:]) > 0.6
