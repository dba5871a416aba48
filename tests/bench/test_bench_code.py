"""Runs are known by the code that made them: edited methods are run again, and what is older is shown as such."""

import ast
import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

import hashlearn
from bench.conftest import SMALL, Broken
from hashlearn.bench import RunStore, method_code, run_plan, scores_of
from hashlearn.bench.plan import make_plan
from hashlearn.bench.runner import kept_runs
from hashlearn.hashers import METHODS, find_method, method_names

PACKAGE = Path(hashlearn.__file__).parent
CACHES = ("class_code", "module_code", "read_module", "_file_of")


@pytest.fixture
def edit(monkeypatch):
    """Makes this process believe that a file of hashlearn ends in other text."""
    edits: dict[str, str] = {}
    read = method_code.read_text

    def forget():
        for name in CACHES:
            getattr(method_code, name).cache_clear()

    def edit_file(name, text):
        assert (PACKAGE / name).is_file()
        edits[str(PACKAGE / name)] = text
        forget()

    monkeypatch.setattr(method_code, "read_text", lambda path: read(path) + edits.get(str(path), ""))
    yield edit_file
    monkeypatch.undo()
    forget()


def changed(before):
    return {name for name, code in before.items() if method_code.method_code(name) != code}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "methods"),
    [
        ("hashers/itq.py", {"itq", "auto"}),
        ("primitives/cuts.py", {"fasth"}),
        ("codes.py", {"itq", "lsh", "gsdhp", "dch"}),
        ("fitting/base.py", {"itq", "lsh", "gsdhp", "dch"}),
        ("solvers/greedy.py", {"gsdhp"}),
        ("solvers/_flips.c", {"gsdhp"}),
        ("solvers/_processors.h", {"gsdhp"}),
        ("functions/trees.py", {"gsdhp"}),
        ("deep/trainer.py", {"dch"}),
        ("metrics/engine.py", {"dch"}),
    ],
)
def test_an_edit_changes_the_methods_that_run_it(edit, file, methods):
    before = {name: method_code.method_code(name) for name in method_names()}
    edit(file, "\nTWO = 2\n")
    assert changed(before) >= methods
    if file == "hashers/itq.py":
        assert changed(before) == methods
    if file in ("deep/trainer.py", "metrics/engine.py"):
        assert "itq" not in changed(before)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("hashers/itq.py", "\n# A remark.\n"),
        ("hashers/itq.py", '\n"""Words."""\n\n\n'),
        ("hashers/ksh.py", "\nTWO = 2\n"),
        ("metrics/engine.py", "\nTWO = 2\n"),
        ("files/tables.py", "\nTWO = 2\n"),
        ("cli/fit.py", "\nTWO = 2\n"),
        ("bench/runner.py", "\nTWO = 2\n"),
    ],
)
def test_what_cannot_change_a_code_changes_nothing(edit, file, text):
    before = method_code.method_code("itq")
    edit(file, text)
    assert method_code.method_code("itq") == before


@pytest.mark.slow
def test_a_change_of_the_metrics_scores_again_but_trains_nothing(edit, results):
    store = RunStore(results)
    run = store.runs()[0]
    files = set((results / "scores").iterdir())
    scores_of(store, run)
    assert set((results / "scores").iterdir()) == files
    edit("metrics/engine.py", "\nTWO = 2\n")
    scores_of(store, run)
    assert len(set((results / "scores").iterdir()) - files) == 1


def test_normalized_code():
    source = 'def f(a,  b):\n    """Doc."""\n    x = f"{a}#{b}"  # sum\n    return (a +\n            b, "#", x)\n'
    assert method_code.normalized(source) == method_code.normalized(
        'def f(a, b):\n\n    x = f"{a}#{b}"\n    return (a + b, "#", x)\n'
    )
    for other in ('f"{a}# {b}"', 'f"{a}#{a}"'):
        assert method_code.normalized(source.replace('f"{a}#{b}"', other)) != method_code.normalized(source)
    assert method_code.normalized("if a:\n    b()\nc()") != method_code.normalized("if a:\n    b()\n    c()")


