"""``hashlearn fit`` and ``encode`` over many files: streamed, the same as from one, resumable."""

import json

import numpy as np
import pytest
from real_command import SMALL

from hashlearn import files
from hashlearn.models import load


@pytest.fixture
def shards(folder):
    X, y = np.load(folder / "X.npy"), np.load(folder / "y.npy")
    (folder / "shards").mkdir()
    for k, part in enumerate(np.array_split(np.arange(len(X)), 3)):
        np.save(folder / "shards" / f"x{k}.npy", X[part])
        np.save(folder / "shards" / f"y{k}.npy", y[part])
    return folder


FIT = ["--labels", "shards/y*.npy", "--bits", 12, *SMALL]


def test_a_pattern_is_streamed_and_gives_the_model_of_one_file(call, model, shards):
    code, out, err = call("fit", "shards/x*.npy", *FIT, "-o", "many.hl", "--codes-out", "many.npy", "--json")
    assert code == 0, err
    facts = json.loads(out)
    assert (facts["rows"], facts["features"], facts["passes"]) == (240, 6, 2)
    X = np.load(shards / "X.npy")
    np.testing.assert_array_equal(load("many.hl").encode(X), load(model).encode(X))
    np.testing.assert_array_equal(files.read_codes("many.npy").codes, files.read_codes("learned.npy").codes)


@pytest.mark.slow
def test_processes_in_a_process_of_its_own(run, model, shards):
    done = run("fit", "shards/x*.npy", *FIT, "-o", "many.hl", "--workers", 1, "--checkpoint", "point", timeout=120)
    assert done.returncode == 0, done.stderr
    assert not (shards / "point").exists()
    X = np.load(shards / "X.npy")
    np.testing.assert_array_equal(load(shards / "many.hl").encode(X), load(model).encode(X))


def test_one_file_is_streamed_on_request(call, model, shards):
    assert call("fit", "X.npy", "-y", "y.npy", "--bits", 12, *SMALL, "--stream", "-o", "many.hl")[0] == 0
    X = np.load(shards / "X.npy")
    np.testing.assert_array_equal(load("many.hl").encode(X), load(model).encode(X))


@pytest.mark.parametrize("out", ["codes.npy", "codes"])
def test_encode_many_files(call, model, shards, out):
    code, printed, err = call("encode", "model.hl", "shards/x*.npy", "-o", out, "--json")
    assert code == 0, err
    assert json.loads(printed)["rows"] == 240
    paths = sorted((shards / out).glob("*.npy")) if out == "codes" else [shards / out]
    found = np.concatenate([files.read_codes(path).codes for path in paths])
    np.testing.assert_array_equal(found, load(model).encode(np.load(shards / "X.npy")))


def test_bad_use(call, model, shards):
    for arguments, message in [
        (["fit", "shards/x*.npy", "-y", "shards/y*.npy", "--method", "ksh", "-o", "m.hl"], "in memory"),
        (["fit", "shards/x*.npy", *FIT, "--workers", 2, "--cluster", "tcp://x:1", "-o", "m.hl"], "not both"),
        (["fit", "shards/x*.npy", *FIT, "--workers", 0, "-o", "m.hl"], "greater than or equal to 1"),
        (["encode", "model.hl", "shards/x*.npy", "-o", "c.npy", "--workers", 2], "give a folder"),
        (["encode", "model.hl", "shards/x*.npy", "-o", "c", "--format", "bits"], "packed codes"),
    ]:
        code, _, err = call(*arguments)
        assert code == 2, err
        assert message in err


def test_files_that_are_not_there(call, model, shards):
    code, _, err = call("fit", "gone/*.npy", *FIT, "-o", "m.hl")
    assert (code, "No file matches gone/*.npy" in err) == (1, True)
    code, _, err = call("fit", "shards/x*.npy", "--labels", "y[12].npy", "-o", "m.hl", *SMALL)
    assert (code, "No file matches" in err) == (1, True)
