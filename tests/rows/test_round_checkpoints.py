"""Fits in rounds: as many passes as is said, and a fit that stopped goes on without making finished ones again."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from chunk_data import Chunks, MemoryPart, assert_same, rows_and_classes
from sklearn.base import clone

import hashlearn as hl
from hashlearn.files import FileError
from hashlearn.progress import listening
from hashlearn.rows import Source, survey
from hashlearn.zoo.bases.rounds import Rounds

N_ROWS = 5000
RELEVANCE = np.random.default_rng(2).random((10, 10))
# The last part: the phase in which the fit is to fail.
FITS = {
    "sdh": (hl.SDH(20, n_landmarks=50, random_state=0), "round 2"),
    "fsdh-gui": (hl.methods.FSDHGui(20, n_landmarks=50, random_state=0), "round 3"),
    "ksdh": (hl.KSDH(20, n_landmarks=50, random_state=0), "round 2"),
    "adgh": (hl.ADGH(20, n_landmarks=50, random_state=0), "start codes"),
    "dserh": (hl.DSeRH(12, n_samples=None, class_relevance=RELEVANCE, max_iter=6, random_state=0), "round 4"),
    "dserh sample": (hl.DSeRH(12, n_samples=600, random_state=0), "take rows"),
    "aibc": (hl.AIBC(20, kernel=None, max_iter=4, random_state=0), "round 2, queries"),
    "cosdish": (hl.COSDISH(12, n_landmarks=50, random_state=0), "add up codes"),
    "lfh": (hl.LFH(12, max_iter=5, random_state=0), "move rows"),
    "tsh": (hl.TSH(8, n_landmarks=50, n_partners=10, random_state=0), "margins 2"),
    "aibc database": (hl.AIBC(20, kernel=None, max_iter=4, random_state=0), "round 2, database"),
}


@pytest.fixture(autouse=True)
def small_ranges(monkeypatch):
    monkeypatch.setattr(survey, "RANGE_BLOCKS", 1)


@pytest.fixture(scope="module")
def data():
    X, y = rows_and_classes(N_ROWS)
    return X, np.where(np.arange(N_ROWS) % 9 == 0, np.nan, y)


class Counted(MemoryPart):
    """Rows that count how many of them are read, and cannot be read once they are told so."""

    def __init__(self, array, shared=None):
        super().__init__(array)
        self.shared = shared if shared is not None else {"read": 0, "broken": False}

    def read(self, start, stop):
        if self.shared["broken"]:
            raise FileError("a disk failed")
        # Single rows tell data apart and are landmarks.
        self.shared["read"] += stop - start if stop - start > 1 else 0
        return super().read(start, stop)

    def slice(self, start, stop):
        return Counted(self.array[start:stop], self.shared)


def counted(X, y):
    part = Counted(X)
    return part.shared, Source(part, y)


@pytest.mark.parametrize(
    "name", [name if name in ("sdh", "adgh") else pytest.param(name, marks=pytest.mark.slow) for name in FITS]
)
def test_only_what_was_left_is_read(name, data, tmp_path):
    model, phase = FITS[name]
    whole, source = counted(*data)
    expected = clone(model).set_params(n_jobs=1).fit_chunks(source)
    assert_same(expected, clone(model).fit(*data))
    first, source = counted(*data)

    def fail(now, done, total):
        # After half of the pass, so that codes are half changed.
        first["broken"] |= now == phase and done >= total / 2

    with listening(fail), pytest.raises(FileError, match="a disk failed"):
        clone(model).set_params(n_jobs=1).fit_chunks(source, checkpoint=tmp_path / "point")
    finished = first["read"] // N_ROWS
    assert finished >= 1
    second, source = counted(*data)
    fitted = clone(model).set_params(n_jobs=1).fit_chunks(source, checkpoint=tmp_path / "point")
    assert_same(expected, fitted)
    assert second["read"] <= whole["read"] - finished * N_ROWS
    assert not (tmp_path / "point").exists()


@pytest.mark.parametrize(
    ("name", "passes"),
    [
        ("sdh", lambda fitted: 3 + (len(fitted.objective_) - 1) // 3),
        ("ksdh", lambda fitted: 2 + fitted.n_iter_),
        ("adgh", lambda fitted: 3 + fitted.n_iter_),
        ("aibc", lambda fitted: 4 + 2 * (len(fitted.objective_) - 1) // 4),
        ("dserh sample", lambda fitted: 2),
        ("dserh", lambda fitted: 7 + (len(fitted.objective_) - 1) // 2),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_rows_are_read_as_often_as_is_said(name, passes, data):
    read, source = counted(data[0], np.arange(N_ROWS) % 10)
    fitted = clone(FITS[name][0]).set_params(n_jobs=1).fit_chunks(source, codes=False)
    if name == "dserh":  # steps taken back are passes as well
        assert passes(fitted) - 4 <= read["read"] / N_ROWS <= passes(fitted)
    else:
        assert read["read"] == passes(fitted) * N_ROWS


@pytest.mark.parametrize(
    ("model", "labels", "sentence"),
    [
        (hl.KSDH(20, n_landmarks=9), np.arange(N_ROWS) % 10, "9 features for 20 bits"),
        (hl.ADGH(20, n_landmarks=9), np.arange(N_ROWS) % 10, "9 features for 20 bits"),
        (hl.ADGH(4), 1 - np.eye(3, dtype=int)[np.arange(N_ROWS) % 3], "one class per row"),
        (hl.DSeRH(4, class_relevance=np.eye(3)), np.arange(N_ROWS) % 10, "class_relevance must have"),
    ],
    ids=["ksdh", "adgh", "adgh sets", "dserh"],
)
def test_what_cannot_be_learned_is_said_after_the_first_pass(model, labels, sentence, data):
    read, source = counted(data[0], labels)
    with pytest.raises(ValueError, match=sentence):
        model.fit_chunks(source)
    assert read["read"] == N_ROWS


@pytest.mark.parametrize("after", range(6, 10))
def test_dserh_stopped_after_any_pass(after, data, tmp_path, monkeypatch):
    """Also after one that is taken back afterwards."""
    model = clone(FITS["dserh"][0])
    undone = []
    undo = Rounds.undo
    monkeypatch.setattr(Rounds, "undo", lambda self: (undone.append(self._n_passes), undo(self)))
    expected = clone(model).fit(*data)
    assert set(undone) & {6, 7, 8, 9}
    run, made = Rounds.run, []

    def stopping(self, *args):
        if len(made) == after:
            raise RuntimeError("stop")
        made.append(1)
        return run(self, *args)

    monkeypatch.setattr(Rounds, "run", stopping)
    with pytest.raises(RuntimeError, match="stop"):
        clone(model).fit_chunks(*data, checkpoint=tmp_path / "point")
    monkeypatch.setattr(Rounds, "run", run)
    assert_same(expected, clone(model).fit_chunks(*data, checkpoint=tmp_path / "point"))


def test_a_stream_is_iterated_for_what_was_left_alone(data, tmp_path):
    class Iterated(Chunks):
        times = 0

        def __iter__(self):
            self.times += 1
            yield from super().__iter__()

    def stop(phase, done, total):
        if phase == "round 2":
            raise RuntimeError("stop")

    model = hl.SDH(20, n_landmarks=50, random_state=0)
    with listening(stop), pytest.raises(RuntimeError, match="stop"):
        clone(model).fit_chunks(Iterated(*data, 900), checkpoint=tmp_path / "point")
    again = Iterated(*data, 900)
    fitted = clone(model).fit_chunks(again, checkpoint=tmp_path / "point")
    rounds = (len(fitted.objective_) - 1) // 3
    # To see the first chunk, to count the rows, the rounds from the second on, and to hash rows without labels.
    assert again.times == 2 + (rounds - 1) + 1
    assert_same(clone(model).fit(*data), fitted)


KILLED = """
import os, signal, sys
import numpy as np
import hashlearn as hl
from hashlearn.progress import listening

