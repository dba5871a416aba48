"""AIBC: products with S, a falling objective, two hash functions."""

import numpy as np
import pytest
from zoo_data import classes

from hashlearn import AIBC, codes, metrics
from hashlearn.labels import label_matrix
from hashlearn.rows.reduce import GroupSums
from hashlearn.zoo.aibc import CenteredLabels, InnerProducts
from hashlearn.zoo.bases.rounds import CodeSums


@pytest.mark.parametrize("kind", ["classes", "label sets"])
def test_products_with_s_of_labels(kind):
    rng = np.random.RandomState(0)
    Y = np.eye(3, dtype=int)[rng.randint(3, size=30)]
    if kind == "label sets":
        Y |= rng.randint(2, size=Y.shape)
    shared = Y @ Y.T
    S = np.where(shared == 0, -shared.max() * (0.5 if kind == "label sets" else 1), shared)
    S = (S - S.mean()) / (S.max() - S.mean())
    Z = rng.standard_normal((30, 4))
    np.testing.assert_allclose(CenteredLabels(label_matrix(Y)) @ Z, S @ Z, atol=1e-10)


def test_products_with_s_of_features():
    X, B, Z = classes(n=30)[0].astype(float), *np.random.RandomState(0).standard_normal((2, 30, 4))
    S = X @ X.T
    S *= 30 / np.trace(S)
    one, other = (CodeSums(A.T @ A, X.T @ A, GroupSums.from_rows(np.zeros(30, int), A, 1), 0) for A in (B, Z))
    product = InnerProducts((X**2).sum() / 30)
    by_group, weights = product.affinity(other)
    np.testing.assert_allclose(by_group[[0] * 30] + X @ weights, S @ Z, rtol=1e-5, atol=1e-5)
    assert product.agreement(one, other) == pytest.approx(np.trace(B.T @ S @ Z))


@pytest.mark.parametrize("kind", ["classes", "label sets", "features"])
@pytest.mark.parametrize("nu", [1e-4, 1e-1])
def test_objective_never_rises(kind, nu):
    X, y = classes()
    Y = np.eye(4, dtype=int)[y]
    if kind == "label sets":
        Y |= np.random.RandomState(1).randint(2, size=Y.shape)
    similarity = "features" if kind == "features" else "labels"
    hasher = AIBC(n_bits=8, similarity=similarity, nu=nu, n_landmarks=50, random_state=0).fit(X, Y)
    assert len(hasher.objective_) > 5
    scale = abs(hasher.objective_).max()
    assert (np.diff(hasher.objective_) <= 1e-9 * scale).all()
    assert hasher.objective_[-1] < hasher.objective_[0] - 0.01 * scale


def test_no_single_bit_of_the_final_database_codes_can_be_improved():
    X, y = classes(n=60)
    hasher = AIBC(n_bits=4, kernel=None, max_iter=100, inner_iter=50, random_state=0).fit(X, y)
    assert len(hasher.objective_) < 401  # it stopped because nothing changed
    centred = (X - X.mean(axis=0)).astype(np.float64)
    S = CenteredLabels(label_matrix(y)) @ np.eye(60)
    Z = codes.unpack_signs(hasher.codes_, 4).astype(float)
    R = hasher.database_function_.weights_.astype(np.float64)
    # B is not kept: take the best one for this Z by trying all codes a row.
    W = hasher.function_.weights_.astype(np.float64)
    nu = 1e-2 * 4 * 60

    def cost(B, Z):
        return ((B @ Z.T - 4 * S) ** 2).sum() + nu * (((B - centred @ W) ** 2).sum() + ((Z - centred @ R) ** 2).sum())

    all_codes = np.array(np.meshgrid(*[[-1, 1]] * 4)).reshape(4, -1).T.astype(float)
    rows_cost = ((all_codes @ Z.T)[None] - 4 * S[:, None]) ** 2
    fit = ((all_codes[None] - (centred @ W)[:, None]) ** 2).sum(axis=2)
    B = all_codes[np.argmin(rows_cost.sum(axis=2) + nu * fit, axis=1)]
    best = cost(B, Z)
    assert best <= hasher.objective_[-1] + (4 * S).ravel() @ (4 * S).ravel() + 1e-6 * abs(best)
    for i in range(60):
        for k in range(4):
            Z[i, k] *= -1
            assert cost(B, Z) >= best - 1e-6 * best
            Z[i, k] *= -1


def test_queries_and_database_have_functions_of_their_own():
    X, y = classes(n=400, spread=1.5)
    hasher = AIBC(n_bits=16, n_landmarks=100, random_state=0).fit(X[:200], y[:200])
    assert (hasher.function_.weights_ != hasher.database_function_.weights_).any()
    found = metrics.mean_average_precision(hasher.encode(X[200:]), hasher.encode_database(X[:200]), y[200:], y[:200])
    assert found > 0.9


def test_features_need_no_labels_and_find_large_inner_products():
    X, _ = classes(n=300, spread=1.0)
    centred = X - X.mean(axis=0)
    hasher = AIBC(n_bits=64, similarity="features", kernel=None, random_state=0).fit(X)
    B, Z = 2.0 * hasher.transform(X) - 1, codes.unpack_signs(hasher.codes_, 64).astype(float)
    assert np.corrcoef((B @ Z.T).ravel(), (centred @ centred.T).ravel())[0, 1] > 0.75
    with pytest.raises(ValueError, match="requires y"):
        AIBC(n_bits=4).fit(X)


def test_unlabeled_rows_get_database_codes_and_take_no_part():
    X, y = classes(spread=1.0)
    Y = np.eye(4, dtype=int)[y]
    Y[150:] = 0
    # After one round the two functions still differ; on easy data they end up the same.
    hasher = AIBC(n_bits=16, kernel=None, max_iter=1, random_state=0).fit(X, Y)
    assert (hasher.codes_[150:] == hasher.encode_database(X[150:])).all()
    assert (hasher.codes_[:150] != hasher.encode_database(X[:150])).any()
    assert (hasher.codes_[150:] != hasher.encode(X[150:])).any()
    other = X.copy()
    other[150:] = other[150:][::-1]
    again = AIBC(n_bits=16, kernel=None, max_iter=1, random_state=0).fit(other, Y)
    np.testing.assert_allclose(hasher.function_.weights_, again.function_.weights_, atol=1e-3)
