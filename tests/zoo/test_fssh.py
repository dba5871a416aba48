"""FSSH: closed forms against dense algebra, an objective that never rises, quality."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from hashlearn import FSSH, codes
from hashlearn.zoo.bases.rounds import random_codes

X, Y = load_digits(return_X_y=True)
SETS = np.stack([Y % 2, Y % 3 == 0, Y > 6], axis=1).astype(int)


@pytest.mark.parametrize("labels", [Y, SETS], ids=["classes", "sets"])
def test_the_objective_never_rises(labels):
    hasher = FSSH(16, n_landmarks=60, random_state=0, n_jobs=1).fit(X[:400], labels[:400])
    assert len(hasher.objective_) == 3 * hasher.n_iter_
    assert np.all(np.diff(hasher.objective_) <= 1e-9 * np.abs(hasher.objective_[:-1]))


def test_two_rounds_by_dense_algebra():
    """From the random start codes, with S and all products written down."""
    hasher = FSSH(8, n_landmarks=30, max_iter=2, random_state=0, n_jobs=1).fit(X[:90], Y[:90])
    n, Z = 90, np.eye(10)[Y[:90]]
    K = (hasher.features_.map_block(X[:90]) - hasher.features_.center_).astype(float)
    S = 8 * np.where(Y[:90, None] == Y[:90], 1.0, -1.0)
    rng = np.random.RandomState(0)
    hasher._feature_map(rng)  # draws before the start codes do
    B = random_codes(hasher._row_seed(rng), slice(0, n), 8)
    G = np.linalg.lstsq(Z, B, rcond=None)[0]
    for _ in range(2):
        A = Z @ G
        W = np.linalg.solve(K.T @ K + 0.001 * np.eye(30), K.T @ (S @ A + n * B))
        W = W @ np.linalg.inv(A.T @ A + n * np.eye(8))
        H = K @ W
        G = np.linalg.lstsq(Z, S @ H + n * B, rcond=None)[0]
        G = G @ np.linalg.inv(H.T @ H + 0.001 * W.T @ W + n * np.eye(8))
        B = np.where(Z @ G + H >= 0, 1.0, -1.0)
    np.testing.assert_array_equal(B, codes.unpack_signs(hasher.codes_, 8))


def test_quality():
    hasher = FSSH(32, n_landmarks=200, random_state=0, n_jobs=1).fit(X[:1000], Y[:1000])
    assert hasher.score(X[1000:], Y[1000:]) > 0.9