def test_the_exceptions_to_the_rule_are_still_needed():
    """The two imports that do not count exist, and no fit of the base class calls what they bring."""
    source = (PACKAGE / "fitting" / "base.py").read_text()
    imports = set(method_code.read_python(source).imports)
    assert {other for _, other in method_code.UNUSED_BY_FITS} <= imports
    users = {
        function.name
        for function in ast.walk(ast.parse(source))
        if isinstance(function, ast.FunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.Name) and node.id == "metrics"
    }
    assert users == {"score"}


@pytest.mark.slow
def test_methods_from_elsewhere_have_a_code_too(broken):
    assert method_code.method_code("broken") != method_code.method_code("lsh")
    space: dict = {"Broken": Broken}
    exec("class Typed(Broken):\n    pass", space)
    space["Typed"].__module__ = "nowhere"
    with pytest.raises(ValueError, match="The source of Typed cannot be read"):
        method_code.class_code(space["Typed"])


def test_every_method_has_a_code_of_its_own():
    codes = {name: method_code.class_code(find_method(name)) for name in METHODS}
    assert len(set(codes.values())) == len(codes)


@pytest.mark.slow
def test_edited_methods_are_run_again_and_older_runs_are_shown_as_older(call, results, edit):
    edit("hashers/itq.py", "\nTWO = 2\n")
    code, out, err = call("bench", "score", results, "--json")
    assert code == 0
    assert {run["method"] for run in json.loads(out)["runs"] if run["stale"]} == {"itq"}
    remark = "4 of 12 runs were made by older code of their methods (itq); 'hashlearn bench run' makes them again."
    assert remark in err
    assert call("bench", "score", results)[1].count("older") == 8
    _, out, err = call("bench", "table", results, "--json")
    assert {row["method"] for row in json.loads(out)["rows"] if row["stale"]} == {"itq"}
    assert remark in err
    code, _, err = call("bench", "run", *SMALL, "--seeds", 2, "-o", "results")
    assert code == 0
    assert "4 runs made, 8 were there already, 0 failed." in err
    assert "4 of them were there, but made by older code of their methods." in err
    _, out, err = call("bench", "table", results, "--json")
    rows = json.loads(out)["rows"]
    assert not any(row["stale"] for row in rows)
    assert {row["seeds"] for row in rows} == {2}
    assert err == ""
    code, out, _ = call("bench", "score", results, "--json")
    assert sum(run["stale"] for run in json.loads(out)["runs"]) == 4


def as_kept_by_version_0_2(folder):
    """The runs of a folder under the names and in the form that hashlearn 0.2 gave them."""
    store = RunStore(folder)
    for run in store.runs():
        old = replace(run, definition=replace(run.definition, code="", hashlearn="0.2.0"), format=1)
        shutil.move(folder / f"{run.key}.npz", folder / f"{old.key}.npz")
        (folder / f"{run.key}.json").unlink()
        store.save(old, None)


def test_the_name_of_an_old_run_is_what_it_was():
    from hashlearn.bench.store import RunDefinition

    old = RunDefinition("digits", "holdout", "holdout", "f" * 64, 0, "itq", "itq", {}, 8, hashlearn="0.2.0")
    assert old.key == "holdout-itq-8b-s0-eeb0bfd22af73ad7"


@pytest.mark.slow
def test_runs_of_version_0_2_are_read_and_made_again(call, results):
    before = json.loads(call("bench", "table", results, "--json")[1])["rows"]
    as_kept_by_version_0_2(results)
    code, out, err = call("bench", "table", results, "--json")
    assert code == 0
    rows = json.loads(out)["rows"]
    assert [row["hashed"] for row in rows] == [row["hashed"] for row in before]
    assert all(row["stale"] for row in rows)
    assert "12 of 12 runs were made by older code" in err
    plan = make_plan("holdout", ["lsh", "itq", "pca-rr"], [8, 16], 2, "digits")
    assert len(kept_runs(plan, results).kept) == 12
    outcome = run_plan(plan, results)
    assert (len(outcome.kept), len(outcome.made), len(outcome.replaced)) == (0, 12, 12)
    assert not any(map(method_code.is_stale, kept_runs(plan, results).kept))
