"""Without PyTorch everything else works, and what needs it names the extra."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import hashlearn

pytestmark = pytest.mark.slow
ROOT = Path(hashlearn.__file__).parents[1]
SENTENCE = "Deep hashing needs PyTorch: pip install '.[deep]'."
# A finder in front of all others that knows no torch: what an environment without it looks like.
BLOCK = """
import importlib.util, sys
class NoTorch:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "torchvision"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, NoTorch())
find_spec = importlib.util.find_spec
def without(name, package=None):
    return None if name.partition(".")[0] in ("torch", "torchvision") else find_spec(name, package)
importlib.util.find_spec = without
"""


def run(code, folder):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_everything_else_works_and_the_extra_is_named(tmp_path):
    code = (
        BLOCK
        + """
import numpy as np
import hashlearn as hl
try:
    hl.deep
except ImportError as error:
    print(error)
from hashlearn.deep import DCH
hasher = DCH(16)
print(hasher.get_params()["gamma"])
X, y = np.random.default_rng(0).normal(size=(60, 4)), np.arange(60) % 3
for function in (lambda: hasher.fit(X, y), lambda: hl.GSDHP(8, function="network", n_anchors=20).fit(X, y)):
    try:
        function()
    except ImportError as error:
        print(error)
fitted = hl.GSDHP(8, n_anchors=20, n_landmarks=10, random_state=0).fit(X, y)
hl.save(fitted, "model.hl")
print(hl.load("model.hl").encode(X).shape, "torch" in sys.modules)
# The paper's plans name deep methods; making them must not need what only running them does.
from hashlearn.bench.paper.tables import items
print(len(items()["table 3"].parts[0].variants))
"""
    )
    done = run(code, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [SENTENCE, "20.0", SENTENCE, SENTENCE, "(60, 1) False", "14"]


def test_a_deep_model_says_so_when_it_is_used(tmp_path):
    import hashlearn as hl

    X, y = np.random.default_rng(0).normal(size=(60, 4)), np.arange(60) % 3
    hl.save(hl.deep.DCH(8, n_epochs=1, random_state=0).fit(X, y), tmp_path / "model.hl")
    code = (
        BLOCK
        + """
import numpy as np
import hashlearn as hl
hasher = hl.load("model.hl")
print(type(hasher).__name__, hasher.n_bits_)
try:
    hasher.encode(np.zeros((3, 4)))
except ImportError as error:
    print(error)
"""
    )
    done = run(code, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["DCH 8", SENTENCE]


def test_the_command_line(tmp_path):
    np.save(tmp_path / "X.npy", np.random.default_rng(0).normal(size=(60, 4)))
    np.save(tmp_path / "y.npy", np.arange(60) % 3)
    code = (
        BLOCK
        + """
from hashlearn.cli import main
print(main(["methods", "--json"]))
print(main(["fit", "X.npy", "--labels", "y.npy", "--method", "dch", "-o", "m.hl"]))
print(main(["data", "features", ".", "-o", "F.npy"]))
"""
    )
    done = run(code, tmp_path)
    assert done.returncode == 0, done.stderr
    assert '"gsdhp-star"' in done.stdout
    assert done.stdout.splitlines()[-3:] == ["0", "1", "1"]
    assert done.stderr == f"hashlearn: {SENTENCE}\n" * 2


def test_import_is_light(tmp_path):
    done = run("import sys, hashlearn; print('torch' in sys.modules, 'hashlearn.deep' in sys.modules)", tmp_path)
    assert done.stdout == "False False\n", done.stderr
    done = run(
        "import sys, hashlearn as hl; hl.methods.find_method('dch')(16).get_params(); print('torch' in sys.modules)",
        tmp_path,
    )
    assert done.stdout == "False\n", done.stderr
