"""Expected ties against all orders, and against many random ones."""

from __future__ import annotations

import naive_metrics as naive
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hashlearn import metrics
from hashlearn.codes import pack
from hashlearn.metrics import rankings
from hashlearn.metrics.scores import TieGroups, expected_average_precision

N_BITS = 5
rows = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=6)


def codes_at(distances):
    """A zero query, and rows at these distances from it."""
    return np.zeros((1, 1), dtype=np.uint8), pack(np.arange(N_BITS)[None, :] < np.array(distances)[:, None])


def labels_of(relevance):
    """Label sets that share this many labels with the query."""
    return np.ones((1, 2), dtype=int), (np.arange(2)[None, :] < np.array(relevance)[:, None]).astype(int)


@settings(max_examples=60, deadline=None)
@given(rows, st.integers(1, 7), st.sampled_from(["retrieved", "min", "relevant"]), st.sampled_from(["exp", "linear"]))
@example([(1, 0), (1, 1), (1, 0), (1, 2), (1, 1)], 3, "retrieved", "exp")  # the cut-off inside the only group
@example([(0, 1), (1, 0), (1, 1), (1, 0), (1, 0)], 2, "retrieved", "linear")
@example([(0, 0), (1, 0), (1, 0), (1, 0), (1, 1)], 2, "min", "exp")
def test_expected_is_the_mean_over_all_orders(rows, at, denominator, gain):
    distances, relevance = [d for d, _ in rows], [r for _, r in rows]
    lists = [[relevance[i] for i in order] for order in naive.all_orders(distances)]
    aps = [naive.average_precision(x, at, denominator) for x in lists]
    data = *codes_at(distances), *labels_of(relevance)
    options = {"at": at, "precision_at": at, "ndcg_at": at, "denominator": denominator, "gain": gain, "n_jobs": 1}
    scores = metrics.evaluate(*data, **options)
    assert scores.map == pytest.approx(naive.mean(aps, "zero"), abs=1e-12)
    assert scores.precision == pytest.approx(naive.mean([naive.precision(x, at) for x in lists], "zero"), abs=1e-12)
    assert scores.recall == pytest.approx(naive.mean([naive.recall(x, at) for x in lists], "zero"), abs=1e-12)
    assert scores.ndcg == pytest.approx(naive.mean([naive.ndcg(x, at, gain) for x in lists], "zero"), abs=1e-12)
    # With one query the mean over the defined outcomes is what dropping means.
    dropped = metrics.evaluate(*data, **options, empty_queries="drop")
    assert dropped.map == pytest.approx(naive.mean(aps, "drop"), abs=1e-12, nan_ok=True)


@pytest.mark.parametrize("denominator", ["retrieved", "min", "relevant"])
@pytest.mark.parametrize("at", [25, 120, 300])
def test_expected_is_the_mean_of_random_orders(denominator, at):
    rng = np.random.default_rng(0)
    queries, database = pack(rng.integers(2, size=(4, 5))), pack(rng.integers(2, size=(300, 5)))
    query_y, database_y = rng.integers(3, size=4), rng.integers(3, size=300)
    options = {"at": at, "denominator": denominator, "ndcg_at": 30, "n_jobs": 1}
    draws = []
    for _ in range(200):
        shuffled = rng.permutation(300)
        scores = metrics.evaluate(queries, database[shuffled], query_y, database_y[shuffled], ties="stable", **options)
        draws.append((scores.map, scores.ndcg, scores.precision, scores.recall))
    expected = metrics.evaluate(queries, database, query_y, database_y, **options)
    error = np.std(draws, axis=0) / np.sqrt(len(draws))
    difference = np.mean(draws, axis=0) - (expected.map, expected.ndcg, expected.precision, expected.recall)
    assert np.all(np.abs(difference) <= 4.5 * error + 1e-12)
    assert error[0] < 0.01


def test_optimistic_and_pessimistic_surround_expected():
    rng = np.random.default_rng(1)
    data = (
        pack(rng.integers(2, size=(20, 4))),
        pack(rng.integers(2, size=(200, 4))),
        rng.integers(3, size=20),
        rng.integers(3, size=200),
    )
    low, middle, high = (metrics.evaluate(*data, ties=ties).ndcg for ties in ("pessimistic", "expected", "optimistic"))
    assert low + 0.1 < middle < high - 0.1


def test_without_ties_all_orders_agree():
    data = *codes_at([3, 0, 2, 1, 4]), [1], [1, 0, 1, 1, 0]
    names = ("expected", "stable", "optimistic", "pessimistic")
    values = [metrics.evaluate(*data, at=4, ties=ties).map for ties in names]
    assert values == pytest.approx([(1 / 2 + 2 / 3 + 3 / 4) / 3] * 4)


def test_a_large_split_group_has_the_value_of_its_limit():
    # One group of a million rows, half of them hits: each position is a hit with chance 1/2, almost independently.
    rng = np.random.default_rng(2)
    groups = TieGroups(*(np.array([[value]]) for value in (1e6, 5e5, 5e5)))
    value, defined = expected_average_precision(groups, np.array([5e5]), 8, "retrieved")
    hits = rng.random((200_000, 8)) < 0.5
    found = np.cumsum(hits, axis=1)
    sampled = (found / np.arange(1, 9) * hits).sum(axis=1) / np.maximum(1, found[:, -1])
    assert value[0] == pytest.approx(sampled.mean(), abs=4.5 * sampled.std() / np.sqrt(len(sampled)))
    assert defined[0] == pytest.approx(1 - 0.5**8, abs=1e-5)


def test_split_groups_are_handled_in_parts(monkeypatch):
    rng = np.random.default_rng(3)
    data = (
        pack(rng.integers(2, size=(40, 4))),
        pack(rng.integers(2, size=(150, 4))),
        rng.integers(3, size=40),
        rng.integers(3, size=150),
    )
    whole = metrics.mean_average_precision(*data, at=31)
    monkeypatch.setattr("hashlearn.metrics.scores._OUTCOMES", 1)
    assert metrics.mean_average_precision(*data, at=31) == pytest.approx(whole, abs=1e-14)


def test_near_rows_alone_give_the_same_tie_groups(monkeypatch):
    rng = np.random.default_rng(4)
    data = (
        pack(rng.integers(2, size=(10, 16))),
        pack(rng.integers(2, size=(500, 16))),
        (rng.random((10, 4)) < 0.5).astype(int),
        (rng.random((500, 4)) < 0.5).astype(int),
    )
    near = metrics.evaluate(*data, at=20, ndcg_at=10)
    monkeypatch.setattr(rankings, "_SAMPLE_ROWS", 1)  # too small a sample to choose from: all rows are taken
    whole = metrics.evaluate(*data, at=20, ndcg_at=10)
    for name, value in near.as_dict().items():
        if name != "settings":
            assert value == pytest.approx(getattr(whole, name), abs=1e-12)
