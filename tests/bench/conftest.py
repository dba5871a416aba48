"""A tiny bench on digits, and the commands that make and read it."""

import shutil

import pytest

from hashlearn.bench import run_plan
from hashlearn.bench.plan import make_plan
from hashlearn.methods import LSH, METHODS

SMALL = ["--protocol", "holdout", "--data", "digits", "--methods", "lsh", "itq", "pca-rr", "--bits", "8", "16"]


class Broken(LSH):
    """A method that cannot learn."""

    def fit(self, X, y=None):
        raise RuntimeError("the moon is\nin the wrong house")


@pytest.fixture
def broken(monkeypatch):
    monkeypatch.setitem(METHODS, "broken", Broken)


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


@pytest.fixture(scope="session")
def made_once(tmp_path_factory):
    """A bench of 3 methods, 2 bit lengths and 2 seeds; tests get copies."""
    folder = tmp_path_factory.mktemp("bench") / "results"
    plan = make_plan("holdout", ["lsh", "itq", "pca-rr"], [8, 16], 2, "digits")
    assert not run_plan(plan, folder).failed
    return folder


@pytest.fixture
def results(made_once, tmp_path):
    shutil.copytree(made_once, tmp_path / "results")
    return tmp_path / "results"
