"""Patterns and folders stand for several files in every command that comes after training."""

import json

import numpy as np
import pytest

from hashlearn.collection import Collection


@pytest.fixture
def shards(folder):
    """The rows and labels of the folder in three files each, of unequal length, with payloads."""
    X, y = np.load(folder / "X.npy"), np.load(folder / "y.npy")
    for number, rows in enumerate(np.split(np.arange(240), [100, 110])):
        np.save(folder / f"part{number}.npy", X[rows])
        np.save(folder / f"labels{number}.npy", y[rows])
        lines = [json.dumps({"row": int(row)}) for row in rows]
        (folder / f"meta{number}.jsonl").write_text("\n".join(lines) + "\n")
    return folder


def test_adding_shards_equals_adding_one_file(call, model, shards):
    for where, source in (("one", "X.npy"), ("many", "part*.npy")):
        assert call("index", "create", where, "--model", "model.hl")[0] == 0
        assert call("index", "add", where, source, "--payload", "meta*.jsonl")[0] == 0
    with Collection.open(str(shards / "one")) as one, Collection.open(str(shards / "many")) as many:
        for left, right in zip(one.get(range(240)), many.get(range(240)), strict=True):
            assert left.payload == right.payload == {"row": left.id}
            np.testing.assert_array_equal(left.code, right.code)


def test_codes_of_a_folder_are_added_and_evaluated(call, model, shards):
    assert call("encode", "model.hl", "X.npy", "-o", "db.npy")[0] == 0
    assert call("encode", "model.hl", "Xq.npy", "-o", "q.npy")[0] == 0
    (shards / "codes").mkdir()
    for number in range(3):
        assert call("encode", "model.hl", f"part{number}.npy", "-o", f"codes/{number}.npy")[0] == 0
    assert call("index", "create", "shop", "--bits", 12)[0] == 0
    assert call("index", "add", "shop", "--codes", "codes")[0] == 0
    with Collection.open(str(shards / "shop")) as shop:
        np.testing.assert_array_equal([row.code for row in shop.get(range(240))], np.load(shards / "db.npy"))
    queries = ["--queries", "q.npy", "--query-labels", "yq.npy", "--json"]
    whole = call("evaluate", *queries, "--database", "db.npy", "--database-labels", "y.npy")
    parts = call("evaluate", *queries, "--database", "codes", "--database-labels", "labels*.npy")
    assert parts[0] == 0
    assert json.loads(parts[1]) == json.loads(whole[1])


def test_features_of_a_pattern_are_evaluated_by_a_model(call, model, shards):
    common = ["--queries", "Xq.npy", "--query-labels", "yq.npy", "--database-labels", "labels*.npy", "--json"]
    for way in (["--model", "model.hl"], ["--floats", "cosine"]):
        whole = call("evaluate", *common, "--database", "X.npy", *way)
        parts = call("evaluate", *common, "--database", "part*.npy", *way)
        assert json.loads(parts[1]) == json.loads(whole[1])


def test_shards_that_do_not_fit_together_are_named(call, model, shards):
    np.save(shards / "part3.npy", np.zeros((4, 7), np.float32))
    np.save(shards / "labels3.npy", np.eye(4))
    assert call("index", "create", "shop", "--model", "model.hl")[0] == 0
    status, _, error = call("index", "add", "shop", "part*.npy")
    assert status != 0
    assert "part3.npy has 7 columns, but" in error
    status, _, error = call("index", "add", "shop", "other*.npy")
    assert status != 0
    assert "No file matches other*.npy" in error
    arguments = ["--queries", "Xq.npy", "--query-labels", "yq.npy", "--database", "X.npy", "--floats", "cosine"]
    status, _, error = call("evaluate", *arguments, "--database-labels", "labels*.npy")
    assert status != 0
    assert "labels3.npy holds labels of shape (4, 4)" in error


def test_a_changed_shard_is_noticed_by_an_interrupted_run(call, model, shards):
    from hashlearn.cli.rows import Journal
    from hashlearn.files import FileError

    assert call("index", "create", "shop", "--model", "model.hl")[0] == 0
    pattern = str(shards / "part*.npy")
    Journal(str(shards / "shop"), [pattern]).write()
    assert Journal(str(shards / "shop"), [pattern]).read()
    np.save(shards / "part1.npy", np.zeros((11, 6), np.float32))
    with pytest.raises(FileError, match="has changed"):
        Journal(str(shards / "shop"), [pattern]).read()
