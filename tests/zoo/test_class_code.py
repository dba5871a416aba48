"""ClassCode: the codes are those of a classifier's answers, and the score is its accuracy."""

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.linear_model import Ridge

from hashlearn import ClassCode, load, metrics, save
from hashlearn.codes import pack

X, Y = (part[:600] for part in load_digits(return_X_y=True))
SMALL = {"n_landmarks": 60, "random_state": 0}


def predictions(hasher, train, y, rows):
    K, Q = (hasher.features_.map_block(part).astype(np.float64) for part in (train, rows))
    return Ridge(alpha=1e-2).fit(K, np.eye(10)[y]).predict(Q).argmax(axis=1)


def test_codes_are_those_of_a_ridge_classifier():
    hasher = ClassCode(n_bits=16, **SMALL).fit(X[:400], Y[:400])
    wanted = predictions(hasher, X[:400], Y[:400], X[400:])
    np.testing.assert_array_equal(hasher.encode(X[400:]), pack(hasher.class_codes_[wanted]))
    np.testing.assert_array_equal(hasher.codes_, pack(hasher.class_codes_[Y[:400]]))


def test_figure_on_the_labelled_database_is_the_accuracy():
    hasher = ClassCode(n_bits=16, **SMALL).fit(X[:400], Y[:400])
    at_most = int(np.bincount(Y[:400]).min())
    found = metrics.mean_average_precision(hasher.encode(X[400:]), hasher.codes_, Y[400:], Y[:400], at=at_most)
    accuracy = (predictions(hasher, X[:400], Y[:400], X[400:]) == Y[400:]).mean()
    # A wrong class fills the whole list with wrong rows, so its query scores nothing.
    assert found == pytest.approx(accuracy)


def test_more_bits_change_nothing():
    few, many = (ClassCode(n_bits=bits, **SMALL).fit(X[:400], Y[:400]) for bits in (8, 64))
    figures = [
        metrics.mean_average_precision(h.encode(X[400:]), h.codes_, Y[400:], Y[:400], at=30) for h in (few, many)
    ]
    assert figures[0] == pytest.approx(figures[1])


def test_rows_without_labels_get_their_predicted_class():
    y = Y.astype(object)
    y[::4] = None
    hasher = ClassCode(n_bits=16, **SMALL).fit(X, y)
    np.testing.assert_array_equal(hasher.codes_[::4], hasher.encode(X)[::4])
    known = np.arange(600) % 4 > 0
    np.testing.assert_array_equal(hasher.codes_[known], pack(hasher.class_codes_[Y[known]]))
    wanted = predictions(hasher, X[known], Y[known], X[::4])
    np.testing.assert_array_equal(hasher.encode(X[::4]), pack(hasher.class_codes_[wanted]))


def test_label_sets_and_too_few_bits_are_refused():
    with pytest.raises(ValueError, match="ClassCode takes one class per row"):
        ClassCode(n_bits=8).fit(X, np.eye(10, dtype=int)[Y] | np.eye(10, dtype=int)[(Y + 1) % 10])
    with pytest.raises(ValueError, match="10 classes need at least 4 bits"):
        ClassCode(n_bits=2).fit(X, Y)


def test_a_file_keeps_the_codes_and_a_seed_fixes_them(tmp_path):
    first, second = (ClassCode(n_bits=8, n_jobs=jobs, **SMALL).fit(X, Y) for jobs in (1, 2))
    np.testing.assert_array_equal(first.codes_, second.codes_)
    assert (ClassCode(n_bits=8, n_landmarks=60, random_state=1).fit(X, Y).codes_ != first.codes_).any()
    save(first, tmp_path / "class.hl")
    np.testing.assert_array_equal(load(tmp_path / "class.hl").encode(X), first.encode(X))
