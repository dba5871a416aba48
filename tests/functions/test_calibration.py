"""Calibration: the logistic curve of a bit, finite and monotone whatever the data."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from hashlearn.functions.calibration import Calibration, nearest_rows, spread_thresholds


def drawn(n_rows, slopes, offsets, seed=0):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n_rows, len(slopes))) * [1.0, 3.0, 0.01]
    p = 1 / (1 + np.exp(-(z * slopes + offsets)))
    return z, (rng.uniform(size=p.shape) < p).astype(np.uint8)


def test_recovers_the_parameters_that_bits_were_drawn_with():
    slopes, offsets = np.array([2.0, 0.5, 300.0]), np.array([0.3, -1.0, 0.0])
    found = Calibration.fit(*drawn(100_000, slopes, offsets))
    np.testing.assert_allclose(found.slopes_, slopes, rtol=0.03)
    np.testing.assert_allclose(found.offsets_, offsets, atol=0.03)


def test_equals_a_logistic_regression_on_the_smoothed_targets():
    """scikit-learn takes no fractional targets, but a row of each kind with the target as its weight is the same."""
    z, bits = drawn(400, np.array([2.0, 0.5, 300.0]), np.array([0.3, -1.0, 0.0]))
    found = Calibration.fit(z, bits)
    for j in range(z.shape[1]):
        ones = int(bits[:, j].sum())
        target = np.where(bits[:, j] == 1, (ones + 1) / (ones + 2), 1 / (len(z) - ones + 2))
        x, y = np.tile(z[:, j], 2)[:, None], np.repeat([1, 0], len(z))
        model = LogisticRegression(C=1e10, tol=1e-10, max_iter=10_000).fit(x, y, np.append(target, 1 - target))
        np.testing.assert_allclose(found.slopes_[j], model.coef_[0, 0], rtol=1e-3)
        np.testing.assert_allclose(found.offsets_[j], model.intercept_[0], rtol=1e-3, atol=1e-4)


def test_signs_count_as_bits():
    z, bits = drawn(500, np.array([2.0, 0.5, 300.0]), np.zeros(3))
    as_bits, as_signs = Calibration.fit(z, bits), Calibration.fit(z, bits.astype(np.int8) * 2 - 1)
    np.testing.assert_array_equal(as_bits.slopes_, as_signs.slopes_)


def test_the_curve_is_where_the_likelihood_has_no_slope():
    z, bits = drawn(300, np.array([2.0, 0.5, 300.0]), np.array([0.3, -1.0, 0.0]))
    found = Calibration.fit(z, bits)
    p = (found.expected_bits(z) + 1) / 2
    ones = bits.sum(axis=0)
    target = np.where(bits == 1, (ones + 1) / (ones + 2), 1 / (len(z) - ones + 2))
    np.testing.assert_allclose((target - p).mean(axis=0), 0, atol=1e-6)
    np.testing.assert_allclose(((target - p) * z / np.abs(z).max(axis=0)).mean(axis=0), 0, atol=1e-6)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_separable_bits_have_a_finite_steep_curve(scale):
    z = scale * np.linspace(-1, 1, 200)[:, None]
    found = Calibration.fit(z, z > 0)
    assert np.isfinite(found.slopes_).all()
    e = found.expected_bits(z).ravel()
    np.testing.assert_array_equal(e > 0, z.ravel() > 0)
    assert e[-1] > 0.9
    assert e[0] < -0.9


def test_far_clusters_reach_their_smoothed_targets():
    """Where steps of Newton alone would overshoot: rows at two points, bits equal to the point."""
    z = np.repeat([-100.0, 1.0], 1000)[:, None]
    e = Calibration.fit(z, z > 0).expected_bits(z)
    np.testing.assert_allclose(e[[0, -1], 0], [2 / 1002 - 1, 2 * 1001 / 1002 - 1], atol=1e-4)


@pytest.mark.parametrize("bit", [0, 1])
def test_a_constant_bit_is_nearly_sure_whatever_the_projection(bit):
    z = np.random.default_rng(0).normal(size=(98, 2))
    found = Calibration.fit(z, np.full((98, 2), bit))
    np.testing.assert_allclose(found.expected_bits(z), (1 if bit else -1) * 0.98, atol=1e-3)


def test_a_constant_projection_gives_the_share_of_ones():
    z, bits = np.full((98, 1), 3.0), (np.arange(98) < 48)[:, None]
    found = Calibration.fit(z, bits)
    expected = 2 * np.mean(np.where(bits, 49 / 50, 1 / 52)) - 1
    np.testing.assert_allclose(found.expected_bits(z), expected, atol=1e-6)
    assert np.isfinite(Calibration.fit(0 * z, bits).slopes_).all()


def test_a_larger_projection_never_makes_a_one_less_likely():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(50, 40))
    found = Calibration.fit(z, rng.integers(0, 2, size=z.shape))
    assert (found.slopes_ == 0).any()
    grid = np.linspace(-3, 3, 20)[:, None] * np.ones(40)
    assert (np.diff(found.expected_bits(grid), axis=0) >= 0).all()


def test_without_offset_signs_stay():
    z, bits = drawn(500, np.array([2.0, 0.5, 300.0]), np.array([2.0, 2.0, 2.0]))
    found = Calibration.fit(z, bits, offset=False)
    np.testing.assert_array_equal(found.offsets_, 0)
    np.testing.assert_array_equal(np.sign(found.expected_bits(z)), np.sign(z))


def test_precision_is_that_of_the_projections():
    found = Calibration([1.0], [0.0])
    assert found.expected_bits(np.zeros((1, 1), dtype=np.float32)).dtype == np.float32
    assert found.expected_bits(np.zeros((1, 1))).dtype == np.float64
    np.testing.assert_array_equal(found.expected_bits(np.array([[-1e300], [1e300]])), [[-1], [1]])


def test_nearest_rows():
    rows = np.array([[0.0], [1.0], [3.0], [10.0]])
    assert nearest_rows(rows, 2).tolist() == [[1, 2], [0, 2], [0, 1], [1, 2]]


def test_of_equally_near_rows_the_first_ones_are_taken():
    rows = np.zeros((6, 2))
    assert nearest_rows(rows, 2).tolist() == [[1, 2], [0, 2], [0, 1], [0, 1], [0, 1], [0, 1]]


def test_nearest_rows_of_few_rows():
    assert nearest_rows(np.array([[0.0], [1.0]]), 5).tolist() == [[1], [0]]
    with pytest.raises(ValueError, match="at least 2 rows"):
        nearest_rows(np.zeros((1, 3)))


def test_curves_of_neighbors_are_those_of_all_pairs():
    rng = np.random.default_rng(0)
    rows, weights = rng.normal(size=(200, 5)), rng.normal(size=(5, 4))
    z, near = rows @ weights, nearest_rows(rows, 5)
    pairs = Calibration.fit(np.repeat(z, 5, axis=0), z[near.ravel()] >= 0, offset=False)
    np.testing.assert_allclose(Calibration.fit_neighbors(z, rows).slopes_, pairs.slopes_, rtol=1e-6)


def test_a_bit_that_neighbors_share_gets_a_steeper_curve_than_noise():
    """The rule for hashers whose codes are the signs of their projections."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(500, 2)) * [10, 0.1]
    found = Calibration.fit_neighbors(rows / rows.std(axis=0), rows)
    assert found.slopes_[0] > 10 * found.slopes_[1]


def test_curves_that_keep_signs():
    found = Calibration([0.0, 2.0], [1.0, 0.5]).keeping_signs()
    z = np.array([[-1.0, -1.0], [1.0, 1.0]])
    np.testing.assert_array_equal(np.sign(found.expected_bits(z)), z)
    assert found.slopes_[1] == 2.0


def test_spread_thresholds_are_a_shuffled_even_grid():
    thresholds = spread_thresholds(64, 0.75, seed=3)
    np.testing.assert_allclose(np.sort(thresholds), np.linspace(-0.75, 0.75, 64))
    assert not np.array_equal(thresholds, np.sort(thresholds))
    np.testing.assert_array_equal(thresholds, spread_thresholds(64, 0.75, seed=3))
    # Averaged over bits, the signs of rows with one e tell it.
    np.testing.assert_allclose(np.sign(0.3 - thresholds).mean(), 0.3 / 0.75, atol=0.03)
