"""DSeRH: Theta between label sets against Theta between rows, a falling objective, class relevance."""

from functools import partial

import numpy as np
import pytest
from zoo_data import classes

from hashlearn import DSeRH, codes
from hashlearn.labels import label_matrix
from hashlearn.zoo.bases.primitives import keep_sign
from hashlearn.zoo.dserh import RankOrder

classes = partial(classes, d=20, spread=1.0)


def dense_theta(relevance):
    """Theta between rows by counting, symmetric, spectral norm 1."""
    n = len(relevance)
    theta = np.empty((n, n))
    for q in range(n):
        for i in range(n):
            theta[q, i] = 2 * ((relevance[q] < relevance[q, i]).sum() - (relevance[q] > relevance[q, i]).sum())
    theta = (theta + theta.T) / 2
    return theta / np.linalg.norm(theta, 2)


@pytest.mark.parametrize("given", [False, True])
def test_table_between_label_sets_is_theta_between_rows(given):
    rng = np.random.RandomState(0)
    Y = rng.randint(2, size=(30, 3))
    Y[Y.sum(axis=1) == 0, 1] = 1
    relevance = rng.random_sample((3, 3)) if given else np.eye(3)
    theta = dense_theta(np.round(Y @ relevance @ Y.T, 12))
    order = RankOrder(label_matrix(Y), relevance)
    H = np.sign(rng.standard_normal((30, 5)))
    np.testing.assert_allclose(order @ H, theta @ H, atol=1e-12)
    assert order.agreement(H) == pytest.approx(np.trace(H.T @ theta @ H), abs=1e-10)
    assert order.lowest == pytest.approx(min(0, np.linalg.eigvalsh(theta)[0]), abs=1e-12)


def test_a_step_of_safe_size_never_raises_the_objective():
    rng = np.random.RandomState(1)
    Y = rng.randint(2, size=(60, 4))
    Y[Y.sum(axis=1) == 0, 1] = 1
    order = RankOrder(label_matrix(Y), rng.random_sample((4, 4)))
    assert order.lowest < -0.01
    rose_when_bold = False
    for _ in range(200):
        H = np.sign(rng.standard_normal((60, 3)))
        before = order.agreement(H)
        step = keep_sign(2 * -order.lowest * H + 2 * (order @ H), H)
        assert order.agreement(step) >= before - 1e-9
        rose_when_bold |= order.agreement(keep_sign(-(order @ H), H)) < before - 1e-9
    assert rose_when_bold


@pytest.mark.parametrize("labels", ["classes", "label sets"])
@pytest.mark.parametrize("mu", [0.1, 0.001])
def test_objective_never_rises(labels, mu):
    X, y = classes()
    Y = np.eye(4, dtype=int)[y]
    if labels == "label sets":
        Y = Y | np.random.RandomState(3).randint(2, size=Y.shape)
    hasher = DSeRH(n_bits=12, mu=mu, random_state=0).fit(X, Y)
    assert len(hasher.objective_) > 3
    assert (np.diff(hasher.objective_) <= 1e-9 * abs(hasher.objective_[0])).all()
    assert hasher.objective_[-1] < hasher.objective_[0]


def test_codes_follow_the_relevance_of_classes():
    X, y = classes(n=400, spread=2.0)
    near = np.array([[1, 0.9, 0.1, 0.0], [0.9, 1, 0.1, 0.0], [0.1, 0.1, 1, 0.8], [0.0, 0.0, 0.8, 1]])
    hasher = DSeRH(n_bits=16, class_relevance=near, random_state=0).fit(X, y)
    signs = codes.unpack_signs(hasher.codes_, 16).astype(float)
    means = np.array([signs[y == c].mean(axis=0) for c in range(4)])
    products = means @ means.T
    assert products[0, 1] > products[0, 2] + 1
    assert products[2, 3] > products[1, 2] + 1


def test_class_relevance_of_the_wrong_shape():
    X, y = classes()
    with pytest.raises(ValueError, match=r"class_relevance must have .* \(4, 4\)\. Got \(3, 3\)"):
        DSeRH(n_bits=4, class_relevance=np.eye(3)).fit(X, y)


def test_more_bits_than_features_and_held_out_rows():
    X, y = classes(n=400, d=6, spread=2.0)
    hasher = DSeRH(n_bits=24, random_state=0).fit(X[:200], y[:200])
    assert hasher.score(X[200:], y[200:]) > 0.7


def test_rows_outside_the_sample_and_unlabeled_rows_are_hashed():
    X, y = classes()
    Y = np.eye(4, dtype=int)[y]
    Y[150:] = 0
    hasher = DSeRH(n_bits=16, n_samples=60, random_state=0).fit(X, Y)
    same = (hasher.codes_ == hasher.encode(X)).all(axis=1)
    assert same[150:].all()
    assert 90 <= same[:150].sum() < 150


def test_equally_relevant_classes_leave_nothing_to_rank():
    X, y = classes()
    with pytest.raises(ValueError, match="nothing to rank"):
        DSeRH(n_bits=4, class_relevance=np.ones((y.max() + 1, y.max() + 1))).fit(X, y)
