"""SQH: choices and words by brute force, an objective that falls, labels that help."""

import itertools

import numpy as np
import pytest

from hashlearn import codecs, data, metrics
from hashlearn.codecs.supervised import _improve, _least_squares, _sums


def test_choices_are_as_good_as_any_single_change():
    rng = np.random.default_rng(0)
    words, wanted = rng.normal(size=(3, 5, 4)), rng.normal(size=(6, 4))
    choice = rng.integers(0, 5, (6, 3))
    start = choice.copy()
    for _ in range(10):
        _improve(words, choice, wanted)

    def error(row, own):
        return ((wanted[row] - sum(words[m, own[m]] for m in range(3))) ** 2).sum()

    for row in range(6):
        assert error(row, choice[row]) <= error(row, start[row]) + 1e-12
        for place, word in itertools.product(range(3), range(5)):
            changed = choice[row].copy()
            changed[place] = word
            assert error(row, choice[row]) <= error(row, changed) + 1e-9


@pytest.mark.slow
def test_words_are_least_squares():
    rng = np.random.default_rng(0)
    choice, wanted = rng.integers(0, 256, (40, 2)), rng.normal(size=(40, 3))
    words = _least_squares(choice, wanted, np.zeros((2, 256, 3)))
    indicator = np.zeros((40, 512))
    for row, place in itertools.product(range(40), range(2)):
        indicator[row, 256 * place + choice[row, place]] = 1
    best = indicator @ np.linalg.lstsq(indicator, wanted, rcond=None)[0]
    np.testing.assert_allclose(_sums(words, choice), best, atol=1e-4)


@pytest.fixture(scope="module")
def digits():
    return data.digits()


def test_the_objective_falls_and_labels_help(digits):
    X, y = digits.train_X[:600], digits.train_y[:600]
    codec = codecs.SupervisedCodec(2).fit(X, y)
    assert np.all(np.diff(codec.objective_) <= 1e-6 * np.abs(codec.objective_[:-1]))
    plain = codecs.ProductCodec(2).fit(X)
    database, queries = digits.train_X[600:1100], digits.query_X[:100]
    score = [
        metrics.evaluate_scores(
            one.scores(queries, one.encode(database)), digits.query_y[:100], digits.train_y[600:1100], at=None
        ).map
        for one in (codec, plain)
    ]
    assert score[0] > score[1] + 0.05


def test_label_sets_and_the_same_answer_twice(digits):
    X, y = digits.train_X[:300], digits.train_y[:300]
    sets = np.stack([y % 2, y % 3 == 0, y > 6], axis=1).astype(int)
    first, again = (codecs.SupervisedCodec(2, seed=3).fit(X, sets).encode(X) for _ in range(2))
    assert first.shape == (300, 2)
    np.testing.assert_array_equal(first, again)
