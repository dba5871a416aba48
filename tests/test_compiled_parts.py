"""Without its compiled parts the package works as before, and says once what takes longer."""

import importlib
import os
import shutil
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

import hashlearn
from hashlearn.compiled import LOSSES

PACKAGE = Path(hashlearn.__file__).parent
BUILT = {name: PACKAGE.joinpath(*name.split(".")[1:]) for name in LOSSES}

CODE = """
import sys
import warnings

import numpy as np

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import hashlearn as hl
    from hashlearn.index import scan
    from hashlearn.pairwise import general, greedy

rng = np.random.default_rng(0)
y = rng.integers(5, size=200)
X = rng.normal(size=(200, 8)) + y[:, None]
for loss in ("ksh", "hinge"):
    hasher = hl.GSDHP(16, loss=loss, n_anchors=50, n_landmarks=20, random_state=0).fit(X, y)
    print(hasher.codes_.tobytes().hex())
index = hl.Index(64)
index.add(rng.integers(0, 256, size=(9000, 8), dtype=np.uint8))
print(index.search(rng.integers(0, 256, size=(3, 8), dtype=np.uint8), 5).ids.tolist())
print(index.search(rng.normal(size=(3, 64)).astype(np.float32), 5).ids.tolist())
print([part is None for part in (greedy._flips, general._slopes, scan._scan)])
for warning in caught:
    if "compiled" in str(warning.message):
        print(warning.category.__name__, warning.message)
"""


def outcome(root):
    environment = {**os.environ, "PYTHONPATH": str(root)}
    done = subprocess.run([sys.executable, "-c", CODE], env=environment, capture_output=True, text=True, cwd=root)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    return lines[:4], lines[4], lines[5:]


@pytest.fixture
def bare(tmp_path):
    """A copy of the package without what was compiled."""
    compiled = [f"*{suffix}" for suffix in EXTENSION_SUFFIXES]
    shutil.copytree(PACKAGE, tmp_path / "hashlearn", ignore=shutil.ignore_patterns("__pycache__", *compiled))
    return tmp_path


@pytest.mark.slow
def test_all_are_missing_one_warning_the_same_results(bare):
    results, missing, warned = outcome(bare)
    assert missing == "[True, True, True]"
    (warning,) = warned
    assert warning.startswith("RuntimeWarning hashlearn runs without its compiled parts")
    for name, loss in LOSSES.items():
        assert name in warning
        assert loss in warning
    assert "install a C compiler" in warning
    assert results == outcome(PACKAGE.parent)[0]


@pytest.mark.slow
def test_a_part_that_cannot_be_loaded_is_named_with_the_reason(bare):
    (bare / "hashlearn" / "pairwise" / f"_flips{EXTENSION_SUFFIXES[-1]}").write_bytes(b"no library")
    _, missing, warned = outcome(bare)
    assert missing == "[True, True, True]"
    (warning,) = [line for line in warned if LOSSES["hashlearn.pairwise._flips"] in line]
    assert "hashlearn.pairwise._flips" in warning
    assert "No module named" not in warning  # the file is there


@pytest.mark.slow
def test_nothing_is_said_where_all_are_built():
    for name, place in BUILT.items():
        if not any(place.with_name(place.name + suffix).exists() for suffix in EXTENSION_SUFFIXES):
            pytest.skip(f"{name} was not built")
        assert importlib.import_module(name)
    _, missing, warned = outcome(PACKAGE.parent)
    assert missing == "[False, False, False]"
    assert warned == []


def test_every_part_has_a_source_and_a_loss():
    sources = {path.with_suffix("") for path in PACKAGE.rglob("*.c")}
    assert sources == set(BUILT.values())
    assert len(set(LOSSES.values())) == len(LOSSES)
