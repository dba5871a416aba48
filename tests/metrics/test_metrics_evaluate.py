"""evaluate and the single scores against plain loops, option by option."""

from __future__ import annotations

import dataclasses
import itertools
import json
import sys

import naive_metrics as naive
import numpy as np
import pytest
from scipy import sparse

from hashlearn import metrics
from hashlearn.codes import pack
from hashlearn.metrics import engine, rankings

SCORES = ["map", "precision", "recall", "ndcg", "acg", "radius_precision", "radius_recall", "empty_balls"]


def problem(seed, n_bits=6, n_queries=9, n_database=70, n_labels=None, n_classes=4):
    """Few bits for many ties. Class 99 and empty label sets are in the queries only: nothing is relevant to them."""
    rng = np.random.default_rng(seed)
    queries = pack(rng.integers(2, size=(n_queries, n_bits)))
    database = pack(rng.integers(2, size=(n_database, n_bits)))
    if n_labels is None:
        query_y, database_y = rng.integers(n_classes, size=n_queries), rng.integers(n_classes, size=n_database)
        query_y[0] = 99
    else:
        query_y = (rng.random((n_queries, n_labels)) < 0.4).astype(int)
        database_y = (rng.random((n_database, n_labels)) < 0.3).astype(int)
        query_y[0] = 0
    return queries, database, query_y, database_y


def expected_scores(queries, database, query_y, database_y, relevance=None, **options):
    defaults = {
        "at": 500,
        "precision_at": 10,
        "ndcg_at": 50,
        "radius": 2,
        "ties": "stable",
        "denominator": "retrieved",
        "empty_queries": "zero",
        "gain": "exp",
    }
    table = naive.shared_labels(query_y, database_y) if relevance is None else relevance
    return naive.evaluate(naive.distance_table(queries, database), table, **(defaults | options))


def assert_scores(scores, expected):
    assert {name: getattr(scores, name) for name in SCORES} == pytest.approx(expected, abs=1e-12, nan_ok=True)


@pytest.mark.parametrize("ties", ["stable", "optimistic", "pessimistic"])
@pytest.mark.parametrize("n_labels", [None, 5])
@pytest.mark.parametrize("at", [1, 7, 33, 500, None])
def test_every_named_option_equals_the_loops(ties, n_labels, at):
    data = problem(1, n_labels=n_labels)
    for denominator, empty_queries, gain in itertools.product(
        ["retrieved", "min", "relevant"], ["zero", "drop"], ["exp", "linear"]
    ):
        options = {
            "ties": ties,
            "at": at,
            "denominator": denominator,
            "empty_queries": empty_queries,
            "gain": gain,
            "precision_at": 4,
            "ndcg_at": 9,
            "radius": 1,
        }
        assert_scores(metrics.evaluate(*data, **options, n_jobs=1), expected_scores(*data, **options))


@pytest.mark.parametrize("n_bits", [1, 7, 12, 65, 128])
def test_odd_numbers_of_bits(n_bits):
    data = problem(2, n_bits=n_bits, n_database=40)
    radius = n_bits // 2
    scores = metrics.evaluate(*data, n_bits=n_bits, ties="stable", at=11, radius=radius)
    assert_scores(scores, expected_scores(*data, at=11, radius=radius))


def test_distance_256_does_not_wrap_round_to_0():
    query = np.zeros((1, 32), dtype=np.uint8)
    database = np.array([[255] * 32, [0] * 31 + [1]], dtype=np.uint8)
    assert metrics.mean_average_precision(query, database, [1], [0, 1], at=1) == 1.0


def test_values_worked_out_by_hand():
    # Distances 0, 1, 2, 3 and relevance 1, 0, 1, 1: precisions at the hits are 1, 2/3 and 3/4.
    database = pack([[0, 0, 0], [0, 0, 1], [0, 1, 1], [1, 1, 1]])
    data = database[:1], database, ["a"], ["a", "b", "a", "a"]
    assert metrics.mean_average_precision(*data) == pytest.approx((1 + 2 / 3 + 3 / 4) / 3)
    assert metrics.mean_average_precision(*data, at=3) == pytest.approx((1 + 2 / 3) / 2)
    assert metrics.mean_average_precision(*data, at=3, denominator="min") == pytest.approx((1 + 2 / 3) / 3)
    assert metrics.mean_average_precision(*data, at=2, denominator="relevant") == pytest.approx(1 / 3)
    ball = metrics.evaluate(*data, radius=1)
    assert (ball.radius_precision, ball.radius_recall, ball.empty_balls) == pytest.approx((1 / 2, 1 / 3, 0))
    assert metrics.evaluate(*data, ndcg_at=2).ndcg == pytest.approx(1 / (1 + 1 / np.log2(3)))
    assert metrics.evaluate(*data, ndcg_at=2, gain="linear").ndcg == pytest.approx(1 / 2)


