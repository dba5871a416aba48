"""``hashlearn dedup``: pairs and clusters as files."""

import json
import signal
import subprocess
import sys

import numpy as np
import pytest
from real_command import ENVIRONMENT

import hashlearn as hl
from hashlearn.index import near_duplicates as module

# The command, killed when two of the tasks are done that compare codes.
KILLED = """
import os, signal, sys
from hashlearn.cli import main
from hashlearn.index import near_duplicates as module

def report(phase, done, total, note=None):
    if phase == "near codes" and done == 2:
        os.kill(os.getpid(), signal.SIGKILL)

module.report = report
main(sys.argv[1:])
"""


@pytest.fixture
def codes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    codes = np.random.default_rng(0).integers(0, 256, (400, 8), dtype=np.uint8)
    codes[300:] = codes[:100]
    codes[350:, 0] ^= 1
    np.save("codes.npy", codes)
    return codes


def test_pairs_and_clusters(call, codes, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    code, out, _ = call(
        "dedup", "codes.npy", "--bits", 64, "--radius", 2, "--pairs", "p.parquet", "--clusters", "c.npy", "--json"
    )
    assert code == 0
    found = hl.near_duplicates(codes, 2)
    facts = json.loads(out)
    assert (facts["rows"], facts["pairs"], facts["clusters_of_several"], facts["kept"]) == (400, 100, 100, 300)
    table = parquet.read_table("p.parquet")
    assert table.column_names == ["row", "other", "distance"]
    assert np.column_stack([column.to_numpy() for column in table.columns]).tolist() == found.pairs.tolist()
    np.testing.assert_array_equal(np.load("c.npy"), found.clusters)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["c.npy", "codes.npy", "p.parquet"]


@pytest.mark.slow
def test_a_killed_command_goes_on(call, codes, tmp_path, monkeypatch):
    """A real process, a real SIGKILL; the second run computes only what is missing, and finds the same pairs."""
    command = ["dedup", "codes.npy", "--bits", "64", "--radius", "2", "--pairs", "p.npy", "--jobs", "1"]
    killed = subprocess.run([sys.executable, "-c", KILLED, *command], cwd=tmp_path, env=ENVIRONMENT)
    assert killed.returncode == -signal.SIGKILL
    assert not (tmp_path / "p.npy").exists()
    assert len(list((tmp_path / "p.npy.parts").glob("near-codes-*.npy"))) == 2
    done, work = [], module._near_rows
    monkeypatch.setattr(module, "_near_rows", lambda *a: done.append(1) or work(*a))
    code, _, err = call(*command)
    assert code == 0, err
    assert len(done) == len(module._plan(400, 64, 2).choices) - 2
    np.testing.assert_array_equal(np.load(tmp_path / "p.npy"), hl.near_duplicates(codes, 2).pairs)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["codes.npy", "p.npy"]


def test_bad_use(call, codes):
    code, _, err = call("dedup", "codes.npy", "--bits", 64, "--radius", -1)
    assert code == 2
    assert "--radius" in err
    code, _, err = call("dedup", "codes.npy", "--bits", 64, "--radius", 1, "--pairs", "p.csv")
    assert code != 0
    assert ".parquet or .npy" in err
