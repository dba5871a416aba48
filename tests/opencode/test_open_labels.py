"""Label scores: left-out scores are those of fits without the row."""

import numpy as np
import pytest

from hashlearn.functions.linear import RidgeSums
from hashlearn.kernel import LandmarkKernel
from hashlearn.opencode.labels import RIDGE, LabelRegression, best_temperature


@pytest.fixture(scope="module")
def regression():
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(3), 40)
    X = (rng.normal(size=(3, 6))[y] + 0.5 * rng.normal(size=(120, 6))).astype(np.float32)
    kernel = LandmarkKernel(n_landmarks=30, random_state=0).fit(X)
    kernel.center_ = kernel.typical()
    features = kernel.map_block(X) - kernel.center_
    Y = np.eye(3, dtype=np.float32)[y]
    return X, y, LabelRegression(RidgeSums.from_rows(features.astype(np.float64), Y.astype(np.float64)), kernel)


def test_the_regression_solves_its_equations(regression):
    X, y, fitted = regression
    K = fitted.scores.kernel_.map_block(X, np.float64)
    np.testing.assert_allclose(fitted.scores.kernel_.center_, K.mean(axis=0), atol=1e-6)
    K, Y = K - K.mean(axis=0), np.eye(3)[y]
    weights = np.linalg.solve(K.T @ K + RIDGE * len(y) * np.eye(30), K.T @ (Y - Y.mean(axis=0)))
    np.testing.assert_allclose(fitted.scores.scores(X), K @ weights + Y.mean(axis=0), atol=1e-3)


def test_left_out_scores_are_those_of_fits_without_the_row(regression):
    X, y, fitted = regression
    Y = np.eye(3)[y]
    got = fitted.left_out(X, Y, 1)
    K = fitted.scores.kernel_.map_block(X, np.float64)
    K -= K.mean(axis=0)
    for row in range(0, 120, 17):
        rest = np.arange(120) != row
        # The mean of the labels is refitted too: a constant feature without ridge.
        A = np.column_stack([K[rest], np.ones(119)])
        ridge = RIDGE * 120 * np.diag([1.0] * 30 + [0.0])
        weights = np.linalg.solve(A.T @ A + ridge, A.T @ Y[rest])
        np.testing.assert_allclose(got[row], np.append(K[row], 1) @ weights, atol=2e-3)


def test_probabilities_of_classes_and_of_label_sets(regression):
    scores = regression[2].scores
    f = np.array([[0.2, 1.5, -0.5]], dtype=np.float32)
    scores.temperature_ = None
    np.testing.assert_allclose(scores.probabilities(f), [[0.2, 1.0, 0.0]])
    scores.temperature_ = 4.0
    np.testing.assert_allclose(scores.probabilities(f), np.exp(4 * f) / np.exp(4 * f).sum(), rtol=1e-5)


def test_the_temperature_fits_how_sure_scores_are():
    label = np.zeros(50, dtype=np.intp)
    sure, unsure = np.tile([[1.0, 0.0]], (50, 1)), np.tile([[0.6, 0.4]], (50, 1))
    unsure[:20] = [0.4, 0.6]
    assert best_temperature(sure, label) > best_temperature(unsure, label)
