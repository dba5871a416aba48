"""The frontier: measured points, the label budgets, paired comparisons, the page, and going on after a stop."""

import csv
import json
import sys

import numpy as np
import pytest
from scipy import stats

from hashlearn.bench import BenchRun, PlanError, frontier
from hashlearn.bench.frontier import (
    FrontierMethod,
    FrontierPlan,
    FrontierTask,
    LabelBudget,
    frontier_methods,
    run_frontier,
)
from hashlearn.bench.frontier_page import (
    best_section,
    budget_section,
    frontier_notes,
    frontier_picture,
    frontier_rows,
    table_section,
)
from hashlearn.bench.scoring import neighbor_recall, own_row_first
from hashlearn.bench.store import RunDefinition
from hashlearn.codecs import FloatCodec, ProductCodec
from hashlearn.data.own import DataSource

FEW = ("float cosine", "sign bits, all rescored by int8", "PQ", "itq", "LDA + PQ", "class number")
BUDGETS = (LabelBudget(), LabelBudget(5), LabelBudget(None, 0.4), LabelBudget(absent=True))


def point(label, n_bytes, known, unknown, seed=0, sized=True, budget=BUDGETS[0]):
    values = {"bytes": n_bytes, "model bytes": 0, "fit seconds": 1.0, "encode seconds": 1.0, "own row first": 1.0}
    values |= {"distinct": 1.0, "map known": known, "map unknown": unknown, "map unknown-alone": unknown}
    values |= {"recall known": 0.5, "recall unknown": 0.5}
    method = FrontierMethod(label.partition(",")[0], lambda size, _: FloatCodec(), sized)
    definition = RunDefinition("d", "mixed", "frontier", "", seed, method.name, method.name, {}, 8 * n_bytes)
    task = FrontierTask(None, "mixed", seed, budget, method, n_bytes, quick=False)
    return task, BenchRun(definition, views={label: values})


