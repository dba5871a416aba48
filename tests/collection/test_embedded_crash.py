"""Acknowledged means durable: a real process is killed (SIGKILL) again and again while it adds and deletes."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import hashlearn
from collection.crash_child import BITS, IDS, change_model, code_of
from hashlearn import Collection

KILLS = 60


def state(collection):
    """Ids and versions, once every code and payload has proved to be of that version."""
    found = {}
    for rows in collection.scan(1000):
        for number, code, payload in zip(rows.ids.tolist(), rows.codes, rows.payloads, strict=True):
            found[number] = payload.get("v"), code.tobytes()
    return found


def expected(model):
    ids, versions = np.array(list(model), dtype=np.int64), np.array(list(model.values()), dtype=np.uint64)
    codes = code_of(ids, versions)
    return {n: (model[n] if n % 3 else None, code.tobytes()) for n, code in zip(ids.tolist(), codes, strict=True)}


@pytest.mark.slow
def test_killed_sixty_times_nothing_acknowledged_is_lost(tmp_path):
    folder = tmp_path / "shop"
    Collection.create(folder, n_bits=BITS).close()
    reader = Collection.open(folder, read_only=True)  # open all the time: it must follow what happens
    environment = {**os.environ, "PYTHONPATH": str(Path(hashlearn.__file__).parents[1])}
    victim = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("crash_child.py")), str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
        text=True,
    )
    model, version, in_the_middle = {}, 0, 0
    chance = random.Random(7)
    try:
        for number in range(KILLS):
            victim.stdin.write(f"{number} {version}\n")
            victim.stdin.flush()
            pid, started, lines = 0, None, []
            # Lines are read on until the pipe says that the killed child is gone.
            for line in victim.stdout:
                if line == "end\n":
                    break
                if line.startswith("pid"):
                    pid = int(line.split()[1])
                    continue
                lines.append(line)
                if started is None:
                    started, wait = time.monotonic(), chance.uniform(0, 0.12)
                if pid and time.monotonic() - started > wait:
                    time.sleep(chance.uniform(0, 0.004))
                    os.kill(pid, signal.SIGKILL)
                    pid = 0
            else:
                raise AssertionError("the victim ended on its own")
            possible = [model]
            for line in lines:
                if line.startswith("begin"):
                    version, what, ids = json.loads(line[6:])
                    possible = [possible[-1], change_model(possible[-1], version, what, ids)]
                else:
                    possible = possible[1:]
            in_the_middle += len(possible) > 1
            with Collection.open(folder) as collection:
                found = state(collection)
                assert len(collection) == len(found)
            # All that was acknowledged, and the change under way wholly or not at all.
            fitting = [candidate for candidate in possible if expected(candidate) == found]
            assert fitting, f"kill {number}: {len(found)} rows, expected {[len(p) for p in possible]}"
            model = fitting[0]
            assert state(reader) == found
            assert reader.count({"v": {"exists": True}}) == sum(n % 3 > 0 for n in model)
            query = code_of([5], version)
            assert reader.search(codes=query, k=IDS).ids.max() == max(model, default=-1)
    finally:
        victim.stdin.close()
        victim.wait(timeout=20)
        reader.close()
    assert in_the_middle >= 10, "kills hardly ever came in the middle of a change"
    assert np.unique(list(model)).size > 100
