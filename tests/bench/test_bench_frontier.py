"""The frontier: measured points, what dominates what, the page, and going on after a stop."""

import csv
import json
from dataclasses import replace

import numpy as np
import pytest

from hashlearn.bench.frontier import FrontierPlan, frontier_methods, frontier_notes, run, run_frontier
from hashlearn.bench.frontier.measure import FrontierPoint, neighbor_recall
from hashlearn.bench.frontier.page import frontier_picture
from hashlearn.bench.frontier.summary import dominator, frontier_rows, verdict_sentence, verdicts
from hashlearn.bench.plan import PlanError
from hashlearn.codecs import ProductCodec
from hashlearn.data.own import DataSource

FEW = ("float cosine", "sign bits", "PQ", "itq", "LDA + PQ")


def point(label, n_bytes, seen, unseen, seed=0, supervised=False):
    scores = {
        split: {"map": value, "ndcg": value, "recall": value} for split, value in (("seen", seen), ("unseen", unseen))
    }
    method = label.partition(",")[0]
    return FrontierPoint(label, method, n_bytes, seed, supervised, n_bytes, 0, 1.0, 1.0, 1.0, scores)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A frontier of digits: few methods, 8 bytes, two seeds."""
    folder = tmp_path_factory.mktemp("frontier")
    plan = FrontierPlan(DataSource("digits"), sizes=(8,), seeds=2, quick=True, methods=FEW)
    points, failed, outdated = run_frontier(plan, folder, threads=1)
    assert not failed
    assert not outdated
    return plan, folder, points


@pytest.mark.slow
def test_points_have_every_measure(made):
    _, _, points = made
    labels = [point.label for point in points if point.seed == 0]
    assert labels == [
        "float cosine", "sign bits", "sign bits, rescored by int8", "PQ", "LDA + PQ", "itq, Hamming",
        "itq, real-valued queries",
    ]  # fmt: skip
    for one in points:
        assert set(one.scores) == {"seen", "unseen"}
        assert all(0 < value <= 1 for scores in one.scores.values() for value in scores.values())
        assert one.search_seconds > 0
    by_label = {point.label: point for point in points if point.seed == 0}
    assert by_label["float cosine"].scores["seen"]["recall"] > 0.999
    assert by_label["float cosine"].bytes == 256
    assert by_label["sign bits, rescored by int8"].bytes == 8 + 64
    assert by_label["LDA + PQ"].scores["seen"]["map"] > by_label["PQ"].scores["seen"]["map"]
    assert by_label["LDA + PQ"].scores["unseen"]["map"] < by_label["PQ"].scores["unseen"]["map"]


@pytest.mark.slow
def test_what_is_measured_is_not_measured_again(made, monkeypatch):
    plan, folder, points = made
    monkeypatch.setattr(ProductCodec, "fit", lambda *_: pytest.fail("fitted again"))
    again = run_frontier(plan, folder).points
    assert again == points
    more = FrontierPlan(plan.source, sizes=(8, 4), seeds=1, quick=True, methods=("sign bits", "itq"))
    found = run_frontier(more, folder).points
    assert {one.bytes for one in found if one.method == "itq"} == {8, 4}


@pytest.mark.slow
def test_fits_of_older_code_are_made_again_or_kept(made, monkeypatch):
    plan, folder, points = made
    monkeypatch.setattr(run, "fit_code", lambda *_: "newer")
    few = replace(plan, seeds=1, methods=("PQ", "float cosine"))
    older = run_frontier(few, folder, keep_outdated=True)
    assert older.points == [one for one in points if one.label in few.methods and one.seed == 0]
    assert older.outdated == ["float cosine", "PQ"]
    note = "2 fits were made by older code of hashlearn and not made again (float cosine; PQ)."
    assert note in frontier_notes(few, older)
    # Without the option they are made again, also for other rows of the same data, which are no older fits of these.
    assert not list((folder / "points").glob("*-newer.json"))
    assert run_frontier(replace(few, quick=False), folder, threads=1, keep_outdated=True).outdated == []
    assert run_frontier(few, folder, threads=1).outdated == []
    assert len(list((folder / "points").glob("*-newer.json"))) == 4


def test_a_method_that_fails_stops_no_other(tmp_path):
    plan = FrontierPlan(DataSource("digits"), sizes=(70,), seeds=1, quick=True, methods=("cut, 8 bit", "LDA + PQ"))
    broken = FrontierPlan(DataSource("digits"), sizes=(2000,), seeds=1, quick=True, methods=("itq", "sign bits"))
    finished = []
    points, failed, _ = run_frontier(broken, tmp_path, threads=1, on_finished=lambda label, *_: finished.append(label))
    # Sign bits have as many bytes as the features give them.
    assert finished == ["sign bits, seed 0", "itq, 2000 bytes, seed 0"]
    assert [one.label for one in points] == ["sign bits", "sign bits, rescored by int8"]
    assert failed[0].startswith("itq, 2000 bytes, seed 0: ")
    assert plan.chosen(multilabel=True)[0].name == "cut, 8 bit"
    assert len(plan.chosen(multilabel=True)) == 1  # LDA needs classes


@pytest.mark.slow
def test_the_command_writes_a_page(call, tmp_path):
    words = ["bench", "frontier", "--data", "digits", "--quick", "--bytes", 4, 8, "--threads", 1, "-o", "out"]
    code, out, err = call(*words, "--methods", "float cosine", "PCA + sign", "itq")
    assert code == 0, err
    paths = [tmp_path / line for line in out.split()]
    assert [path.name for path in paths] == ["report.md", "report.csv", "report.json", "report.html", "frontier.svg"]
    page, text = paths[3].read_text(), paths[0].read_text()
    assert page.count("<svg") == 1
    for word in (
        "seen classes",
        "unseen classes",
        "bytes per row",
        "itq, real-valued queries",
        "float cosine, 256 bytes",
    ):
        assert word in page
    assert "Quick version" in text
    assert "Left out: 8 bit scalar; 4 bit scalar; sign bits; " in text
    with paths[1].open() as stream:
        rows = list(csv.DictReader(stream))
    assert {(row["method"], row["bytes"]) for row in rows} == {
        ("float cosine", "256"), ("PCA + sign", "4"), ("PCA + sign", "8"), ("itq, Hamming", "4"), ("itq, Hamming", "8"),
        ("itq, real-valued queries", "4"), ("itq, real-valued queries", "8"),
    }  # fmt: skip
    kept = json.loads(paths[2].read_text())["sections"][0]["rows"]
    assert float(rows[0]["map_seen"]) == kept[0]["map_seen"]
    assert "| itq, Hamming | 4 |" in text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "--data is missing"),
        (["--data", "nothing"], "Got 'nothing' instead"),
        (["--data", "digits", "--methods", "QP"], "Got 'QP' instead"),
        (["--data", "digits", "--bytes", "0"], "at least one byte"),
    ],
)
def test_wrong_frontiers_are_one_sentence(call, words, said):
    code, _, err = call("bench", "frontier", *words)
    assert code == 2
    assert said in err
    assert err.count("\n") == 1


def test_a_plan_needs_seeds():
    with pytest.raises(PlanError, match="at least one seed"):
        FrontierPlan(DataSource("digits"), seeds=0)


def test_domination():
    rows = frontier_rows(
        [point("a", 8, 0.9, 0.5), point("b", 8, 0.8, 0.5), point("c", 4, 0.7, 0.6), point("d", 16, 0.9, 0.5)]
    )
    a, b, c, d = rows
    assert dominator(a, rows, "map") is None
    assert dominator(b, rows, "map") is a
    assert dominator(c, rows, "map") is None
    assert dominator(d, rows, "map") is a  # the same scores in half of the bytes


def test_rows_are_means_over_seeds_and_equal_sizes_count_once():
    rows = frontier_rows([point("a", 8, 0.8, 0.4), point("a", 8, 0.9, 0.6, seed=1), point("a", 8, 0.9, 0.6, seed=1)])
    assert rows[0].seeds == 2
    assert rows[0].score("seen", "map") == pytest.approx(0.85)
    assert rows[0].scores["unseen", "map"].deviation == pytest.approx(np.std([0.4, 0.6], ddof=1))


def test_verdicts_say_where_autohasher_is_behind():
    rows = frontier_rows(
        [
            point("auto, Hamming", 8, 0.90, 0.50, supervised=True),
            point("auto, real-valued queries", 8, 0.901, 0.40, supervised=True),
            point("LDA + PQ", 8, 0.91, 0.70, supervised=True),
            point("itq", 8, 0.60, 0.505),
            point("PQ", 16, 0.95, 0.90),
        ]
    )
    seen, unseen = verdicts(rows, [8])
    assert (seen["rival"], unseen["rival"]) == ("LDA + PQ", "itq")  # PQ has more bytes; labels do not count on unseen
    assert (seen["reached"], unseen["reached"]) == (False, True)
    assert "0.010 behind the best of all other codecs" in verdict_sentence(seen)
    assert "the goal is not reached" in verdict_sentence(seen)
    assert "0.005 behind the best codec without labels" in verdict_sentence(unseen)
    assert "the goal is reached" in verdict_sentence(unseen)
    assert seen["label"] == "auto, Hamming"  # better on both splits together
    assert verdicts(rows[2:], [8]) == []


@pytest.mark.slow
def test_label_sets_are_judged_by_ndcg_first(call, tmp_path):
    rng = np.random.default_rng(0)
    y = (rng.random((600, 4)) < 0.4).astype(np.int8)
    X = y @ rng.normal(size=(4, 24)) + 0.3 * rng.normal(size=(600, 24))
    np.savez(tmp_path / "sets.npz", X=X.astype(np.float32), y=y)
    words = ["bench", "frontier", "--data", "sets.npz", "--labels", "y", "--quick", "--bytes", 2, "--threads", 1]
    code, _, err = call(*words, "--methods", "float cosine", "LDA + PQ", "cca-itq", "PCA + sign", "-o", "out")
    assert code == 0, err
    text = (tmp_path / "out" / "report.md").read_text()
    for part in (
        "Label sets have no classes that could be left out of training.",
        "Left out: LDA + PQ (it takes classes, not label sets).",
        "Who is ahead at which size, by NDCG@10",
        "has at least its NDCG@10 on all splits",
        "| cca-itq, Hamming | 2 |",
    ):
        assert part in text
    assert "unseen" not in text
    picture = (tmp_path / "out" / "frontier.svg").read_text()
    assert "NDCG@10" in picture
    assert "new rows" in picture


def test_verdicts_of_label_sets_name_their_measure():
    def sets_point(label, ndcg, score):
        scores = {"new": {"map": score, "ndcg": ndcg, "recall": 0.5}}
        return FrontierPoint(label, label.partition(",")[0], 8, 0, True, 8, 0, 1.0, 1.0, 1.0, scores)

    rows = frontier_rows([sets_point("auto, Hamming", 0.7, 0.6), sets_point("gsdhp, Hamming", 0.6, 0.65)])
    first, second = (verdict_sentence(verdict) for verdict in verdicts(rows, [8]))
    assert first.startswith("At 8 bytes on new rows AutoHasher is 0.100 ahead of the best of all other codecs: NDCG@10")
    assert "0.050 behind the best of all other codecs: MAP 0.600" in second
    assert second.endswith("the goal is not reached.")


def test_a_plan_says_what_it_leaves_out():
    whole = FrontierPlan(DataSource("digits"), sizes=(4, 8, 16))
    assert whole.left_out(multilabel=False) == {"it needs more than 8 bytes": ["RaBitQ of 4, 8 bytes"]}
    quick = FrontierPlan(DataSource("digits"), sizes=(16,), quick=True)
    assert quick.left_out(multilabel=True) == {
        "slow": ["OPQ", "RQ", "LSQ", "SQH"],
        "it takes classes, not label sets": ["LDA + PQ"],
    }
    names = [method.name for method in frontier_methods()]
    few = FrontierPlan(DataSource("digits"), methods=("PQ",))
    assert few.left_out(multilabel=False) == {"not asked for": [name for name in names if name != "PQ"]}


def test_deviations_are_bars_of_the_picture():
    seeds = [point("PQ", 8, 0.8, 0.4), point("PQ", 8, 0.9, 0.6, seed=1), point("float cosine", 256, 0.9, 0.9)]
    seen, unseen = frontier_picture("t", frontier_rows(seeds)).panels
    assert seen.spreads == {"PQ": [pytest.approx(np.std([0.8, 0.9], ddof=1))]}
    assert unseen.lines["PQ"] == ([8], [pytest.approx(0.5)])
    assert "float cosine, 256 bytes" in seen.lines
    assert frontier_picture("t", frontier_rows(seeds[:1])).panels[0].spreads == {}


def test_recall_of_ties_is_expected():
    scores = np.zeros((1, 20), dtype=np.float32)
    assert neighbor_recall(scores, np.arange(10)[None]) == pytest.approx(0.5)
    scores[0, :10] = 1
    assert neighbor_recall(scores, np.arange(10)[None]) == 1
    assert neighbor_recall(scores, np.arange(10, 20)[None]) == 0


def test_the_table_of_methods():
    names = [method.name for method in frontier_methods()]
    assert len(set(names)) == len(names)
    wanted = {"PQ", "OPQ", "RQ", "LSQ", "RaBitQ", "PCA + sign", "kernel scores + PQ", "gsdhp", "auto", "float cosine"}
    assert wanted <= set(names)


def test_too_few_rows_for_centroids_are_told():
    X = np.random.default_rng(0).normal(size=(100, 16)).astype(np.float32)
    with pytest.raises(RuntimeError) as caught:
        ProductCodec(4).fit(X)
    told = run._reason(caught.value)
    assert told == "it learns 256 centroids from at least as many rows, and there are 100 to train on."
    assert run._reason(ValueError("no")) == "ValueError: no"
