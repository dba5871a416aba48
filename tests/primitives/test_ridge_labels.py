"""Ridge sums in double precision; S Z the same whether the table of groups is kept or made in blocks."""

import numpy as np
from scipy import sparse

from hashlearn.primitives import LabelProduct, RidgeSolver
from hashlearn.primitives import labels as labels_module


def test_ridge_of_float32_features_is_solved_in_double_precision():
    rng = np.random.RandomState(0)
    # One huge shared direction and tiny others: sums in single precision would drown the ridge.
    X = (100 + 0.01 * rng.standard_normal((9000, 40))).astype(np.float32)
    T = rng.standard_normal((9000, 3))
    exact = X.astype(np.float64)
    wanted = np.linalg.solve(exact.T @ exact + 1e-2 * np.eye(40), exact.T @ T)
    found = RidgeSolver(X, 1e-2).solve(T)
    assert np.abs(exact @ (found - wanted)).max() < 1e-6


def test_products_with_s_do_not_depend_on_the_block_size(monkeypatch):
    rng = np.random.RandomState(1)
    Y = (rng.random_sample((60, 6)) < 0.3).astype(float)
    Y[:5] = 0
    Z = rng.standard_normal((60, 4))
    shared = Y @ Y.T
    largest = shared.max()
    S = np.where(shared > 0, shared, -largest / 2)
    S[:5] = 0
    S[:, :5] = 0
    for block in (2048, 7):
        monkeypatch.setattr(labels_module, "GROUP_BLOCK", block)
        product = LabelProduct.of(sparse.csr_matrix(Y))
        unknown = Y.sum(axis=1) == 0
        wanted = np.where(unknown[:, None], 0, S @ np.where(unknown[:, None], 0, Z))
        np.testing.assert_allclose(product @ Z, wanted, atol=1e-9)
        np.testing.assert_allclose(product.quadratic(Z), Z.T @ wanted, atol=1e-9)
