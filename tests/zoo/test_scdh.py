"""SCDH: exact steps never raise the objective, which equals that of the dense matrices up to a constant."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from hashlearn import SCDH, codes
from hashlearn.zoo.agh import balanced

X, Y = load_digits(return_X_y=True)


@pytest.mark.parametrize("sets", [False, True], ids=["classes", "sets"])
def test_the_objective_never_rises(sets):
    labels = np.stack([Y % 2, Y % 3 == 0, Y > 6], axis=1).astype(int) if sets else Y
    hasher = SCDH(16, n_landmarks=60, random_state=0, n_jobs=1).fit(X[:400], labels[:400])
    assert np.all(np.diff(hasher.objective_) <= 1e-9 * np.abs(hasher.objective_[:-1]))
    assert len(hasher.objective_) == 3 * hasher.n_iter_


def test_the_last_objective_by_dense_matrices():
    """|Z B' - m S|^2 + l (|B - X P|^2 + ridge |P|^2) + a |B - Z|^2 with explicit S, at the codes of the fit."""
    hasher = SCDH(8, n_landmarks=30, max_iter=2, random_state=0, n_jobs=1).fit(X[:80], Y[:80])
    B = codes.unpack_signs(hasher.codes_, 8).astype(float)
    before = SCDH(8, n_landmarks=30, max_iter=1, random_state=0, n_jobs=1).fit(X[:80], Y[:80])
    old = codes.unpack_signs(before.codes_, 8).astype(float)
    S = np.where(Y[:80, None] == Y[:80], 1.0, -1.0)
    fit, balance = 0.01 * 8 * 80, 0.001 * 8 * 80
    Z = balanced(8 * S @ old + balance * old, np.random.RandomState(0))
    K = hasher.features_.map_block(X[:80]) - hasher.features_.center_
    P = np.linalg.solve(K.T @ K + 0.001 * np.eye(30), K.T @ old)
    dense = ((Z @ B.T - 8 * S) ** 2).sum() + balance * ((B - Z) ** 2).sum()
    dense += fit * (((B - K @ P) ** 2).sum() + 0.001 * (P**2).sum())
    constant = 80 * 80 * 8 + 64 * 80 * 80 + balance * 2 * 80 * 8
    assert hasher.objective_[-1] == pytest.approx(dense - constant, rel=1e-4)


def test_quality_and_too_many_bits():
    hasher = SCDH(32, n_landmarks=200, random_state=0, n_jobs=1).fit(X[:1000], Y[:1000])
    assert hasher.score(X[1000:], Y[1000:]) > 0.85
    with pytest.raises(ValueError, match=r"more labeled rows than bits. Got 20 rows and n_bits=32"):
        SCDH(32).fit(X[:20], Y[:20])
