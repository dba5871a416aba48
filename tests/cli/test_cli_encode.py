"""``hashlearn encode``: the same codes as the library's, streamed, whole or not at all."""

import json
import signal
import subprocess
import time

import numpy as np
import pytest
from real_command import COMMAND, ENVIRONMENT

from hashlearn import codes, files
from hashlearn import methods as hashers
from hashlearn.files import read as files_read
from hashlearn.models import load, save


@pytest.mark.slow
def test_encode_in_its_own_process(run, model, folder):
    done = run("encode", "model.hl", "X.npy", "-o", "codes.npy", "--json")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    facts = json.loads(done.stdout)
    assert (facts["rows"], facts["bits"], facts["padding"], facts["bytes_per_row"]) == (240, 12, 4, 2)
    np.testing.assert_array_equal(np.load(folder / "codes.npy"), load(model).encode(np.load(folder / "X.npy")))
    beside = json.loads((folder / "codes.npy.json").read_text())
    assert (beside["bits"], beside["bit_order"], beside["padding"]) == (12, "big", 4)
    assert (beside["model"], beside["source"]) == ("model.hl", "hashed")


def test_formats_and_bit_orders(call, model, folder):
    X = np.load(folder / "X.npy")
    hasher = load(model)
    expected = {
        ("packed", "big"): hasher.encode(X),
        ("packed", "little"): codes.pack(hasher.transform(X), bit_order="little"),
        ("bits", "big"): hasher.transform(X),
        ("projections", "big"): hasher.decision_function(X),
        ("expected", "big"): hasher.expected_bits(X),
    }
    for (format, order), array in expected.items():
        assert call("encode", "model.hl", "X.npy", "-o", "c.npy", "--format", format, "--bit-order", order)[0] == 0
        found = np.load(folder / "c.npy")
        assert found.dtype == array.dtype
        np.testing.assert_array_equal(found, array)
    assert not np.array_equal(expected["packed", "big"], expected["packed", "little"])


def test_queries_of_a_model_with_spread_thresholds(call, model, folder):
    X, hasher = np.load(folder / "X.npy"), load(model)
    hasher.thresholds_ = np.full(12, 1 - 1e-9)  # the rows are easy, so only such thresholds change bits
    save(hasher, folder / "spread.hl")
    for options, wanted in ((), hasher.encode(X)), (("--queries",), hasher.encode_queries(X)):
        assert call("encode", "spread.hl", "X.npy", "-o", "c.npy", *options)[0] == 0
        np.testing.assert_array_equal(np.load(folder / "c.npy"), wanted)
    assert not np.array_equal(hasher.encode(X), hasher.encode_queries(X))
    assert "database rows" in call("encode", "spread.hl", "X.npy", "-o", "many", "--queries")[2]


def test_rows_stream_in_small_chunks(call, model, folder, monkeypatch):
    rows = np.random.default_rng(1).normal(size=(5000, 6)).astype(np.float32)
    np.save(folder / "big.npy", rows)
    whole = load(model).encode(rows)
    sizes = []
    original = hashers.GSDHP.encode

    def spied(self, X):
        sizes.append(len(X))
        return original(self, X)

    monkeypatch.setattr(hashers.GSDHP, "encode", spied)
    monkeypatch.setattr(files_read, "_CHUNK_BYTES", 1)
    assert call("encode", "model.hl", "big.npy", "-o", "c.npz")[0] == 0
    assert sizes == [2048, 2048, 904]
    np.testing.assert_array_equal(files.read_codes(folder / "c.npz").codes, whole)


def test_integer_features_of_bvecs(call, model, folder):
    rows = np.arange(60, dtype=np.uint8).reshape(10, 6)
    raw = np.concatenate([np.full((10, 1), 6, "<i4").view(np.uint8).reshape(10, 4), rows], axis=1)
    (folder / "r.bvecs").write_bytes(raw.tobytes())
    assert call("encode", "model.hl", "r.bvecs", "-o", "c.npy")[0] == 0
    np.testing.assert_array_equal(np.load(folder / "c.npy"), load(model).encode(rows.astype(np.float32)))


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["model.hl", "narrow.npy", "-o", "c.npy"], 1, "narrow.npy has 2 features, model.hl was fitted on 6."),
        (["X.npy", "X.npy", "-o", "c.npy"], 1, "X.npy"),
        (["none.hl", "X.npy", "-o", "c.npy"], 1, "none.hl"),
        (["model.hl", "X.npy", "-o", "c.txt"], 1, "c.txt must end in .npy or .npz."),
        (["model.hl", "X.npy", "-o", "X.npy"], 2, "X.npy is read by this command"),
        (["model.hl", "X.npy", "-o", "c.npy", "--format", "bits", "--bit-order", "little"], 2, "for packed codes only"),
        (["model.hl", "X.npy", "-o", "c.npy", "--format", "hex"], 2, "--format"),
        (["model.hl", "X.npy"], 2, "--output"),
        (["model.hl", "nan.npy", "-o", "c.npy"], 1, "nan.npy: row 3 holds NaN or infinity."),
    ],
)
def test_mistakes_are_one_sentence_and_write_nothing(arguments, code, sentence, call, model, folder):
    np.save(folder / "narrow.npy", np.zeros((4, 2)))
    bad = np.zeros((4, 6))
    bad[3] = np.nan
    np.save(folder / "nan.npy", bad)
    before = sorted(folder.iterdir())
    got, out, err = call("encode", *arguments)
    assert (got, out) == (code, "")
    assert err.startswith("hashlearn: ")
    assert sentence in err
    assert err.count("\n") == 1
    assert sorted(folder.iterdir()) == before


@pytest.mark.slow
@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupt_leaves_nothing_behind(sent, code, model, folder):
    # A file of holes: long enough to be caught in the middle, and next to nothing on disk.
    np.lib.format.open_memmap(folder / "long.npy", mode="w+", dtype=np.float32, shape=(60_000_000, 6))
    before = sorted(folder.iterdir())
    process = subprocess.Popen(
        [*COMMAND, "encode", "model.hl", "long.npy", "-o", "c.npy"],
        cwd=folder,
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 30
    while not list(folder.glob(".hashlearn-*.tmp")):
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(sent)
    out, err = process.communicate(timeout=30)
    assert process.returncode == code
    assert out == ""
    assert "Traceback" not in err
    assert sorted(folder.iterdir()) == before
