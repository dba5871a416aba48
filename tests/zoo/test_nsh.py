"""NSH: balance and decorrelation to machine precision, the stretched space, few or equal rows."""

import numpy as np
import pytest

from hashlearn import LSH, NSH, codes
from hashlearn.zoo.nsh import PivotFunction, pivot_spacing


def rows(n=300, d=8, seed=0):
    rng = np.random.RandomState(seed)
    return (rng.standard_normal((n, d)) + rng.standard_normal((4, d))[rng.randint(4, size=n)]).astype(np.float32)


def test_projections_sum_to_zero_and_are_uncorrelated_with_earlier_bits():
    X = rows()
    hasher = NSH(n_bits=16, random_state=0).fit(X)
    function = hasher.function_
    F = function.stretch(X - X.mean(axis=0))
    projections = F @ function.weights
    scale = np.abs(projections).sum(axis=0)
    assert (np.abs(projections.sum(axis=0)) < 1e-6 * scale).all()
    bits = np.where(projections >= 0, 1, -1)
    cross = bits.T @ projections / scale
    assert np.abs(np.triu(cross, 1)).max() < 1e-4  # the frame's features differ from these by float32 rounding
    assert np.diag(cross).min() == pytest.approx(1)
    assert np.abs(np.tril(cross, -1)).max() > 1e-3  # only earlier bits are met, so the test can fail
    np.testing.assert_allclose((function.weights**2).sum(axis=0), 1)


def test_stretched_space_by_brute_force():
    X = rows(n=20)
    pivots = rows(n=7, seed=1)
    squared = ((X[:, None].astype(float) - pivots[None]) ** 2).sum(axis=2)
    F = PivotFunction(pivots, 2.0).stretch(X)
    np.testing.assert_allclose(F[:, :-1], np.exp(-squared / 4), rtol=1e-5)
    assert (F[:, -1] == 1).all()
    between = np.sqrt(((pivots[:, None] - pivots[None]) ** 2).sum(axis=2)) + np.diag([np.inf] * 7)
    assert pivot_spacing(pivots) == pytest.approx(between.min(axis=1).mean(), rel=1e-5)


def test_spends_more_bits_on_neighbours_than_plain_planes():
    X = rows(n=600)
    distances = np.sqrt(((X[:, None] - X[None]) ** 2).sum(axis=2))
    order = np.argsort(distances, axis=1)

    def share(method):
        """Mean distance to the 5 nearest rows over that to middling ones, in bits."""
        packed = method(n_bits=64, random_state=0).fit(X).codes_
        hamming = np.take_along_axis(codes.hamming_distances(packed, packed), order, axis=1)
        return hamming[:, 1:6].mean() / hamming[:, 250:350].mean()

    assert share(NSH) > 1.1 * share(LSH)


def test_few_rows_repeated_rows_and_equal_rows():
    X = np.repeat(rows(n=3), 10, axis=0)
    hasher = NSH(n_bits=32, random_state=0).fit(X)
    assert len(hasher.function_.pivots) == 3
    assert len(np.unique(hasher.codes_, axis=0)) == 3
    assert len(np.unique(NSH(n_bits=8, random_state=0).fit(np.ones((10, 3))).codes_, axis=0)) == 1


def test_same_seed_same_codes_whatever_the_threads():
    X = rows(n=2500)
    a, b = (NSH(n_bits=8, random_state=1, n_jobs=jobs).fit(X) for jobs in (1, 2))
    assert (a.codes_ == b.codes_).all()
    assert (a.codes_ == a.encode(X)).all()
    assert (a.codes_ != NSH(n_bits=8, random_state=2).fit(X).codes_).any()
