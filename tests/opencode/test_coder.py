"""Label words and nibbles, against plain loops."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hashlearn.opencode.coder import LabelWords, NibbleQuantizer, balanced_groups, k_means, nearest


def test_k_means_does_what_plain_loops_do():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3)).astype(np.float32)
    words = X[:5].copy()
    got = k_means(X, words, 4, 2)
    for _ in range(4):
        place = np.array([np.argmin([((x - w) ** 2).sum() for w in words]) for x in X])
        words = np.array([X[place == j].mean(axis=0) if (place == j).any() else words[j] for j in range(5)])
    np.testing.assert_allclose(got, words, atol=1e-6)


@given(st.integers(1, 40), st.integers(1, 20), st.integers(0, 99))
def test_groups_have_equal_sizes_and_disjoint_axes(n_axes, n_groups, seed):
    variance = np.sort(np.random.default_rng(seed).random(n_axes))[::-1]
    groups = balanced_groups(variance, n_groups)
    assert groups.shape == (min(n_axes, n_groups), n_axes // min(n_axes, n_groups))
    assert len(np.unique(groups)) == groups.size
    left = np.setdiff1d(np.arange(n_axes), groups)
    assert left.size == 0 or variance[left].max() <= variance[groups].min()


@pytest.mark.parametrize(("width", "n_nibbles"), [(12, 5), (3, 8), (1, 1)])
def test_nibbles_are_the_nearest_words_and_affinities_add_up(width, n_nibbles):
    rng = np.random.RandomState(0)
    Z = rng.normal(size=(300, width)).astype(np.float32)
    quantizer = NibbleQuantizer.learn(Z, n_nibbles, rng, 1)
    nibbles, tables = quantizer.encode(Z), quantizer.affinities(Z[:7])
    assert nibbles.shape == (300, n_nibbles)
    assert tables.shape == (7, n_nibbles, 16)
    assert nibbles.max() <= 15
    decoded = np.zeros_like(Z)
    for place, (axes, book) in enumerate(zip(quantizer.axes_, quantizer.books_, strict=True)):
        distance = ((Z[:, None, axes] - book) ** 2).sum(axis=2)
        np.testing.assert_allclose(distance[np.arange(300), nibbles[:, place]], distance.min(axis=1), atol=1e-5)
        decoded[:, axes] = book[nibbles[:, place]]
    added = tables[:, np.arange(n_nibbles), nibbles].sum(axis=2)
    np.testing.assert_allclose(added, Z[:7] @ decoded.T - (decoded**2).sum(axis=1) / 2, atol=1e-4)
    assert not nibbles[:, len(quantizer.axes_) :].any()


def test_a_row_has_no_better_score_than_its_own_nibbles():
    rng = np.random.RandomState(1)
    Z = rng.normal(size=(200, 8)).astype(np.float32)
    quantizer = NibbleQuantizer.learn(Z, 4, rng, 1)
    nibbles, tables = quantizer.encode(Z), quantizer.affinities(Z)
    scores = tables[:, np.arange(4), nibbles].sum(axis=2)
    assert (np.diag(scores) >= scores.max(axis=1) - 1e-6).all()


def test_few_rows_and_equal_rows_make_words():
    rng = np.random.RandomState(0)
    quantizer = NibbleQuantizer.learn(np.ones((3, 4), dtype=np.float32), 2, rng, 1)
    np.testing.assert_array_equal(quantizer.encode(np.ones((1, 4), dtype=np.float32)), [[0, 0]])
    sure = np.eye(3, dtype=np.float32)
    words = LabelWords.learn(sure[[0, 1, 2, 0, 1, 2, 0, 0]], sure[1:], rng, 1)
    np.testing.assert_array_equal(words.encode(sure), [2, 0, 1])  # given label sets are the first words
    assert len(words.words_) == 3


def test_words_are_nearest_and_do_not_depend_on_threads():
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.full(6, 0.2), size=5000).astype(np.float32)
    one, two = (LabelWords.learn(P, P[:0], np.random.RandomState(0), n).words_ for n in (1, 2))
    np.testing.assert_array_equal(one, two)
    distance = ((P[:50, None] - one) ** 2).sum(axis=2)
    np.testing.assert_allclose(distance[np.arange(50), nearest(P[:50], one)], distance.min(axis=1), atol=1e-6)
