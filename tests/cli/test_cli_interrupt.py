"""Ctrl-C on the real command: exit code 130 and nothing written, or what is learned so far where that is asked for."""

import json
import os
import re
import signal
import subprocess

import numpy as np
import pytest
from real_command import COMMAND, ENVIRONMENT, ROOT

from hashlearn import files
from hashlearn.models import load

pytestmark = pytest.mark.slow

# Runs in the child before anything else: reports where it is by a pipe, and waits there for Ctrl-C.
AT_STEP = """
import os
import hashlearn.progress as progress

original = progress.report

def report(phase, done, total, note=None):
    original(phase, done, total, note)
    if phase == "bits" and done == 3:
        {first}
        os.write({pipe}, b"x")
        {wait}

progress.report = report
"""
AT_IMPORT = """
import os, sys, time

class Slow:
    def find_spec(self, name, path=None, target=None):
        if name == "{name}":
            os.write({pipe}, b"x")
            try:
                time.sleep(60)
            except BaseException:
                # As compiled modules do.
                raise ImportError("numpy.core.multiarray failed to import")

sys.meta_path.insert(0, Slow())
"""
SLEEP = "import time; time.sleep(60)"
KILL_FIRST = "import signal; os.kill(os.getpid(), signal.SIGINT)"
# The handler of steps gives way to the usual one when it has heard Ctrl-C.
UNTIL_HEARD = "import signal, time\n        while signal.getsignal(signal.SIGINT).__name__ == 'stop': time.sleep(0.01)"


def at_step(wait, first="pass"):
    return AT_STEP.replace("{first}", first).replace("{wait}", wait)


@pytest.fixture
def data(tmp_path):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 200)
    np.save(tmp_path / "X.npy", rng.normal(size=(3, 6))[y] + rng.normal(size=(200, 6)))
    np.save(tmp_path / "y.npy", y)
    return tmp_path


FIT = ["fit", "X.npy", "-y", "y.npy", "--method", "ksh", "--bits", "12", "--codes-out", "c.npy", "-o", "m.hl"]


def interrupted(folder, site, arguments):
    """The command, sent SIGINT when the code in ``site`` says that it is there: exit code, output, messages."""
    reads, writes = os.pipe()
    code = folder / "site"
    code.mkdir()
    (code / "sitecustomize.py").write_text(site.replace("{pipe}", str(writes)))
    try:
        process = subprocess.Popen(
            [*COMMAND, *arguments],
            cwd=folder,
            env={**ENVIRONMENT, "PYTHONPATH": os.pathsep.join([str(code), str(ROOT)])},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            pass_fds=[writes],
        )
        os.close(writes)
        assert os.read(reads, 1) == b"x", process.communicate(timeout=30)[1]
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        os.close(reads)
    return process.returncode, out, err


@pytest.mark.parametrize("option", [[], ["--keep-partial"]], ids=["plain", "keep-partial twice"])
def test_an_interrupted_fit_writes_nothing(option, data):
    """With --keep-partial too, where the second Ctrl-C comes inside the step."""
    site = at_step(SLEEP, KILL_FIRST) if option else at_step(SLEEP)
    code, out, err = interrupted(data, site, [*FIT, *option])
    assert (code, out) == (130, "")
    assert err.endswith("hashlearn: interrupted.\n")
    assert ("so nothing is written" in err) == bool(option)
    assert "Traceback" not in err
    assert not (data / "m.hl").exists()
    assert not (data / "c.npy").exists()
    assert not list(data.glob(".*"))


@pytest.mark.parametrize("form", [[], ["--json"]], ids=["text", "json"])
def test_keep_partial_saves_what_is_learned_and_says_how_much(form, data):
    code, out, err = interrupted(data, at_step(UNTIL_HEARD), [*FIT, "--keep-partial", *form])
    assert code == 0, err
    assert err == "hashlearn: warning: Stopped by Ctrl-C after 3 of 12 steps (bits); keeping what is learned.\n"
    if form:
        assert json.loads(out)["partial"] == [{"phase": "bits", "done": 3, "total": 12}]
    else:
        assert re.search(r"^partial +3 of 12 steps \(bits\)$", out, re.MULTILINE)
    hasher = load(data / "m.hl")
    weights = hasher.function_.weights_
    assert weights[:, :3].any(axis=0).all()
    assert not weights[:, 3:].any()
    assert files.read_codes(data / "c.npy").codes.shape == (200, 2)


def test_a_whole_fit_says_nothing_of_it(data):
    done = subprocess.run(
        [*COMMAND, *FIT, "--keep-partial", "--json"], cwd=data, env=ENVIRONMENT, capture_output=True, timeout=120
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert "partial" not in json.loads(done.stdout)


def test_a_checkpoint_needs_no_partial_fit(data):
    done = subprocess.run(
        [
            *COMMAND,
            "fit",
            "X.npy",
            "-y",
            "y.npy",
            "--method",
            "ksdh",
            "-o",
            "m.hl",
            "--checkpoint",
            "p",
            "--keep-partial",
        ],
        cwd=data,
        env=ENVIRONMENT,
        capture_output=True,
        timeout=120,
        text=True,
    )
    assert done.returncode == 2
    assert done.stderr.endswith("give that or --keep-partial, not both.\n")
    assert not (data / "p").exists()


@pytest.mark.parametrize("name", ["typer", "numpy", "sklearn.base"])
def test_ctrl_c_during_start_up(name, data):
    """Whatever is being imported, in the command line itself or in what it imports for a command."""
    code, out, err = interrupted(data, AT_IMPORT.replace("{name}", name), FIT)
    assert (code, out, err) == (130, "", "hashlearn: interrupted.\n")