def test_map_alone_equals_the_loops():
    data = problem(3, n_labels=4)
    options = {"at": 12, "denominator": "min", "empty_queries": "drop"}
    found = metrics.mean_average_precision(*data, ties="stable", n_bits=6, **options)
    assert found == pytest.approx(expected_scores(*data, **options)["map"], abs=1e-12)


@pytest.mark.parametrize("n_bits", [5, 8, 9])
def test_precision_recall_curve_pools_the_pairs(n_bits):
    data = problem(4, n_bits=n_bits, n_labels=4)
    curve = metrics.precision_recall_curve(*data, n_bits=n_bits)
    pairs = [
        (d, r > 0)
        for row, relevance in zip(naive.distance_table(*data[:2]), naive.shared_labels(*data[2:]), strict=True)
        for d, r in zip(row, relevance, strict=True)
    ]
    assert curve.radius.tolist() == list(range(n_bits + 1))
    for radius, precision, recall in zip(*curve, strict=True):
        inside = [hit for d, hit in pairs if d <= radius]
        assert precision == pytest.approx(sum(inside) / len(inside) if inside else 0.0)
        assert recall == pytest.approx(sum(inside) / sum(hit for _, hit in pairs))


def test_curve_without_n_bits_reaches_all_bits_of_the_bytes():
    curve = metrics.precision_recall_curve(*problem(4, n_bits=9))
    assert len(curve.radius) == 17
    assert curve.recall[-1] == 1.0


def test_empty_ball_has_precision_0_and_is_reported():
    queries, database = pack([[0] * 8, [1] * 8]), pack([[0] * 8] * 3)
    scores = metrics.evaluate(queries, database, [1, 1], [1, 1, 1], empty_queries="drop")
    assert scores.empty_balls == 0.5
    assert scores.radius_precision == scores.acg == scores.radius_recall == 0.5


def test_queries_with_nothing_relevant():
    queries, database = pack([[0, 0], [0, 1]]), pack([[0, 0], [1, 1]])
    zero = metrics.evaluate(queries, database, ["a", "nowhere"], ["a", "a"])
    dropped = metrics.evaluate(queries, database, ["a", "nowhere"], ["a", "a"], empty_queries="drop")
    assert (zero.map, zero.recall, zero.ndcg, zero.radius_recall) == (0.5, 0.5, 0.5, 0.5)
    assert (dropped.map, dropped.recall, dropped.ndcg, dropped.radius_recall) == (1, 1, 1, 1)
    assert zero.precision == dropped.precision == 0.5
    nobody = metrics.evaluate(queries, database, ["x", "y"], ["a", "a"], empty_queries="drop")
    assert np.isnan(nobody.map)


def test_one_row_on_each_side():
    code = pack([[1, 0, 1]])
    scores = metrics.evaluate(code, code, [5], [5])
    assert [getattr(scores, name) for name in SCORES] == [1, 1, 1, 1, 1, 1, 1, 0]


@pytest.mark.parametrize("ties", ["expected", "stable", "optimistic"])
@pytest.mark.parametrize("n_labels", [None, 6])
def test_blocks_and_threads_change_nothing(monkeypatch, ties, n_labels):
    data = problem(5, n_bits=16, n_queries=23, n_database=90, n_labels=n_labels)
    whole = metrics.evaluate(*data, ties=ties, at=13, n_jobs=1)
    monkeypatch.setattr(rankings, "BLOCK_BYTES", 1)
    monkeypatch.setattr(rankings, "_TILE_WORDS", 32)
    monkeypatch.setattr(rankings, "_TILE_COLUMNS", 16)
    for n_jobs in (1, 2):
        assert metrics.evaluate(*data, ties=ties, at=13, n_jobs=n_jobs) == whole
    monkeypatch.setattr(rankings, "BLOCK_BYTES", 5 * 16 * 90)
    assert metrics.evaluate(*data, ties=ties, at=13, n_jobs=2) == whole


