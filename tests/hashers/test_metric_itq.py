"""ITQ in the metric that labels teach."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_digits

import hashlearn as hl
from hashlearn.hashers import metric_itq
from hashlearn.hashers.metric_itq import TaughtAxes
from hashlearn.opencode.metric import LabelMetric, LabelSums


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X.astype(np.float32), y


@pytest.mark.slow
def test_it_is_better_than_itq_on_known_and_unknown_classes(digits):
    X, y = digits
    train, database, queries = slice(0, 700), slice(700, 1400), slice(1400, None)
    known = y < 7
    plain = hl.ITQ(32, random_state=0).fit(X[train])
    taught = hl.MetricITQ(32, unlabeled=-1, random_state=0).fit(X[train], np.where(known, y, -1)[train])
    for asked in (known[queries], ~known[queries]):
        given = [
            hl.metrics.mean_average_precision(
                hasher.encode(X[queries][asked]), hasher.encode(X[database]), y[queries][asked], y[database], at=None
            )
            for hasher in (plain, taught)
        ]
        assert given[1] > given[0] + 0.02


def test_the_axes_are_those_of_the_metric(digits):
    X, y = digits
    labels = sparse.csr_matrix(np.eye(10)[y])
    labels[::5] = 0
    labels.eliminate_zeros()
    axes = TaughtAxes(X, labels, 16)
    norms = np.linalg.norm(X - axes.center, axis=1, keepdims=True)
    mapped = (X - axes.center) @ axes.weights
    lengths = np.linalg.norm(mapped, axis=1, keepdims=True)
    directions = axes.vectors / np.linalg.norm(axes.vectors, axis=1, keepdims=True)
    np.testing.assert_allclose(mapped / lengths, directions, atol=2e-4)
    assert norms.min() > 0
    # On unit rows it is the metric of open-world codes.
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    known, mean = np.arange(len(X)) % 5 > 0, unit.mean(axis=0, dtype=np.float64)
    sums = LabelSums.from_rows((unit - mean)[known], labels[known], True)
    metric = LabelMetric(mean, np.cov(unit.T, bias=True), sums)
    metric.set_axes(metric.moments(unit))
    own = TaughtAxes(unit, labels, 16)
    ours, theirs = own.vectors[:200] @ own.vectors[:200].T, metric.map_unit(unit[:200])[:, :16]
    np.testing.assert_allclose(ours, theirs @ theirs.T, atol=5e-3)


def test_unlabeled_rows_take_part(digits):
    X, y = digits
    few = np.where(np.arange(len(y)) % 3 == 0, y, -1)
    some = hl.MetricITQ(16, unlabeled=-1, random_state=0).fit(X, few)
    alone = hl.MetricITQ(16, random_state=0).fit(X[::3], y[::3])
    assert (some.encode(X) != alone.encode(X)).any()
    np.testing.assert_allclose(some.features_.center_, X.mean(axis=0), rtol=1e-4, atol=1e-4)


def test_more_bits_than_axes_and_labels_that_explain_nothing(digits):
    X, _ = digits
    noise = np.random.default_rng(0).integers(3, size=60)
    hasher = hl.MetricITQ(100, random_state=0).fit(X[:60, 18:24], noise)
    assert hasher.encode(X[:, 18:24]).shape == (1797, 13)
    assert 0 <= hasher.explained_ < 0.2


def test_many_features_are_reduced_first(digits, monkeypatch):
    X, y = digits
    whole = hl.MetricITQ(16, random_state=0).fit(X, y)
    monkeypatch.setattr(metric_itq, "MOST_FEATURES", 40)
    reduced = hl.MetricITQ(16, random_state=0).fit(X, y)
    assert abs(reduced.score(X, y) - whole.score(X, y)) < 0.05


def test_the_most_frequent_labels_teach_where_there_are_too_many(digits, monkeypatch):
    X, y = digits
    sets = np.stack([y < 5, y % 2 == 0, y == 3], axis=1)
    monkeypatch.setattr(metric_itq, "MOST_LABELS", 2)
    found = hl.MetricITQ(16, random_state=0).fit(X, sets)
    again = hl.MetricITQ(16, random_state=0).fit(X, sets[:, [1, 0, 2]])
    np.testing.assert_array_equal(found.encode(X), again.encode(X))


def test_one_class_is_refused(digits):
    with pytest.raises(ValueError, match="same label"):
        hl.MetricITQ(8).fit(digits[0][:20], np.zeros(20))
