"""The hostile trial of benchmarks/, in small: what it prints is true, and it would notice what it looks for."""

import argparse
import json
import runpy
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from hashlearn.collection.stores.embedded.tables import VectorTable

pytestmark = pytest.mark.slow
SCRIPT = Path(__file__).parents[2] / "benchmarks" / "hostile.py"


def test_the_command_finds_nothing_lost_and_nothing_silent():
    command = [sys.executable, str(SCRIPT), "--trials", "kills", "flips", "--kills", "6", "--flips", "45", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(done.stdout)
    assert told["kills"]["kills"] == 6
    assert told["kills"]["acknowledged"] > 0
    assert told["kills"]["lost"] == told["kills"]["damaged"] == 0
    assert told["flips"]["flips"] == told["flips"]["said"] + told["flips"]["harmless"] == 45
    assert told["flips"]["said"] > 20


def test_random_requests_get_answers():
    pytest.importorskip("uvicorn")
    command = [sys.executable, str(SCRIPT), "--trials", "fuzz", "--requests", "200", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(done.stdout)["fuzz"]
    assert told["requests"] == told["answered"] + told["refused"] == 200
    assert told["answered"] > 30
    assert told["refused"] > 30


def test_it_would_notice_vectors_without_checksums(monkeypatch):
    """The most frequent silent damage if vectors had no checksums."""

    def unguarded(self, moment, ids):
        rows = moment.db.execute("SELECT id, floats FROM vector ORDER BY id").fetchall()
        kept = {number: np.frombuffer(floats, "<f4") for number, floats in rows}
        return np.stack([kept[number] for number in ids.tolist()]).reshape(len(ids), -1)

    monkeypatch.setattr(VectorTable, "read", unguarded)
    space = runpy.run_path(str(SCRIPT))
    outcome = space["flips"](argparse.Namespace(seed=0, flips=60), time.monotonic() + 60)
    assert outcome.figures["silent"] > 0
    assert not outcome.good