@pytest.mark.parametrize("ties", ["stable", "optimistic", "pessimistic"])
def test_only_near_rows_are_ordered_and_nothing_is_lost(monkeypatch, ties):
    chosen = []
    monkeypatch.setattr(engine, "nearest", lambda *a: chosen.append(rankings.nearest(*a)) or chosen[-1])
    data = problem(6, n_bits=16, n_database=400, n_labels=4)
    scores = metrics.evaluate(*data, ties=ties, at=20, ndcg_at=5, radius=3)
    assert 20 * 9 <= sum(counts.sum() for counts, _ in chosen) < 400 * 9 / 2
    assert_scores(scores, expected_scores(*data, ties=ties, at=20, ndcg_at=5, radius=3))


@pytest.mark.parametrize("ties", ["expected", "stable"])
def test_a_ball_may_reach_further_than_the_lists(ties):
    data = problem(14, n_bits=16, n_database=400, n_labels=4)
    scores = metrics.evaluate(*data, ties=ties, at=3, ndcg_at=3, precision_at=3, radius=8)
    expected = expected_scores(*data, at=3, ndcg_at=3, precision_at=3, radius=8)
    for name in ("acg", "radius_precision", "radius_recall", "empty_balls"):
        assert getattr(scores, name) == pytest.approx(expected[name], abs=1e-12)
    assert scores.radius_recall > 0.4


def test_a_cut_off_guessed_too_small_is_corrected(monkeypatch):
    monkeypatch.setattr(rankings, "_SAMPLE_ROWS", 16)
    keys = np.full((2, 320), 9, dtype=np.uint8)
    keys[0, ::20] = 0  # exactly what the sample sees: 16 rows, fewer than are needed
    keys[1, 1::20] = 3
    keys[1, 2::20] = 2
    counts, places = rankings.nearest(keys, 20, None)
    assert counts[0] == 320
    assert set(range(320)) == set(places[: counts[0]].tolist())
    assert {320 + i for i in (*range(1, 320, 20), *range(2, 320, 20))} <= set(places[counts[0] :].tolist())


def test_merged_database_rows_score_the_same(monkeypatch):
    rng = np.random.default_rng(7)
    centres = pack(rng.integers(2, size=(3, 12)))
    database = centres[rng.integers(3, size=200)]
    queries = pack(rng.integers(2, size=(15, 12)))
    query_y, database_y = (rng.random((15, 3)) < 0.5).astype(int), (rng.random((200, 3)) < 0.5).astype(int)
    merged = metrics.evaluate(queries, database, query_y, database_y, at=70, radius=5)
    monkeypatch.setattr(sys.modules["hashlearn.metrics.evaluate"], "_MERGE_SHARE", 0.0)
    unmerged = metrics.evaluate(queries, database, query_y, database_y, at=70, radius=5)
    for name in SCORES:
        assert getattr(merged, name) == pytest.approx(getattr(unmerged, name), abs=1e-12)
    assert 0 < merged.empty_balls < 1


def test_equal_queries_are_weighted():
    queries, database, query_y, database_y = problem(8, n_queries=4)
    repeat = [0, 1, 1, 1, 2, 3, 3]
    data = queries[repeat], database, query_y[repeat], database_y
    scores = metrics.evaluate(*data, ties="stable")
    assert scores.n_queries == 7
    assert_scores(scores, expected_scores(*data))


def test_the_callers_arrays_stay_as_they_are():
    queries, database, query_y, database_y = problem(9, n_labels=4)
    labels = sparse.csr_matrix(database_y)
    labels.data[0] = 0  # an explicit zero must be neither counted nor removed
    before = [queries.copy(), database.copy(), query_y.copy(), labels.data.copy(), labels.indices.copy()]
    for array in (queries, database, query_y, labels.data, labels.indices, labels.indptr):
        array.flags.writeable = False
    metrics.evaluate(queries, database, query_y, labels)
    after = [queries, database, query_y, labels.data, labels.indices]
    assert all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))


