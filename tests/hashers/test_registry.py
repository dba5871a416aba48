"""A method is one file and one line: the tables hold what the files say."""

import subprocess
import sys
from pathlib import Path

import pytest

import hashlearn as hl
from hashlearn import methods
from hashlearn.hashers.base import BaseHasher
from hashlearn.methods import DEEP_METHODS, GSDHP, METHODS, SDHP, OpenHasher, find_method, method_names

PACKAGE = Path(methods.__file__).parent
OF_OTHER_ROOMS = {GSDHP.__module__, SDHP.__module__, OpenHasher.__module__}


FRAMES = {f"hashlearn.hashers.{name}" for name in ("base", "hub", "in_memory", "sums")}


def test_every_file_of_a_method_has_its_line():
    files = {f"hashlearn.{room}.{path.stem}" for room in ("zoo", "hashers") for path in (PACKAGE / room).glob("*.py")}
    classes = [*METHODS.values(), *methods.COMPOSITIONS]
    listed = {cls.__module__ for cls in classes if cls.__module__.count(".") == 2} - OF_OTHER_ROOMS
    assert listed == {name for name in files if not name.endswith("__init__")} - FRAMES
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
    code = "import sys, hashlearn.methods; print([m for m in sys.modules if m.startswith(('torch', 'hashlearn.deep'))])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_components_of_a_method_come_from_its_own_file():
    named = [(method, part) for method in METHODS.values() for part in method.info.components]
    assert len(named) >= 4
    for method, part in named:
        assert part.__module__ == method.__module__


def test_only_public_names_are_listed():
    names = [name for name in dir(hl) if not name.startswith("__")]
    assert {"Any", "TYPE_CHECKING", "import_module"}.isdisjoint(names)
    assert not [name for name in names if name.startswith("_")]
    assert {"AutoHasher", "Collection", "Index", "codes", "load"} <= set(names)
    assert {"query_figures", "take_ids", "warns_of_filters"}.isdisjoint({*dir(hl.Collection), *dir(hl.AsyncCollection)})


def test_a_mistyped_name_gets_the_one_that_was_probably_meant():
    with pytest.raises(AttributeError, match=r"no attribute 'GSDPH': use GSDHP$"):
        hl.GSDPH  # noqa: B018
    with pytest.raises(AttributeError, match=r"no attribute 'nothing_like_it'$"):
        hl.nothing_like_it  # noqa: B018
