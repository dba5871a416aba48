"""The demo's numbers, its data, and that it leaves the data as it was."""

import gzip
import json
import os
import shlex
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import hashlearn
from hashlearn import data, metrics
from hashlearn.cli import demo, main
from hashlearn.data import mnist

ROOT = Path(hashlearn.__file__).parents[1]


@pytest.fixture(scope="module")
def result():
    return demo.run_demo(16, 0, data.digits())


@pytest.mark.slow
def test_rows_of_the_comparison(result):
    rows = {row.method: row for row in result.rows}
    assert list(rows) == ["OpenHasher", "AutoHasher", "GSDH_P", "SDH_P", "LSH", "float cosine"]
    assert [row.bytes_per_item for row in result.rows] == [2, 2, 2, 2, 2, 256]
    assert result.chosen.startswith("AutoHasher chose ")
    assert rows["AutoHasher"].map_hashed > rows["float cosine"].map_hashed + 0.1
    assert rows["GSDH_P"].map_hashed > 0.95 > 0.8 > rows["float cosine"].map_hashed
    # Random codes keep much of the floats' order: at chance level (0.1) something would be broken.
    assert 0.2 < rows["LSH"].map_hashed < rows["float cosine"].map_hashed
    assert rows["LSH"].map_learned is None
    assert rows["SDH_P"].map_learned > 0.9
    assert all(row.codes_per_second > 1000 for row in result.rows[:5])


@pytest.mark.slow
def test_lsh_row_equals_the_library(result):
    digits = data.digits()
    hasher = hashlearn.LSH(16, random_state=0).fit(digits.train_X.copy())
    scores = metrics.evaluate(
        hasher.encode(digits.query_X.copy()),
        hasher.encode(digits.train_X.copy()),
        digits.query_y,
        digits.train_y,
        at=None,
    )
    assert result.rows[4].map_hashed == pytest.approx(scores.map)
    assert result.rows[4].precision_at_10 == pytest.approx(scores.precision)


def test_digits_are_split_without_overlap():
    digits = data.digits()
    assert (digits.train_X.shape, digits.query_X.shape) == ((1500, 64), (297, 64))
    assert digits.train_X.max() == 1
    with pytest.raises(ValueError, match="read-only"):
        digits.train_X[0] = 0
    rows = np.concatenate([digits.train_X, digits.query_X])
    from sklearn.datasets import load_digits

    assert sorted(map(tuple, rows.tolist())) == sorted(
        map(tuple, (load_digits().data / 16).astype(np.float32).tolist())
    )


def write_idx(path: Path, array: np.ndarray) -> None:
    header = struct.pack(f">HBB{array.ndim}i", 0, 8, array.ndim, *array.shape)
    path.write_bytes(gzip.compress(header + array.tobytes()))


def test_fashion_mnist_from_debian_files(tmp_path):
    assert not data.fashion_mnist_there(tmp_path)
    with pytest.raises(data.DatasetMissing, match="apt install dataset-fashion-mnist"):
        data.fashion_mnist(folder=tmp_path)
    images = np.arange(5 * 28 * 28, dtype=np.int64).reshape(5, 28, 28).astype(np.uint8)
    for part, count in (("train", 5), ("t10k", 3)):
        write_idx(tmp_path / f"{part}-images-idx3-ubyte.gz", images[:count])
        write_idx(tmp_path / f"{part}-labels-idx1-ubyte.gz", np.arange(count, dtype=np.uint8))
    found = data.fashion_mnist(folder=tmp_path)
    np.testing.assert_allclose(found.train_X, images.reshape(5, -1) / 255, rtol=1e-6)
    assert found.query_y.tolist() == [0, 1, 2]
    few = data.fashion_mnist(2, 1, folder=tmp_path)
    np.testing.assert_array_equal(few.train_X, found.train_X[few.train_y])
    assert len(few.query_X) == 1


@pytest.mark.parametrize(
    ("raw", "sentence"),
    [
        (b"not gzip", "damaged or cut short"),
        (gzip.compress(struct.pack(">HBBi", 0, 8, 1, 9) + b"123", mtime=0), "3 bytes where its header promises 9"),
        (gzip.compress(struct.pack(">HBBi", 0, 13, 1, 0), mtime=0), "not an IDX file of bytes"),
        (gzip.compress(bytes(1000), mtime=0)[:-9], "damaged or cut short"),
    ],
    ids=["no gzip", "too few bytes", "other type", "cut short"],
)
def test_damaged_idx(raw, sentence, tmp_path):
    (tmp_path / "a.gz").write_bytes(raw)
    with pytest.raises(ValueError, match=sentence):
        mnist.read_idx(tmp_path / "a.gz")


@pytest.mark.slow
def test_the_command_prints_json_alone(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "hashlearn", "demo", "--bits", "16", "--json"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["n_bits"] == 16


@pytest.mark.slow
def test_the_next_steps_run_as_printed(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["demo", "--bits", "16", "--save", "d"]) == 0
    table, _, steps = capsys.readouterr().out.partition("What next")
    assert max(map(len, table.splitlines())) <= 80
    assert "MAP: mean average precision over the whole ranking" in table
    commands = [shlex.split(line) for line in steps.splitlines()[1:]]
    assert [words[:2] for words in commands] == [["hashlearn", name] for name in ("fit", "encode", "evaluate")]
    for words in commands:
        assert main(words[1:]) == 0
    assert "MAP@500 " in capsys.readouterr().out
    assert (tmp_path / "d" / "codes.npy.json").exists()
