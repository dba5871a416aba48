"""Tables and comparisons of kept runs."""

import csv
import io
import json
import statistics

import numpy as np
import pytest

from bench.conftest import SMALL
from hashlearn.bench import RunStore, Variant, run_plan, scores_of
from hashlearn.bench.plan import make_plan
from hashlearn.bench.store import RunDefinition
from hashlearn.bench.tables import TableRow, compare


def test_means_and_deviations_are_those_of_the_runs(call, results):
    rows = json.loads(call("bench", "table", results, "--json")[1])["rows"]
    store = RunStore(results)
    for row in rows:
        values = [
            scores_of(store, run)["hashed"]["map"]
            for run in store.runs()
            if (run.definition.label, run.definition.n_bits) == (row["method"], row["bits"])
        ]
        assert row["hashed"] == pytest.approx(statistics.mean(values))
        assert row["hashed_deviation"] == pytest.approx(statistics.stdev(values))
        assert row["bytes"] == row["bits"] // 8


def test_every_form_of_a_table_has_the_same_numbers(call, results):
    found = json.loads(call("bench", "table", results, "--json")[1])
    rows = found["rows"] + found["baselines"]
    parsed = list(csv.DictReader(io.StringIO(call("bench", "table", results, "--csv")[1])))
    assert [float(row["hashed"]) for row in parsed] == [row["hashed"] for row in rows]
    for form in (["--markdown"], []):
        text = call("bench", "table", results, *form)[1]
        assert all(f"{row['hashed']:.4f} ± {row['hashed_deviation']:.4f}" in text for row in rows)
        assert "MAP@500, expected ties" in text
    assert call("bench", "table", results, "--csv", "--json")[0] == 2


def test_score_takes_other_definitions(call, results):
    found = {}
    for ties in ("optimistic", "expected", "pessimistic"):
        code, out, _ = call("bench", "score", results, "--ties", ties, "--json")
        assert code == 0
        found[ties] = [run["scores"]["hashed"]["map"] for run in json.loads(out)["runs"]]
    assert all(a >= b >= c for a, b, c in zip(*found.values(), strict=True))
    assert call("bench", "score", results)[0] == 0
    code, _, err = call("bench", "score", results, "--ties", "lucky")
    assert code == 2
    assert "Got 'lucky' instead" in err


def test_compare(call, results, tmp_path):
    same = json.loads(call("bench", "compare", results, results, "--json")[1])
    assert len(same["compared"]) == 12
    assert all((row["difference"], row["interval"], row["certain"]) == (0, 0, False) for row in same["compared"])
    assert {row["seeds"] for row in same["compared"]} == {2}
    assert call("bench", "run", *SMALL[:4], "--methods", "lsh", "--bits", 8, "24", "-o", "other")[0] == 0
    code, out, err = call("bench", "compare", "results", "other")
    assert code == 0
    assert "* is an interval without 0" in out
    assert "only in B: lsh 24 bits on holdout." in err
    code, _, err = call("bench", "compare", "results", "nowhere")
    assert code == 1
    assert "There is no folder nowhere." in err


def test_differences_are_paired_by_seed():
    what = RunDefinition("d", "p", "s", "", 0, "m", "lsh", {}, 8)

    def row(values, seeds):
        by_seed = {seed: {"hashed": value} for seed, value in zip(seeds, values, strict=True)}
        return TableRow(by_seed, what, [], "MAP", "stable")

    first = row([0.5, 0.7, 0.6], (0, 1, 2))
    for second, certain in (([0.52, 0.73, 0.62], True), ([0.55, 0.65, 0.61], False)):
        (found,), _, _ = compare([first], [row(second, (0, 1, 2))])
        assert found.difference.certain is certain
        assert found.difference.mean == pytest.approx(np.mean(second) - 0.6)
    (found,), _, _ = compare([first], [row([0.75, 0.9], (1, 5))])
    assert found.difference == (pytest.approx(0.05), None, 1)
    assert compare([first], [row([0.9], (7,))])[0] == []


def test_one_name_with_two_settings_is_two_rows(call, tmp_path):
    for rounds in (5, 6):
        variant = Variant("mine", "itq", {"max_iter": rounds})
        run_plan(make_plan("holdout", [], [8], 1, "digits", [variant]), tmp_path / "results")
    rows = json.loads(call("bench", "table", "results", "--json")[1])["rows"]
    assert [row["method"] for row in rows] == ["mine (max_iter=5)", "mine (max_iter=6)"]


def test_label_sets_are_scored_by_ndcg(call, tmp_path):
    run_plan(make_plan("holdout", ["lsh"], [8], 1, "factors"), tmp_path / "results")
    (row,) = json.loads(call("bench", "table", "results", "--json")[1])["rows"]
    assert row["measure"] == "NDCG@50"
