"""Making runs: end to end, resumed, over processes, with a method that fails."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import hashlearn
from bench.conftest import SMALL
from hashlearn import metrics
from hashlearn.bench import RunStore, Variant, run_plan, runner, scores_of, tables
from hashlearn.bench.plan import make_plan
from hashlearn.codes import unpack
from hashlearn.data import load, protocol
from hashlearn.methods import ITQ

ROOT = Path(hashlearn.__file__).parents[1]


@pytest.mark.slow
def test_a_bench_end_to_end(call, tmp_path):
    code, out, err = call("bench", "run", *SMALL, "--seeds", 2, "-o", "results", "--json")
    assert code == 0
    rows = json.loads(out)["rows"]
    assert {(row["method"], row["bits"]) for row in rows} == {(m, b) for m in ("lsh", "itq", "pca-rr") for b in (8, 16)}
    assert all(row["seeds"] == 2 and row["hashed_deviation"] is not None for row in rows)
    assert "12 runs made, 0 were there already, 0 failed" in err
    assert " s left." in err
    runs = RunStore(tmp_path / "results").runs()
    assert len(runs) == 12
    assert not list((tmp_path / "results").glob("*.tmp"))
    one = runs[0]
    assert one.machine["versions"]["numpy"] == np.__version__
    assert one.machine["cpu"]
    assert one.machine["blas"]
    assert one.peak_memory_bytes > 10e6
    assert one.seconds["fit"] > 0
    assert len(one.definition.split_hash) == 64


def test_what_is_there_is_not_made_again(call, results):
    stamps = {path: path.stat().st_mtime_ns for path in results.glob("*.npz")}
    code, _, err = call("bench", "run", *SMALL, "--seeds", 3, "-o", "results")
    assert code == 0
    assert "6 runs made, 12 were there already" in err
    assert all(path.stat().st_mtime_ns == stamp for path, stamp in stamps.items())


@pytest.mark.slow
def test_an_interrupted_bench_goes_on(call, tmp_path):
    command = [sys.executable, "-m", "hashlearn", "bench", "run", *SMALL, "--seeds", "50", "-o", "results"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 30
    while len(list(tmp_path.glob("results/*.json"))) < 2 and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    kept = {path.name: path.stat().st_mtime_ns for path in tmp_path.glob("results/*b-s0-*.json")}
    assert kept
    code, _, err = call("bench", "run", *SMALL, "-o", "results")
    assert code == 0
    assert f"{6 - len(kept)} runs made, {len(kept)} were there already" in err
    assert all((tmp_path / "results" / name).stat().st_mtime_ns == stamp for name, stamp in kept.items())


def test_a_failing_method_does_not_stop_the_rest(call, tmp_path, broken):
    arguments = ["bench", "run", "--protocol", "holdout", "--data", "digits", "--methods", "broken", "lsh"]
    code, out, err = call(*arguments, "--bits", 8, "-o", "results", "--json")
    assert code == 1
    assert "broken, 8 bits, holdout, seed 0 failed: RuntimeError: the moon is in the wrong house" in err
    assert [row["method"] for row in json.loads(out)["rows"]] == ["lsh"]
    failed = [run for run in RunStore(tmp_path / "results").runs() if run.error]
    assert len(failed) == 1
    assert "wrong house" in failed[0].traceback
    code, _, err = call(*arguments, "--bits", 8, "-o", "results")
    assert code == 1
    assert "1 runs made, 1 were there already, 1 failed" in err
    code, out, err = call("bench", "table", "results")
    assert code == 0
    assert "wrong house" in err


@pytest.mark.slow
def test_processes_give_the_same_codes(tmp_path):
    plan = make_plan("holdout", ["itq", "lsh"], [8], 1, "digits")
    outcome = run_plan(plan, tmp_path / "two", jobs=2, threads=1)
    assert not outcome.failed
    assert {run.machine["threads"] for run in outcome.made} == {1}
    run_plan(plan, tmp_path / "one")
    for run in RunStore(tmp_path / "one").runs():
        ours, theirs = (RunStore(tmp_path / name).codes(run) for name in ("one", "two"))
        assert np.array_equal(ours.query, theirs.query)
        assert np.array_equal(ours.hashed, theirs.hashed)


def test_a_killed_process_fails_alone(tmp_path, monkeypatch):
    """The pool breaks under the first attempt; of the single attempts only one breaks."""
    plan = make_plan("holdout", ["itq", "lsh"], [8], 1, "digits")

    def pool(tasks, folder, jobs, threads):
        if len(tasks) > 1 or tasks[0].definition.method == "itq":
            raise runner.BrokenProcessPool
        yield runner.perform(tasks[0], folder, threads)

    monkeypatch.setattr(runner, "_over_processes", pool)
    outcome = run_plan(plan, tmp_path / "results", jobs=2)
    assert [run.definition.method for run in outcome.failed] == ["itq"]
    assert "out of memory" in outcome.failed[0].error
    assert len(outcome.made) == 2


def test_scores_from_kept_codes_equal_the_direct_ones(tmp_path):
    plan = make_plan("holdout", [], [16], [3], "digits", [Variant("itq-short", "itq", {"max_iter": 5})])
    run_plan(plan, tmp_path)
    store = RunStore(tmp_path)
    (run,) = store.runs()
    dataset = protocol("holdout").split(load("digits"), 3).dataset(load("digits"))
    hasher = ITQ(16, max_iter=5, random_state=3).fit(dataset.train_X)
    arguments = (hasher.encode(dataset.query_X), hasher.encode(dataset.train_X), dataset.query_y, dataset.train_y)
    for ties in ("expected", "stable", "optimistic"):
        expected = metrics.evaluate(*arguments, at=100, ties=ties)
        for _ in range(2):  # computed, then kept
            found = scores_of(store, run, metrics.Rules(at=100, ties=ties))["hashed"]
            assert found["map"] == expected.map
            assert found["ndcg"] == expected.ndcg
            assert found["radius_recall"] == expected.radius_recall


def test_a_mixed_database_is_the_default_and_its_searches_share_a_fit(call, tmp_path, monkeypatch):
    fits = []
    monkeypatch.setattr(ITQ, "fit", lambda self, *rows, fit=ITQ.fit: fits.append(1) or fit(self, *rows))
    assert call("bench", "run", "--data", "digits", "--methods", "itq", "--bits", 8, 12, "-o", tmp_path)[0] == 0
    assert len(fits) == 2
    store = RunStore(tmp_path)
    runs = {run.definition.split: run for run in store.runs() if run.definition.n_bits == 8}
    assert set(runs) == {"known", "unknown", "unknown-alone"}
    for name, run in runs.items():
        split = next(one for one in protocol("mixed").splits(load("digits"), 0) if one.name == name)
        rows = split.dataset(load("digits"))
        hasher = ITQ(8, random_state=0).fit(rows.train_X, rows.train_y)
        assert np.array_equal(store.codes(run).hashed, hasher.encode(rows.database_X))
    assert scores_of(store, runs["known"])["learned"] is None


@pytest.mark.slow
def test_a_new_database_has_scores_of_real_valued_queries(call, tmp_path):
    arguments = ["--protocol", "new", "--data", "digits", "--methods", "auto", "itq", "--bits", 16, "-o", "results"]
    code, out, _ = call("bench", "run", *arguments)
    assert code == 0
    assert "digits, new: " in out
    assert tables.REAL_VALUED in out
    assert call("bench", "report", "results", "-o", "report")[0] == 0
    assert tables.REAL_VALUED in (tmp_path / "report" / "report.html").read_text()
    store = RunStore(tmp_path / "results")
    runs = {run.definition.method: run for run in store.runs()}
    assert {run.definition.protocol for run in runs.values()} == {"new"}
    scores = scores_of(store, runs["itq"])
    assert scores["learned"] is None
    split = protocol("new").split(load("digits"), 0)
    assert not set(split.database) & set(split.train)
    dataset = split.dataset(load("digits"))
    hasher = ITQ(16, random_state=0).fit(dataset.train_X)
    queries, database = hasher.expected_bits(dataset.query_X), hasher.encode(dataset.database_X)
    expected = metrics.evaluate(queries, database, dataset.query_y, dataset.database_y)
    assert scores["real"]["map"] == expected.map != scores["hashed"]["map"]
    assert scores["real"]["radius_precision"] is None
    assert scores_of(store, runs["auto"])["hashed"]["map"] > scores["hashed"]["map"] + 0.1


@pytest.mark.parametrize("damage", ["missing", "cut"])
def test_a_damaged_file_is_one_sentence(call, results, damage):
    path = next(results.glob("holdout-itq*.npz"))
    for scores in results.glob("scores/*"):
        scores.unlink()
    path.unlink() if damage == "missing" else path.write_bytes(path.read_bytes()[:50])
    code, _, err = call("bench", "table", "results")
    assert code == 1
    assert path.name in err
    assert err.count("\n") == 1


def test_codes_are_also_measured_without_labels(call, tmp_path):
    code, out, _ = call("bench", "run", *SMALL[:4], "--methods", "itq", "--bits", 8, "-o", "results")
    assert code == 0
    assert "recall@10  own row first  distinct codes" in out
    (run,) = RunStore(tmp_path / "results").runs()
    rows = protocol("holdout").split(load("digits"), 0).dataset(load("digits"))
    hasher = ITQ(8, random_state=0).fit(rows.train_X)
    stored = unpack(hasher.encode(rows.database_X), 8).astype(int)
    asked = unpack(hasher.encode_queries(rows.query_X), 8).astype(int)
    unit = [X / np.linalg.norm(X, axis=1, keepdims=True) for X in (rows.query_X, rows.database_X)]
    recalls = []
    for query, bits in zip(unit[0], asked, strict=True):
        near = np.argsort(-(unit[1] @ query))[:10]
        distance = (stored != bits).sum(axis=1)
        last = np.sort(distance)[9]
        chance = (10 - (distance < last).sum()) / (distance == last).sum()
        recalls.append(((distance[near] < last).sum() + chance * (distance[near] == last).sum()) / 10)
    assert run.measured["neighbor_recall"] == pytest.approx(np.mean(recalls), abs=1e-6)
    assert run.measured["distinct_codes"] == len(np.unique(stored, axis=0)) / len(stored)
    assert 0 < run.measured["own_row_first"] < 1
    (row,) = json.loads(call("bench", "table", "results", "--json")[1])["rows"]
    assert row["neighbor_recall"] == run.measured["neighbor_recall"]