def test_the_papers_rules_and_changes_of_rules():
    data = problem(10, n_labels=3)
    paper = metrics.evaluate(*data, rules=metrics.Rules.paper(at=9))
    assert_scores(paper, expected_scores(*data, at=9))
    used = [paper.settings[name] for name in ("ties", "denominator", "empty_queries", "gain")]
    assert used == ["stable", "retrieved", "zero", "exp"]
    assert metrics.evaluate(*data, rules=metrics.Rules.paper(at=50), at=9) == paper
    with pytest.raises(TypeError, match="There is no rule 'cutoff'; the rules are at, precision_at"):
        metrics.evaluate(*data, cutoff=9)


def test_scores_name_their_definitions():
    scores = metrics.evaluate(*problem(11), at=None, database="learned", relevance="binary")
    record = json.loads(json.dumps(scores.as_dict()))
    assert record["n_database"] == 70
    assert record["settings"] == {
        "ranking": "hamming",
        "at": "all",
        "precision_at": 10,
        "ndcg_at": 50,
        "radius": 2,
        "ties": "expected",
        "denominator": "retrieved",
        "empty_queries": "zero",
        "gain": "exp",
        "relevance": "binary",
        "database": "learned",
        "unlabeled_queries": 0,
        "unlabeled_database": 0,
    }
    assert f"MAP@all              {scores.map:.4f}" in str(scores)
    assert "ties=expected" in str(scores)
    with pytest.raises(dataclasses.FrozenInstanceError):
        scores.map = 1.0


def test_progress_ends_at_the_total(monkeypatch):
    monkeypatch.setattr(rankings, "BLOCK_BYTES", 1)
    calls = []
    metrics.evaluate(*problem(12, n_bits=16), progress=lambda *call: calls.append(call))
    assert calls == [(i, 9) for i in range(1, 10)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ties": "random"}, "ties must be one of .*Got 'random'"),
        ({"denominator": "all"}, "denominator must be one of"),
        ({"empty_queries": "skip"}, "empty_queries must be one of"),
        ({"gain": "log"}, "gain must be one of"),
        ({"relevance": "cosine"}, "relevance must be one of .*Got 'cosine'"),
        ({"database": "other"}, "database must be one of"),
        ({"at": 0}, "at must be a positive number.*Got 0"),
        ({"precision_at": -1}, "precision_at must be a positive number.*Got -1"),
        ({"radius": -1}, "radius must not be negative. Got -1"),
        ({"n_jobs": 0}, "n_jobs must be a positive number.*Got 0"),
        ({"n_bits": 17}, "of 17 bits must have 3 bytes per row. Got 1"),
        ({"query_y": [0] * 8}, "query_y must have one row for each query row. Got 8 for 9"),
        ({"database_y": [0] * 71}, "database_y must have one row for each database row. Got 71 for 70"),
        ({"database_y": np.zeros((70, 2))}, "both be classes .* Got 1-D and 2-D"),
        ({"query_codes": np.zeros((9, 2), dtype=np.uint8)}, "same number of bytes per row. Got 2 and 1"),
        ({"query_codes": np.zeros((9, 6), dtype=int)}, "query_codes must be packed codes"),
        ({"query_codes": np.zeros((0, 1), dtype=np.uint8)}, "There must be queries and database rows. Got 0 and 70"),
        ({"query_codes": np.full((9, 6), np.nan)}, "query_codes must not contain NaN"),
        ({"query_codes": np.zeros((9, 6)), "n_bits": 7}, "of 7 bits must have 7 columns. Got 6"),
        ({"query_codes": np.zeros((9, 12))}, "of 12 bits must have 2 bytes per row. Got 1"),
    ],
)
def test_errors_are_one_clear_sentence(change, message):
    queries, database, query_y, database_y = problem(13)
    arguments = {"query_codes": queries, "database_codes": database, "query_y": query_y, "database_y": database_y}
    with pytest.raises(ValueError, match=message):
        metrics.evaluate(**(arguments | change))


def test_radius_scores_refuse_floats():
    _, database, query_y, database_y = problem(13)
    with pytest.raises(ValueError, match="query_codes must be packed codes"):
        metrics.precision_recall_curve(np.zeros((9, 6)), database, query_y, database_y)
