"""Parameters known by content: the same text in every process, another one for another value."""

import functools
import os
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from chunk_data import hasher, label_sets, rows_and_classes
from scipy import sparse
from sklearn.linear_model import LogisticRegression

import hashlearn as hl
from hashlearn.rows.checkpoint import content_hash

VALUES = """
import functools
import numpy as np
from dataclasses import dataclass
from sklearn.linear_model import LogisticRegression

def closed(power):
    def inner(s, u):
        return inner if power is None else np.abs(s - u) ** power
    return inner

def known(s, u, names=("a", "b")):
    return s - u if s in {"one", "two", "three"} else [k for k in names]

class Loss:
    def __init__(self, margin):
        self.margin = margin
    def __call__(self, s, u):
        return np.maximum(0, self.margin - s * u)
    def method(self, s, u):
        return s

@dataclass(slots=True)
class Slotted:
    width: int = 3

@functools.lru_cache
def cached(s):
    return s + 1

VALUES = [
    64, 0.1, "ksh", None, [1, (2, 3)], {"b": {"x", "y", "z"}, "a": 2}, np.arange(5), len, np.maximum, np.linalg.norm,
    known, closed(2), closed(None), functools.partial(known, 3, u=4), lambda s, u: s + u, Loss(1.0), Loss(1.0).method,
    LogisticRegression(C=3.0), LogisticRegression, Slotted(4), cached, np.random.RandomState(3), range(3),
]
"""


def child(folder, program, **environment):
    """What a program prints, run in a process of its own in that folder."""
    home = str(Path(hl.__file__).parents[1])
    path = os.pathsep.join([home, os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path, **environment},
        timeout=300,
        capture_output=True,
        text=True,
    )


@pytest.mark.slow
def test_the_same_in_every_process(tmp_path):
    (tmp_path / "values.py").write_text(VALUES)
    program = (
        "from values import VALUES\n"
        "from hashlearn.rows.checkpoint import content_hash\n"
        "print([content_hash(value) for value in VALUES])"
    )
    texts = [child(tmp_path, program, PYTHONHASHSEED=seed) for seed in "123"]
    assert texts[0].stdout, texts[0].stderr
    assert texts[0].stdout == texts[1].stdout == texts[2].stdout
    assert "0x" not in texts[0].stdout


class Margin:
    def __init__(self, margin):
        self.margin = margin

    def __call__(self, s, u):
        return self.margin - s * u


@dataclass(slots=True)
class Slotted:
    width: int = 3


def closed(power):
    return lambda s, u: np.abs(s - u) ** power


def one(s, u, scale=1.0):
    return scale * (s - u)


other = {}
exec("def one(s, u, scale=1.0):\n    return scale * (s + u)", {"__name__": __name__}, other)
large = np.zeros(5000)
changed = large.copy()
changed[2500] = 1.0


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (one, other["one"]),
        (closed(2), closed(3)),
        (functools.partial(one, scale=2.0), functools.partial(one, scale=3.0)),
        (lambda s, u: s * u, lambda s, u: s + u),
        (Margin(1.0), Margin(2.0)),
        (Margin(1.0).__call__, Margin(2.0).__call__),
        (LogisticRegression(C=1.0), LogisticRegression(C=2.0)),
        (Slotted(3), Slotted(4)),
        (large, changed),
        (large, large.astype(np.float32)),
        (sparse.csr_matrix(large), sparse.csr_matrix(changed)),
        (np.array([None, 1]), np.array([None, 2])),
        (1, True),
        ("1", 1),
        ([1, 2], [[1], 2]),
        (range(3), range(4)),
        (np.maximum, np.minimum),
        (max, min),
        ([1].append, [2].append),
    ],
    ids=lambda value: type(value).__name__,
)
def test_another_value_has_another_text(first, second):
    assert content_hash(first) != content_hash(second)
    assert content_hash(first) == content_hash(first)


def test_what_cannot_be_known_again_is_refused(tmp_path):
    lock = threading.Lock()

    def loss(s, u):
        with lock:
            return (s - u) ** 2

    X, y = rows_and_classes(300)
    sentence = (
        r"must know loss=<function .*loss at .*> again in another process, but its content cannot be seen: .*lock"
    )
    with pytest.raises(TypeError, match=sentence):
        hasher(loss=loss).fit_chunks(X, y, checkpoint=tmp_path / "point")
    assert not (tmp_path / "point").exists()
    endless = []
    endless.append(endless)
    with pytest.raises(TypeError, match="refers to itself"):
        content_hash(endless)


KILLED = """
import os, signal
import hashlearn as hl
from hashlearn.progress import listening
from mine import settings

def kill(phase, done, total):
    if phase == KILLED_IN and done >= total / 2:
        os.kill(os.getpid(), signal.SIGKILL)

with listening(kill):
    hl.GSDHP(8, n_landmarks=40, n_anchors=60, n_jobs=1, random_state=0, **settings()).fit_chunks(
        "x.npy", "y.npy", checkpoint="point", codes="codes.npy"
    )
print("done")
"""

MINE = {
    "loss": """
def my_loss(s, u):
    return (s - u / 8) ** 2

def settings():
    return {"loss": my_loss}
""",
    "relevance": """
import numpy as np

def settings():
    scale = np.float64(2.0)
    return {"relevance": lambda a, b: scale * (a @ b.T)}
""",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["loss", "relevance"])
def test_a_killed_fit_goes_on_in_another_process(name, tmp_path):
    X = rows_and_classes(5000)[0]
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "y.npy", label_sets(5000))
    (tmp_path / "mine.py").write_text(MINE[name])
    first = child(tmp_path, KILLED.replace("KILLED_IN", "'code rows'"))
    assert (first.returncode, first.stdout) == (-9, ""), first.stderr
    saved = sorted(file.name for file in (tmp_path / "point").iterdir())
    assert len(saved) > 1
    # A function of the same name that does something else belongs to another run.
    (tmp_path / "mine.py").write_text(MINE[name].replace("8", "9").replace("2.0", "3.0"))
    refused = child(tmp_path, KILLED.replace("KILLED_IN", "None"))
    assert "holds a checkpoint of another run (parameters differ)" in refused.stderr
    (tmp_path / "mine.py").write_text(MINE[name])
    # The first pass is not made again: it would end this process too.
    second = child(tmp_path, KILLED.replace("KILLED_IN", "'survey rows'"))
    assert second.stdout == "done\n", second.stderr
    namespace = {}
    exec(MINE[name], namespace)
    whole = hl.GSDHP(8, n_landmarks=40, n_anchors=60, n_jobs=1, random_state=0, **namespace["settings"]())
    whole.fit(X, label_sets(5000))
    np.testing.assert_array_equal(np.load(tmp_path / "codes.npy"), whole.codes_)
