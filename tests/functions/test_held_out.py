"""Ridge and thresholds by rows left out: what explicit fits without those rows would give."""

import numpy as np
import pytest

from hashlearn.functions.linear import RIDGES, HeldOutRows, RidgeSums, calibrated_ridge

N_ROWS, WIDTH, N_BITS = 400, 30, 6


@pytest.fixture
def problem():
    """Noisy bits of features whose mean is not 0; the first bit is rarely 1."""
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(N_ROWS, WIDTH)) + 1).astype(np.float32)
    z = (X - 1) @ rng.normal(size=(WIDTH, N_BITS)) + 4 * rng.normal(size=(N_ROWS, N_BITS))
    z[:, 0] -= 8
    return X, np.where(z >= 0, 1, -1).astype(np.float32)


def held_out(X, codes, rows, fold):
    return HeldOutRows(X[rows], codes[rows], codes[rows], np.zeros(len(rows), dtype=np.intp), fold)


def wrong_bits(X, codes, folds, share):
    """Fit to all rows but a fold, by the plain formula, and count wrong bits of the fold."""
    mean = X.mean(axis=0, dtype=np.float64)
    ridge, wrong = share * ((X - mean) ** 2).sum() / WIDTH, 0
    for fold in folds:
        kept = np.setdiff1d(np.arange(len(X)), fold)
        A, T = X[kept] - mean, codes[kept]
        W = np.linalg.solve(A.T @ A + ridge * np.eye(WIDTH), A.T @ T)
        wrong += np.count_nonzero(((X[fold] - mean) @ W + T.mean(axis=0) >= 0) != (codes[fold] > 0))
    return wrong


@pytest.mark.parametrize("n_folds", [1, 5])
def test_the_ridge_with_the_fewest_wrong_bits_is_chosen(problem, n_folds):
    X, codes = problem
    rows = np.arange(80) if n_folds == 1 else np.arange(N_ROWS)
    fold = rows % n_folds
    mean = X.mean(axis=0, dtype=np.float64)
    function = calibrated_ridge(RidgeSums.from_rows(X, codes), held_out(X, codes, rows, fold), mean, 1)
    errors = [wrong_bits(X, codes, [rows[fold == k] for k in range(n_folds)], share) for share in RIDGES]
    scale = ((X - mean) ** 2).sum() / WIDTH
    chosen = int(np.argmin(np.abs(np.log(np.array(RIDGES) * scale / function.ridge_))))
    assert function.ridge_ == pytest.approx(RIDGES[chosen] * scale, rel=1e-3)
    # The search ends where the next ridge is no better.
    assert errors[chosen] <= min(errors[:2])
    assert errors[chosen] <= errors[min(chosen + 1, len(RIDGES) - 1)]


def test_projections_are_log_odds_with_the_threshold_of_a_rare_bit(problem):
    X, codes = problem
    rows = np.arange(N_ROWS)
    mean = X.mean(axis=0, dtype=np.float64)
    function = calibrated_ridge(RidgeSums.from_rows(X, codes), held_out(X, codes, rows, rows % 5), mean, 1)
    expected = np.tanh(function.project((X - mean).astype(np.float32)) / 2)
    np.testing.assert_allclose(expected.mean(axis=0), codes.mean(axis=0), atol=0.1)


def test_a_bit_that_nothing_predicts_keeps_its_sign_and_loses_its_weight():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 4)).astype(np.float32)
    codes = np.where(rng.random((200, 40)) < 0.5, 1, -1).astype(np.float32)
    rows = np.arange(200)
    mean = X.mean(axis=0, dtype=np.float64)
    function = calibrated_ridge(RidgeSums.from_rows(X, codes), held_out(X, codes, rows, rows % 5), mean, 1)
    z = function.project(X - mean.astype(np.float32))
    assert np.isfinite(z).all()
    weak = np.abs(z).max(axis=0) < 1e-4
    assert weak.any()
    assert ((z[:, weak] > 0).any(axis=0) & (z[:, weak] < 0).any(axis=0)).all()
