"""PCA-RR: inner products of the projections are those of the principal components."""

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

from hashlearn import ITQ, PCARR

X = load_digits().data[:500]


@pytest.mark.parametrize("n_bits", [8, 64, 100])
def test_rotation_keeps_inner_products_of_components(n_bits):
    found = PCARR(n_bits=n_bits, random_state=0).fit(X).decision_function(X)
    wanted = PCA(min(n_bits, 64), svd_solver="full").fit_transform(X)
    np.testing.assert_allclose(found @ found.T, wanted @ wanted.T, atol=0.5)


def test_rotation_spreads_the_variance():
    rotated = PCARR(n_bits=16, random_state=0).fit(X).decision_function(X).var(axis=0)
    components = PCA(16).fit_transform(X).var(axis=0)
    assert rotated.max() / rotated.min() < 0.5 * components.max() / components.min()


def test_itq_starts_from_here():
    random = PCARR(n_bits=16, random_state=3).fit(X).decision_function(X).astype(float)
    loss = ((np.where(random >= 0, 1, -1) - random) ** 2).sum()
    itq = ITQ(n_bits=16, random_state=3).fit(X)
    assert itq.losses_[0] == pytest.approx(loss, rel=1e-4)
    assert itq.losses_[-1] < loss


def test_same_seed_same_codes():
    first, second = (PCARR(n_bits=16, n_jobs=jobs, random_state=0).fit(X) for jobs in (1, 2))
    np.testing.assert_array_equal(first.codes_, second.codes_)
    np.testing.assert_array_equal(first.codes_, first.encode(X))
    assert (PCARR(n_bits=16, random_state=1).fit(X).codes_ != first.codes_).any()


def test_constant_features_and_few_rows():
    assert PCARR(n_bits=5).fit(np.ones((6, 3))).codes_.shape == (6, 1)
    assert PCARR(n_bits=40).fit(X[:2]).codes_.shape == (2, 5)