def values_of(measured, budget, seed=0):
    """What was measured of each way to search at a budget."""
    rows = [row for row in frontier_rows(measured.fits) if row.budget == budget]
    return {row.label: row.by_seed[seed] for row in rows}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A frontier of digits: few methods, 8 bytes, two seeds, three label budgets."""
    folder = tmp_path_factory.mktemp("frontier")
    plan = FrontierPlan(DataSource("digits"), sizes=(8,), seeds=2, quick=True, methods=FEW, budgets=BUDGETS)
    measured = run_frontier(plan, folder, threads=1)
    assert not measured.failed
    return plan, folder, measured


def test_points_have_every_measure(made):
    _, _, measured = made
    first = values_of(measured, BUDGETS[0])
    assert list(first) == [
        "float cosine", "sign bits, all rescored by int8", "class number", "LDA + PQ", "PQ", "itq, Hamming",
        "itq, real-valued queries",
    ]  # fmt: skip
    for values in first.values():
        for search in ("known", "unknown", "unknown-alone"):
            assert all(0 <= values[f"{name} {search}"] <= 1 for name in ("map", "ndcg", "recall"))
    floats, number = first["float cosine"], first["class number"]
    assert floats["recall known"] > 0.999
    assert floats["own row first"] == floats["distinct"] == 1
    assert floats["bytes"] == 256
    assert floats["map unknown-alone"] > floats["map unknown"]
    assert number["own row first"] < 0.02 > number["distinct"]
    assert number["map known"] > floats["map known"]
    assert number["map unknown"] < floats["map unknown"]
    assert first["LDA + PQ"]["map known"] > first["PQ"]["map known"]
    assert first["LDA + PQ"]["map unknown"] < first["PQ"]["map unknown"]


def test_budgets_concern_what_learns_from_labels(made):
    _, _, measured = made
    present, few, wrong, absent = (values_of(measured, budget) for budget in BUDGETS)
    assert set(few) == set(wrong) == {"class number", "LDA + PQ"}
    assert set(absent) == set(present)
    assert absent["PQ"]["map unknown"] != present["PQ"]["map unknown"]
    assert absent["float cosine"]["map unknown"] == present["float cosine"]["map unknown"]
    scores = [found["class number"]["map known"] for found in (present, few, wrong)]
    assert scores[0] > scores[1] + 0.05
    assert scores[0] > scores[2]


def test_a_budget_hides_and_replaces_labels():
    y = np.where(np.arange(600) % 6 == 5, np.nan, np.arange(600) % 6)
    few = LabelBudget(7).apply(y, 0)
    assert [int((few == label).sum()) for label in range(6)] == [7, 7, 7, 7, 7, 0]
    assert not np.array_equal(few, LabelBudget(7).apply(y, 1), equal_nan=True)
    wrong = LabelBudget(None, 0.4).apply(y, 0)
    np.testing.assert_array_equal(np.isnan(wrong), np.isnan(y))
    assert int((wrong != y)[~np.isnan(y)].sum()) == 200
    both = LabelBudget(10, 0.2).apply(y, 0)
    assert int((~np.isnan(both)).sum()) == 50
    assert int((both != y)[~np.isnan(both)].sum()) == 10
    assert str(LabelBudget(10, 0.2)) == "10 labels per class, 20% wrong"


def test_what_is_measured_is_not_measured_again(made, monkeypatch):
    plan, folder, measured = made
    monkeypatch.setattr(ProductCodec, "fit", lambda *_: pytest.fail("fitted again"))
    assert run_frontier(plan, folder).runs == measured.runs
    more = FrontierPlan(plan.source, sizes=(8, 4), seeds=1, quick=True, methods=("itq",))
    assert [(row.bytes, row.size) for row in frontier_rows(run_frontier(more, folder).fits)] == [
        (8, 8), (8, 8), (4, 4), (4, 4),
    ]  # fmt: skip
    monkeypatch.setattr(frontier, "_REVISION", 2)
    with pytest.raises(pytest.fail.Exception, match="fitted again"):
        run_frontier(FrontierPlan(plan.source, sizes=(8,), seeds=1, quick=True, methods=("PQ",)), folder)


def test_runs_of_a_frontier_are_no_runs_of_a_table(made, call):
    _, folder, _ = made
    code, out, _ = call("bench", "table", folder / "runs", "--json")
    assert code == 0
    assert json.loads(out)["rows"] == []


def test_a_method_that_fails_stops_no_other(tmp_path):
    plan = FrontierPlan(DataSource("digits"), sizes=(2000,), seeds=1, quick=True, methods=("itq", "sign bits"))
    finished = []
    measured = run_frontier(plan, tmp_path, threads=1, on_finished=lambda run, *_: finished.append(str(run.definition)))
    # Sign bits have as many bytes as the features give them.
    assert finished == ["sign bits, frontier, seed 0", "itq, 16000 bits, frontier, seed 0"]
    assert [row.label for row in frontier_rows(measured.fits)] == ["sign bits"]
    assert [run.definition.label for run in measured.failed] == ["itq"]
    assert frontier_notes(plan, measured)[-1].startswith("Failed: itq, 16000 bits, frontier, seed 0: ")


@pytest.mark.slow
def test_the_command_writes_a_page_of_a_strangers_file(call, tmp_path):
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    np.savez(tmp_path / "mine.npz", X=X.astype(np.float32), y=np.array([f"topic {label}" for label in y]))
    words = ["bench", "frontier", "mine.npz", "--labels", "y", "--quick", "--bytes", 4, 8, "--threads", 1, "-o", "out"]
    few = ["--methods", "float cosine", "PCA + sign", "itq", "class number", "--seeds", 2]
    code, out, err = call(*words, *few, "--labels-per-class", 5, "--wrong-labels", 0.4, "--against", "itq, Hamming")
    assert code == 0, err
    paths = [tmp_path / line for line in out.split()]
    assert [path.name for path in paths] == ["report.md", "report.csv", "report.json", "report.html", "frontier.svg"]
    page, text = paths[3].read_text(), paths[0].read_text()
    assert page.count("<svg") == 1
    for word in ("MAP known", "MAP unknown, searched alone", "own row first", "float cosine, 256 bytes"):
        assert word in page
    for word in (
        "Quick version",
        "Differences to itq, Hamming",
        "Label budgets, 8 bytes",
        "| method | all labels | 5 labels per class | all labels, 40% wrong |",
        "Left out: float Euclidean; 8 bit scalar; ",
    ):
        assert word in text
    rows = json.loads(paths[2].read_text())["sections"][1]["rows"]
    assert {(row["method"], row["bytes"]) for row in rows} == {
        ("class number", 1), ("float cosine", 256), ("PCA + sign", 4), ("PCA + sign", 8), ("itq, Hamming", 4),
        ("itq, Hamming", 8), ("itq, real-valued queries", 4), ("itq, real-valued queries", 8),
    }  # fmt: skip
    with paths[1].open() as stream:
        first = next(csv.DictReader(stream))
    assert float(first["map known"]) == rows[0]["map known"]


@pytest.mark.slow
def test_label_sets_are_searched_on_new_rows(call, tmp_path):
    rng = np.random.default_rng(0)
    y = (rng.random((1000, 4)) < 0.4).astype(np.int8)
    X = y @ rng.normal(size=(4, 24)) + 0.3 * rng.normal(size=(1000, 24))
    np.savez(tmp_path / "sets.npz", X=X.astype(np.float32), y=y)
    words = ["bench", "frontier", "sets.npz", "--labels", "y", "--quick", "--bytes", 2, "--threads", 1, "-o", "out"]
    words += ["--labels-per-class", 5]
    code, _, err = call(*words, "--methods", "float cosine", "float Euclidean", "LDA + PQ", "posteriors + PQ", "gsdhp")
    assert code == 0, err
    text = (tmp_path / "out" / "report.md").read_text()
    assert "Left out: LDA + PQ (LDA needs one class per row. Got label sets instead)." in text
    assert "Left out: 5 labels per class (label sets have no budget per class)." in text
    assert "| gsdhp, Hamming | 2 |" in text
    assert "| float Euclidean | 96 |" in text  # because rows are not of unit length
    assert "MAP unknown" not in text
    assert "NDCG@50" in (tmp_path / "out" / "frontier.svg").read_text()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "either a file of your own or --data"),
        (["digits", "--data", "digits"], "either a file of your own or --data"),
        (["--data", "nothing"], "Got 'nothing' instead"),
        (["--data", "digits", "--methods", "QP"], "Got 'QP' instead"),
        (["--data", "digits", "--bytes", "1"], "at least two bytes"),
        (["--data", "digits", "--wrong-labels", "1.5"], "from 0 to below 1. Got None and 1.5"),
        (["--data", "digits", "--labels-per-class", "0"], "at least one label per class"),
        (["--data", "digits", "--labels-per-class", "5", "--no-budgets"], "--no-budgets contradicts"),
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


def test_rows_are_means_over_seeds_and_equal_sizes_count_once():
    points = [point("a", 8, 0.8, 0.4), point("a", 8, 0.9, 0.6, seed=1), point("a", 8, 0.1, 0.6, seed=1)]
    (row,) = frontier_rows(points)
    assert len(row.by_seed) == 2
    assert row.sure("map known").mean == pytest.approx(0.85)
    assert row.sure("map unknown").deviation == pytest.approx(np.std([0.4, 0.6], ddof=1))


def test_rows_whose_bytes_follow_from_the_classes_are_one_row():
    """A class with few rows is in the training rows of some seeds only."""
    points = [point("posterior floats", 32, 0.8, 0.4, sized=False)]
    points += [point("posterior floats", 28, 0.9, 0.6, seed=1, sized=False)]
    (row,) = frontier_rows(points)
    assert (row.bytes, len(row.by_seed)) == (32, 2)


def test_budgets_of_fits_that_failed_are_dashes():
    known = {BUDGETS[0]: 0.9, BUDGETS[3]: 0.8}
    points = [point("a", 8, known[b], 0.5, seed, budget=b) for b in known for seed in (0, 1)]
    points += [point("PQ", 8, 0.7, 0.5, seed) for seed in (0, 1)]
    points.append(point("PQ", 8, 0.6, 0.5, 1, budget=BUDGETS[3]))
    section = budget_section(frontier_rows(points), [BUDGETS[0], BUDGETS[3]], 8)
    assert section.rows == [["a", "0.900 / 0.500", "0.800 / 0.500"], ["PQ", "0.700 / 0.500", "–"]]


def test_differences_are_paired():
    """Seeds move both methods alike, so the difference is much surer than the scores."""
    level = np.array([0.5, 0.7, 0.6])
    gain = np.array([0.1, 0.12, 0.11])
    points = [point("a", 8, a, 0.5, seed) for seed, a in enumerate(level)]
    points += [point("b", 8, b, 0.5, seed) for seed, b in enumerate(level + gain)]
    a, b = frontier_rows(points)
    found = b.minus(a, "map known")
    mean, half = found.mean, found.half
    assert mean == pytest.approx(0.11)
    assert str(found) == "+0.110 ± 0.025*"
    expected = stats.ttest_rel(level + gain, level).confidence_interval(0.95)
    assert (mean - half, mean + half) == pytest.approx(tuple(expected))
    assert half < 0.03
    one = frontier_rows([point("c", 8, 0.9, 0.5, seed=2)])[0]
    assert str(one.minus(a, "map known")) == "+0.300"


def test_what_does_not_suit_the_data_is_left_out_with_the_reason(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "turbovec", None)
    monkeypatch.setattr(frontier, "QUICK_ROWS", 200)
    methods = ("float cosine", "TurboQuant, 4 bits", "TurboQuant, 2 bits", "RaBitQ, 1 bit", "PQ")
    plan = FrontierPlan(DataSource("digits"), (4, 8), seeds=1, quick=True, methods=methods)
    measured = run_frontier(plan, tmp_path, threads=1)
    assert [row.label for row in frontier_rows(measured.fits)] == ["float cosine"]
    assert not measured.failed
    text = "\n".join(frontier_notes(plan, measured))
    for sentence in (
        "Left out: TurboQuant, 4 bits; TurboQuant, 2 bits (TurboQuant needs turbovec: pip install turbovec).",
        "Left out: RaBitQ, 1 bit (RaBitQ with 1 bits needs more than 8 bytes per row. Got 4 instead).",
        "Left out: PQ (PQ learns 256 centroids from at least as many rows. Got 200 rows instead).",
    ):
        assert sentence in text


def test_deviations_are_bars_of_the_picture():
    seeds = [point("PQ", 8, 0.8, 0.4), point("PQ", 8, 0.9, 0.6, seed=1), point("float cosine", 256, 0.9, 0.9)]
    known, unknown = frontier_picture("t", frontier_rows(seeds)).panels
    assert known.spreads == {"PQ": [pytest.approx(np.std([0.8, 0.9], ddof=1))]}
    assert unknown.lines["PQ"] == ([8], [pytest.approx(0.5)])
    assert "float cosine, 256 bytes" in known.lines
    assert frontier_picture("t", frontier_rows(seeds[:1])).panels[0].spreads == {}


def test_recall_and_own_rows_of_ties_are_expected():
    scores = np.zeros((1, 20), dtype=np.float32)
    assert neighbor_recall(scores, np.arange(10)[None]) == pytest.approx(0.5)
    assert own_row_first(scores, np.array([3])) == pytest.approx(1 / 20)
    scores[0, :10] = 1
    assert neighbor_recall(scores, np.arange(10)[None]) == 1
    assert neighbor_recall(scores, np.arange(10, 20)[None]) == 0
    assert own_row_first(scores, np.array([12])) == 0


def test_the_table_of_methods():
    methods = {method.name: method for method in frontier_methods()}
    wanted = {"PQ", "OPQ", "RaBitQ, 2 bits", "class number + LDA-OPQ", "contrastive adapter floats", "gsdhp", "auto"}
    assert wanted <= set(methods)
    assert len(methods) == len(frontier_methods())
    assert methods["gsdhp"].supervised
    assert methods["class number + PQ"].supervised
    assert not methods["itq"].supervised
    assert not methods["PQ"].supervised


def test_budgets_are_measured_at_the_middle_size_with_few_seeds_and_methods():
    plan = FrontierPlan(DataSource("digits"), seeds=5, budgets=BUDGETS)
    jobs = list(plan.fits("mixed"))
    some = [job for job in jobs if job[1] != BUDGETS[0]]
    assert {seed for seed, *_ in some} == {0, 1, 2}
    assert {size for *_, method, size in some if method.sized} == {16}
    assert {method.name for *_, method, _ in some} <= set(frontier.BUDGET_METHODS)
    assert {seed for seed, *_ in jobs} == {0, 1, 2, 3, 4}


def test_a_row_of_fewer_seeds_is_not_the_best():
    points = [point("a", 8, 0.5, 0.5), point("a", 8, 0.5, 0.5, seed=1), point("b", 8, 0.9, 0.9)]
    section = best_section(frontier_rows(points), (8,))
    assert section.rows[0][1] == "a (8 B) 0.500"


def test_what_is_not_measured_is_a_dash():
    hidden = point("TurboQuant", 100, 0.5, 0.5)
    del hidden[1].views["TurboQuant"]["distinct"]
    rows = frontier_rows([hidden])
    text = table_section(rows, []).rows[0]
    assert "–" in text


def test_the_matryoshka_row_needs_the_word_of_the_user():
    names = {True: set(), False: set()}
    for asked in names:
        plan = FrontierPlan(DataSource("digits"), matryoshka=asked)
        names[asked] = {method.name for method in plan.chosen}
    assert names[True] - names[False] == {"Matryoshka, 8 bits"}


class TestStrangersFiles:
    """Files with few rows, few classes and missing labels give a page and exit code 0 without any choice."""

    @pytest.fixture
    def page(self, call, tmp_path, monkeypatch):
        monkeypatch.setattr(frontier, "_LEAST_SECONDS", 0.0)

        def write(X, y, *words):
            np.savez(tmp_path / "mine.npz", X=np.asarray(X, dtype=np.float32), y=y)
            few = ["--bytes", 4, "--threads", 1, "--quick", "-o", "out", *words]
            code, _, err = call("bench", "frontier", "mine.npz", "--labels", "y", *few)
            assert code == 0, err
            assert "warning" not in err
            return (tmp_path / "out" / "report.md").read_text()

        return write

    METHODS = (
        "--methods",
        "float cosine",
        "float Euclidean",
        "PQ",
        "PQ, 4 bits",
        "class number + PQ",
        "LDA + PQ",
        "itq",
    )

    def rows(self, count, classes, seed=0):
        rng = np.random.default_rng(seed)
        y = np.arange(count) % classes
        return rng.normal(size=(classes, 16))[y] + 0.3 * rng.normal(size=(count, 16)), y

    def test_few_rows(self, page):
        text = page(*self.rows(200, 5), *self.METHODS)
        assert "| PQ, 4 bits | 4 |" in text
        assert "PQ learns 256 centroids from at least as many rows. Got 80 rows instead" in text
        assert "Failed" not in text

    def test_two_classes(self, page):
        text = page(*self.rows(800, 2), *self.METHODS)
        assert "No class is unknown here, because mixed needs at least 3 classes" in text
        assert "| LDA + PQ | 4 |" in text
        assert "NDCG@50" in text

    def test_rows_without_labels(self, page):
        X, y = self.rows(900, 6)
        words = np.array([f"class {number}" for number in y])
        words[::3] = " "
        text = page(X, words, *self.METHODS)
        assert "300 of 900 rows have no label." in text
        assert "| class number + PQ | 4 |" in text

    def test_many_classes_have_equal_bytes_and_lonely_queries(self, page):
        text = page(*self.rows(2700, 900), *self.METHODS)
        assert "| class number + PQ | 4 |" in text
        assert "No row of the database is relevant to" in text

    def test_one_class_is_refused(self, call, tmp_path):
        np.savez(tmp_path / "one.npz", X=np.eye(20, dtype=np.float32), y=np.zeros(20, dtype=int))
        code, _, err = call("bench", "frontier", "one.npz", "--labels", "y", "-o", "out")
        assert code == 2
        assert "two classes" in err
