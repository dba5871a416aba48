"""The metric taught by labels, against plain formulas."""

import numpy as np
import pytest
from scipy import linalg, sparse

from hashlearn.labels import as_labels
from hashlearn.opencode.metric import LabelMetric, LabelSums, unit_rows


def one_hot(y):
    return as_labels(y, -1).sets


def rows_of_classes(n_per_class=30, n_classes=4, width=10, seed=0):
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(n_classes), n_per_class)
    X = rng.normal(size=(n_classes, width))[y] + rng.normal(size=(len(y), width)) * np.linspace(0.2, 2, width)
    return X.astype(np.float32), y


def metric_of(X, labels=None):
    """The metric of rows in memory and their label sets; rows with an empty set are unlabeled."""
    rows = unit_rows(X)
    mean = rows.mean(axis=0, dtype=np.float64)
    centered = rows.astype(np.float64) - mean
    known = [] if labels is None else np.flatnonzero(np.diff(labels.indptr))
    sums = LabelSums.from_rows(centered[known], labels[known], True) if len(known) else None
    metric = LabelMetric(mean, centered.T @ centered / len(rows), sums)
    metric.set_axes(metric.moments(rows))
    return metric


def plain_vectors(X, y, labeled, shrinkage=0.6):
    """The formulas as the notes write them, row by row."""
    U = X / np.linalg.norm(X, axis=1, keepdims=True)
    mean, L = U.mean(axis=0), U[labeled]
    rest = np.array([row - L[y[labeled] == label].mean(axis=0) for row, label in zip(L, y[labeled], strict=True)])
    d, classes = X.shape[1], len(np.unique(y[labeled]))
    within = rest.T @ rest / (len(L) - classes)
    between = ((L - L.mean(axis=0)) ** 2).sum() / len(L) - np.trace(within)
    total = np.cov(U.T, bias=True)
    within = (1 - shrinkage) * within + shrinkage * np.trace(within) / d * np.eye(d)
    psi, V = linalg.eigh(total * between / np.trace(total), within)
    Z = (U - mean) @ (V * np.sqrt(psi / (2 * psi + 1)))
    return Z / np.linalg.norm(Z, axis=1, keepdims=True)


@pytest.mark.parametrize("share", [1.0, 0.5])
def test_inner_products_are_those_of_the_plain_formulas(share):
    X, y = rows_of_classes()
    labeled = np.random.default_rng(1).random(len(y)) < share
    got = metric_of(X, one_hot(np.where(labeled, y, -1))).map_block(X)
    wanted = plain_vectors(X.astype(np.float64), y, labeled)
    np.testing.assert_allclose(got @ got.T, wanted @ wanted.T, atol=2e-5)


def test_classes_and_the_same_classes_as_label_sets_give_equal_scatters():
    X, y = rows_of_classes()
    one, several = (LabelSums.from_rows(X, one_hot(y), single) for single in (True, False))
    (total, explained, rank), (total2, explained2, rank2) = one.scatter(), several.scatter()
    np.testing.assert_allclose(total, total2)
    np.testing.assert_allclose(explained, explained2, atol=1e-8)
    assert rank == rank2 == 3


def test_label_sets_explain_what_least_squares_explains():
    X, _ = rows_of_classes()
    sets = (np.random.default_rng(2).random((len(X), 5)) < 0.4).astype(float)
    centered, Y = X - X.mean(axis=0, dtype=np.float64), sets - sets.mean(axis=0)
    fitted = Y @ np.linalg.lstsq(Y, centered, rcond=None)[0]
    _, explained, rank = LabelSums.from_rows(X, sparse.csr_matrix(sets), False).scatter()
    np.testing.assert_allclose(explained, fitted.T @ fitted, atol=1e-6)
    assert rank == 5


def test_directions_that_vary_within_labels_count_for_less():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 200)
    X = np.stack([np.where(y, 1.0, -1.0) + rng.normal(size=400) * 0.1, 2 * rng.normal(size=400)], axis=1)
    X = np.column_stack([X, np.full(400, 3.0)]).astype(np.float32)
    z = metric_of(X, one_hot(y)).map_block(X)
    same = y[:, None] == y
    gram = z @ z.T
    assert gram[same].mean() > gram[~same].mean() + 0.8


@pytest.mark.parametrize("labels", [None, one_hot(np.full(40, -1)), one_hot(np.arange(40))])
def test_without_repeated_labels_rows_are_only_centered(labels):
    X = np.random.default_rng(0).normal(size=(40, 6)).astype(np.float32)
    metric = metric_of(X, labels)
    rows = unit_rows(X)
    rows = unit_rows(rows - rows.mean(axis=0))
    z = metric.map_block(X)
    np.testing.assert_allclose(z @ z.T, rows @ rows.T, atol=1e-5)
    assert metric.explained_ == 0


def test_constant_features_rows_of_zeros_and_more_features_than_rows():
    X, y = rows_of_classes(n_per_class=5, width=60)
    X[:, 7], X[3] = 1.0, 0.0
    z = metric_of(sparse.csr_matrix(X), one_hot(y)).map_block(X)
    assert np.isfinite(z).all()
    np.testing.assert_allclose(np.linalg.norm(z, axis=1), 1, atol=1e-4)
