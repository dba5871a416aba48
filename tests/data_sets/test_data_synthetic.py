"""Generated data has the answers it claims."""

import numpy as np
import pytest

from hashlearn import codes, metrics
from hashlearn.data import synthetic


@pytest.mark.parametrize(("n_classes", "distance"), [(2, 1.0), (5, 2.0), (10, 4.0)])
def test_nearest_centre_is_as_right_as_promised(n_classes, distance):
    made = synthetic.gaussian_classes(20_000, n_classes, 16, distance)
    squares = ((made.pool.X[:, None] - made.centers) ** 2).sum(axis=2)
    found = (squares.argmin(axis=1) == made.pool.y).mean()
    deviation = np.sqrt(made.accuracy * (1 - made.accuracy) / 20_000)
    assert abs(found - made.accuracy) < 4 * deviation
    apart = np.linalg.norm(made.centers[0] - made.centers[1])
    assert apart == pytest.approx(distance)


def test_labels_follow_from_the_features():
    made = synthetic.factor_labels(3000, density=0.3)
    np.testing.assert_array_equal(made.pool.X @ made.directions > made.thresholds, made.pool.y)
    assert made.pool.y.mean() == pytest.approx(0.3, abs=0.02)
    assert made.pool.y.dtype == np.uint8
    noisy = synthetic.factor_labels(3000, density=0.3, noise=0.5)
    assert np.any((noisy.pool.X @ noisy.directions > noisy.thresholds) != noisy.pool.y)


@pytest.mark.parametrize("n_bits", [1, 3, 8])
def test_the_ideal_code_of_the_circle(n_bits):
    made = synthetic.circle_classes(1500, n_bits)
    arcs = np.arange(2 * n_bits)
    around = np.abs(arcs[:, None] - arcs)
    distance = (made.class_codes[:, None] != made.class_codes).sum(axis=2)
    np.testing.assert_array_equal(distance, np.minimum(around, 2 * n_bits - around))
    # A linear function makes it: bit k is the side of the line at angle πk/m.
    angles = np.arange(n_bits) * np.pi / n_bits
    sides = made.pool.X @ np.stack([-np.sin(angles), np.cos(angles)]) > 0
    np.testing.assert_array_equal(sides, made.codes.astype(bool))
    packed = codes.pack(made.codes)
    assert metrics.mean_average_precision(packed[:100], packed, made.pool.y[:100], made.pool.y) == pytest.approx(1)


def test_seeds_and_bad_sizes():
    first, again, other = (synthetic.circle_classes(50, seed=seed).pool.X for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert np.any(first != other)
    for make in (
        lambda: synthetic.gaussian_classes(n_classes=9, n_features=8),
        lambda: synthetic.factor_labels(n_factors=9, n_features=8),
        lambda: synthetic.circle_classes(n_bits=0),
    ):
        with pytest.raises(ValueError, match="Got"):
            make()
