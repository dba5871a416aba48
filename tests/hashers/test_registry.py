"""A method is one file and one line: the tables hold what the files say."""

import subprocess
import sys
from pathlib import Path

import pytest

from hashlearn import hashers
from hashlearn.fitting.base import BaseHasher
from hashlearn.hashers import DEEP_METHODS, METHODS, find_method, method_names

PACKAGE = Path(hashers.__file__).parents[1]


def test_every_file_of_a_method_has_its_line():
    files = {path.stem for path in (PACKAGE / "hashers").glob("*.py")} - {"__init__"}
    compositions = {cls.__module__.rpartition(".")[2] for cls in hashers.COMPOSITIONS}
    assert {cls.__module__.rpartition(".")[2] for cls in METHODS.values()} | compositions == files
    files = {path.stem for path in (PACKAGE / "deep" / "hashers").glob("*.py")} - {"__init__", "base"}
    assert {place.partition(":")[0].rpartition(".")[2] for place in DEEP_METHODS.values()} == files


@pytest.mark.parametrize("name", method_names())
def test_the_table_uses_the_name_that_the_method_gives_itself(name):
    method = find_method(name)
    assert issubclass(method, BaseHasher)
    assert method.info.name == name
    assert "info" in vars(method)


@pytest.mark.slow
def test_the_table_imports_no_deep_method():
    code = "import sys, hashlearn.hashers; print([m for m in sys.modules if m.startswith(('torch', 'hashlearn.deep'))])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_components_of_a_method_come_from_its_own_file():
    named = [(method, part) for method in METHODS.values() for part in method.info.components]
    assert len(named) >= 4
    for method, part in named:
        assert part.__module__ == method.__module__
