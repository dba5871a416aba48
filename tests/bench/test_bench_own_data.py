"""Benchmarks on the user's own files, and the row of floats beside the codes."""

import json

import numpy as np
import pytest

from hashlearn import metrics
from hashlearn.bench import RunStore, run_plan
from hashlearn.bench.plan import make_plan
from hashlearn.data import embed, load, own, protocol
from hashlearn.data.own import DataSource

SPLITS = ("known", "unknown", "unknown-alone")
RUN = ["bench", "run", "--protocol", "mixed", "--methods", "lsh", "--bits", "8", "-o", "results"]


@pytest.fixture
def files(tmp_path):
    pool = load("digits")
    X, y = np.asarray(pool.X[:300]), pool.y[:300]
    np.savez(tmp_path / "mine.npz", X=X, y=y)
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", y)
    header = ",".join(["topic", *(f"f{place}" for place in range(X.shape[1]))])
    lines = [",".join([f"class{label}", *map(str, row)]) for label, row in zip(y, X, strict=True)]
    (tmp_path / "mine.csv").write_text("\n".join([header, *lines]) + "\n")
    return X, y


@pytest.mark.parametrize(
    "words", [("mine.npz", "y"), ("mine.npz:X", "y"), ("X.npy", "y.npy"), ("mine.csv", "topic")], ids=lambda w: w[0]
)
def test_a_file_runs_as_a_data_set_does(call, tmp_path, files, words):
    code, out, error = call(*RUN, "--data", words[0], "--labels", words[1], "--json")
    assert code == 0, error
    found = json.loads(out)
    assert [(row["split"], row["method"]) for row in found["rows"]] == [
        (name, "lsh") for name in ("known", "unknown", "unknown-alone")
    ]
    X, y = files
    pool = load("digits")
    for row, split in zip(found["baselines"], protocol("mixed").splits(DataSource(*words).pool()), strict=True):
        cosine = metrics.evaluate_floats(X[split.query], X[split.database], y[split.query], y[split.database]).map
        assert row["hashed"] == pytest.approx(cosine, abs=1e-6)
        assert (row["method"], row["bytes"]) == ("float cosine", 4 * pool.X.shape[1])


def test_a_changed_file_is_another_data_set(tmp_path, files, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plan = make_plan("new", ["lsh"], [8], 1, "mine.npz", labels="y")
    assert len(run_plan(plan, "results").made) == 1
    assert len(run_plan(plan, "results").kept) == 1
    first = plan.source.title
    X, y = files
    np.savez(tmp_path / "mine.npz", X=X + 1, y=y)
    own._content_hash.cache_clear()  # a new process has no hash of the old file
    assert plan.source.title != first


@pytest.mark.slow
def test_a_plan_names_a_file(call, tmp_path, files):
    text = 'protocol = "new"\ndata = "mine.npz"\nlabels = "y"\nmethods = ["lsh"]\nbits = [8]\n'
    (tmp_path / "plan.toml").write_text(text)
    code, out, error = call("bench", "run", "plan.toml", "-o", "results")
    assert code == 0, error
    assert "float cosine" in out
    code, out, _ = call("bench", "table", "results", "--at", 7)  # measures that were not kept with the runs
    assert "float cosine" in out
    (tmp_path / "mine.npz").unlink()
    code, out, _ = call("bench", "table", "results", "--at", 9)
    assert code == 0
    assert "float cosine" not in out
    assert "float cosine" in call("bench", "table", "results")[1]
    assert "float cosine" in (tmp_path / call("bench", "report", "results")[1].split()[0]).read_text()


def test_texts_are_embedded_once_into_the_folder(call, tmp_path, monkeypatch):
    class Model:
        name, n_features = "counting", 5

        def __init__(self, name):
            made.append(name)

        def encode(self, texts, start=0):
            yield np.random.default_rng(len(texts)).normal(size=(len(texts), 5)).astype(np.float32)

    made = []
    embed.text_model.cache_clear()
    monkeypatch.setattr(embed, "TextModel", Model)
    (tmp_path / "t.csv").write_text("question,topic\n" + "".join(f"word {n},{n % 6}\n" for n in range(120)))
    words = ["--data", "t.csv", "--text", "question", "--labels", "topic", "--embed", "counting"]
    assert call(*RUN, *words)[0] == 0
    (kept,) = (tmp_path / "results").glob("embeddings-*.npy")
    assert np.load(kept).shape == (120, 5)
    assert len(RunStore(tmp_path / "results").runs()) == 3
    assert made == ["counting"]
    embed.text_model.cache_clear()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--data", "mine.npz"], "mine.npz needs labels"),
        (["--data", "digits", "--labels", "y"], "digits is a data set that has its labels"),
        (["--data", "gone.npz", "--labels", "y"], "Got 'gone.npz' instead"),
        (["--data", "mine.npz", "--labels", "y", "--text", "a"], "go together"),
    ],
)
def test_wrong_data_is_one_sentence(call, files, words, said):
    code, _, error = call(*RUN, *words)
    assert code == 2
    assert said in error
    assert error.count("\n") == 1
