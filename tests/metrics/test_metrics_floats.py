"""Float rows and float queries through the same engine."""

from __future__ import annotations

import naive_metrics as naive
import numpy as np
import pytest

from hashlearn import metrics
from hashlearn.codes import pack, unpack_signs
from hashlearn.metrics import rankings

SHARED = ["map", "precision", "recall", "ndcg"]
TIES = ["expected", "stable", "optimistic", "pessimistic"]


def problem(seed, n_bits, n_queries=11, n_database=150):
    rng = np.random.default_rng(seed)
    queries, database = (
        pack(rng.integers(2, size=(n_queries, n_bits))),
        pack(rng.integers(2, size=(n_database, n_bits))),
    )
    return queries, database, rng.integers(4, size=n_queries), rng.integers(4, size=n_database)


def naive_scores(keys, query_y, database_y, at, ndcg_at):
    relevance = naive.shared_labels(query_y, database_y)
    scores = naive.evaluate(keys.tolist(), relevance, at, 10, ndcg_at, 0, "stable", "retrieved", "zero", "exp")
    return {name: scores[name] for name in SHARED}


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("metric", ["cosine", "euclidean", "dot"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8])
def test_rows_of_signs_score_as_their_codes(ties, metric, dtype):
    queries, database, query_y, database_y = problem(0, n_bits=7)
    codes = metrics.evaluate(queries, database, query_y, database_y, ties=ties, at=20)
    signs = unpack_signs(queries, 7).astype(dtype), unpack_signs(database, 7).astype(dtype)
    floats = metrics.evaluate_floats(*signs, query_y, database_y, metric=metric, ties=ties, at=20)
    for name in SHARED:
        assert getattr(floats, name) == pytest.approx(getattr(codes, name), abs=1e-12)
    assert floats.acg is floats.radius_precision is floats.radius_recall is floats.empty_balls is None
    assert floats.settings["ranking"] == metric
    assert "within" not in str(floats)


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("at", [15, None])
@pytest.mark.parametrize("n_bits", [7, 65])
def test_sign_projections_score_as_their_codes(ties, at, n_bits):
    queries, database, query_y, database_y = problem(1, n_bits)
    codes = metrics.evaluate(queries, database, query_y, database_y, ties=ties, at=at)
    projections = 0.5 * unpack_signs(queries, n_bits)
    floats = metrics.evaluate(projections, database, query_y, database_y, ties=ties, at=at, n_bits=n_bits)
    for name in SHARED:
        assert getattr(floats, name) == pytest.approx(getattr(codes, name), abs=1e-12)
    assert floats.radius_precision is None
    assert floats.settings["ranking"] == "asymmetric"


def test_projections_rank_by_their_product_with_the_signs():
    _, database, query_y, database_y = problem(2, n_bits=12)
    projections = np.random.default_rng(2).standard_normal((11, 12))
    keys = np.array([[-sum(q * h) for h in unpack_signs(database, 12)] for q in projections])
    scores = metrics.evaluate(projections, database, query_y, database_y, at=20, ndcg_at=9, ties="stable")
    assert {name: getattr(scores, name) for name in SHARED} == pytest.approx(
        naive_scores(keys, query_y, database_y, 20, 9), abs=1e-12
    )
    alone = metrics.mean_average_precision(projections, database, query_y, database_y, at=20, ties="stable")
    assert alone == scores.map


@pytest.mark.parametrize("metric", ["cosine", "euclidean", "dot"])
@pytest.mark.parametrize("ties", ["expected", "stable"])
@pytest.mark.parametrize("at", [12, None])
def test_each_metric_ranks_by_its_definition(metric, ties, at):
    rng = np.random.default_rng(3)
    queries, rows = rng.standard_normal((9, 5)) + 0.5, rng.standard_normal((130, 5)) * rng.uniform(0.2, 3, (130, 1))
    query_y, database_y = rng.integers(3, size=9), rng.integers(3, size=130)
    distance = {
        "cosine": lambda a, b: -(a @ b) / np.linalg.norm(a) / np.linalg.norm(b),
        "euclidean": lambda a, b: np.linalg.norm(a - b),
        "dot": lambda a, b: -(a @ b),
    }[metric]
    keys = np.array([[distance(a, b) for b in rows] for a in queries])
    scores = metrics.evaluate_floats(queries, rows, query_y, database_y, metric=metric, ties=ties, at=at, ndcg_at=7)
    assert {name: getattr(scores, name) for name in SHARED} == pytest.approx(
        naive_scores(keys, query_y, database_y, at, 7), abs=1e-12
    )


def test_a_zero_row_is_neither_near_nor_far_by_cosine():
    rows = np.array([[0.0, 0.0], [-1.0, 0.0], [2.0, 1.0]])
    order = [metrics.evaluate_floats([[1.0, 0.0]], rows, [1], np.arange(3) == i, at=None).map for i in range(3)]
    assert order == pytest.approx([1 / 2, 1 / 3, 1])


def test_blocks_and_threads_change_nothing(monkeypatch):
    rng = np.random.default_rng(4)
    data = (
        rng.integers(-2, 3, (13, 4)),
        rng.integers(-2, 3, (90, 4)),
        rng.integers(3, size=13),
        rng.integers(3, size=90),
    )
    whole = metrics.evaluate_floats(*data, metric="euclidean", at=20, n_jobs=1)
    monkeypatch.setattr(rankings, "BLOCK_BYTES", 1)
    assert metrics.evaluate_floats(*data, metric="euclidean", at=20, n_jobs=2) == whole


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"metric": "hamming"}, "metric must be 'cosine', 'euclidean' or 'dot'. Got 'hamming'"),
        ({"query_X": np.zeros((2, 4))}, "same number of features. Got 4 and 3"),
        ({"query_X": np.full((2, 3), np.inf)}, "query_X must not contain NaN or infinity"),
        ({"database_X": np.zeros(3)}, "database_X must be a 2-D array. Got 1-D"),
        ({"query_y": [1]}, "query_y must have one row for each query row. Got 1 for 2"),
    ],
)
def test_errors(change, message):
    arguments = {"query_X": np.ones((2, 3)), "database_X": np.ones((4, 3)), "query_y": [1, 2], "database_y": [1] * 4}
    with pytest.raises(ValueError, match=message):
        metrics.evaluate_floats(**(arguments | change))
