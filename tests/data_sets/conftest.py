"""What the tests of data sets share."""

import os
from pathlib import Path

import pytest

import hashlearn

ROOT = Path(hashlearn.__file__).parents[2]


@pytest.fixture(autouse=True)
def no_data_of_the_machine(tmp_path, monkeypatch):
    """A test must not find, nor fill, the real cache."""
    monkeypatch.delenv("HASHLEARN_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "cache"))


@pytest.fixture(scope="session")
def shared_data():
    """The project's folder of real data, which not every machine has."""
    folder = Path(os.environ.get("HASHLEARN_SHARED_DATA") or ROOT.parent / "shared" / "data")
    if not (folder / "cifar10_gist512.npz").exists():
        pytest.skip(f"no shared data in {folder}: set HASHLEARN_SHARED_DATA")
    return folder


@pytest.fixture
def call(tmp_path, monkeypatch, capsys):
    """The command line inside this process: (exit code, standard output, standard error)."""
    from hashlearn.cli import main

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    def call_main(*arguments):
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call_main
