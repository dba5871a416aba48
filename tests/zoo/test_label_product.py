"""S Z is the same whether the table of groups is kept or made in blocks."""

import numpy as np
from scipy import sparse

from hashlearn.zoo.bases import primitives as labels_module
from hashlearn.zoo.bases.primitives import LabelProduct


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
        product = LabelProduct.from_labels(sparse.csr_matrix(Y))
        unknown = Y.sum(axis=1) == 0
        wanted = np.where(unknown[:, None], 0, S @ np.where(unknown[:, None], 0, Z))
        np.testing.assert_allclose(product @ Z, wanted, atol=1e-9)
        np.testing.assert_allclose(product.quadratic(Z), Z.T @ wanted, atol=1e-9)