def kill(phase, done, total):
    if phase == "rounds" and done == 2:
        os.kill(os.getpid(), signal.SIGKILL)

with listening(kill):
    hl.KSDH(20, n_landmarks=50, random_state=0).fit_chunks("x.npy", "y.npy", checkpoint="point")
"""


@pytest.mark.slow
def test_a_killed_process(data, tmp_path):
    X, y = data
    for name, array in (("x", X), ("y", y)):
        np.save(tmp_path / f"{name}.npy", array)
    folder = str(Path(hl.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([folder, os.environ.get("PYTHONPATH", "")])}
    child = subprocess.run([sys.executable, "-c", KILLED], cwd=tmp_path, env=environment, timeout=300)
    assert child.returncode == -signal.SIGKILL
    assert (tmp_path / "point" / "rounds-2.npz").exists()
    phases = set()
    model = hl.KSDH(20, n_landmarks=50, random_state=0)
    before = os.getcwd()
    try:
        os.chdir(tmp_path)
        with listening(lambda phase, done, total: phases.add(phase)):
            fitted = clone(model).fit_chunks("x.npy", "y.npy", checkpoint="point")
    finally:
        os.chdir(before)
    assert "round 3" in phases
    assert not phases & {"survey rows", "add up rows", "round 1", "round 2"}
    assert_same(clone(model).fit(X, y), fitted)


def test_a_pass_that_is_damaged_and_deleted_is_made_again(data, tmp_path):
    def stop(phase, done, total):
        if phase == "round 2":
            raise RuntimeError("stop")

    model = hl.SDH(20, n_landmarks=50, random_state=0)
    with listening(stop), pytest.raises(RuntimeError, match="stop"):
        clone(model).fit_chunks(*data, checkpoint=tmp_path / "point")
    damaged = tmp_path / "point" / "rounds-1.npz"
    damaged.write_bytes(b"PK")
    with pytest.raises(FileError, match=r"rounds-1\.npz is damaged .* Delete it to do its pass again"):
        clone(model).fit_chunks(*data, checkpoint=tmp_path / "point")
    damaged.unlink()
    assert_same(clone(model).fit(*data), clone(model).fit_chunks(*data, checkpoint=tmp_path / "point"))
