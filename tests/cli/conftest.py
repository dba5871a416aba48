"""The real command in a process of its own, and small files to feed it."""

import subprocess

import numpy as np
import pytest
from real_command import COMMAND, ENVIRONMENT, SMALL


@pytest.fixture
def run(tmp_path):
    """Run ``hashlearn`` in the folder of the test."""

    def run_command(*arguments, **options):
        return subprocess.run(
            [*COMMAND, *map(str, arguments)], cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, **options
        )

    return run_command


@pytest.fixture
def call(tmp_path, monkeypatch, capsys):
    """The same inside this process: (exit code, standard output, standard error)."""
    from hashlearn.cli import main

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")

    def call_main(*arguments):
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call_main


@pytest.fixture
def folder(tmp_path):
    """Three classes that are easy to tell apart: X, y to learn from and Xq, yq to ask with."""
    rng = np.random.default_rng(0)
    centers = rng.normal(scale=4, size=(3, 6))
    for X_name, y_name, count in (("X", "y", 240), ("Xq", "yq", 30)):
        y = rng.integers(0, 3, count)
        np.save(tmp_path / f"{X_name}.npy", (centers[y] + rng.normal(size=(count, 6))).astype(np.float32))
        np.save(tmp_path / f"{y_name}.npy", y)
    return tmp_path


@pytest.fixture
def model(folder, call):
    """A fitted model.hl of 12 bits, and learned.npy with the codes of its training rows."""
    arguments = ["--labels", "y.npy", "--bits", 12, "-o", "model.hl", "--codes-out", "learned.npy"]
    assert call("fit", "X.npy", *arguments, *SMALL)[0] == 0
    return folder / "model.hl"
