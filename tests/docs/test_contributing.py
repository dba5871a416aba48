"""What CONTRIBUTING.md and the workflows tell people to run is there."""

import os
import re
import subprocess
import sys
import tomllib

import pytest
from test_pages import PAGES, ROOT

import hashlearn

GUIDE = (ROOT / "CONTRIBUTING.md").read_text()
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def make_targets():
    return set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))


def test_every_make_target_that_is_named_exists():
    texts = [GUIDE, *(path.read_text() for path in WORKFLOWS)]
    lines = [words for text in texts for words in re.findall(r"make ((?:[a-z]+ ?)+)(?:`|\s*#|$)", text, re.MULTILINE)]
    named = {word for line in lines for word in line.split()}
    assert {"quick", "test", "lint", "types"} <= named
    assert named <= make_targets()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_path_that_is_named_exists(page):
    text = page.read_text()
    named = re.findall(r"`(?:python (?:-m pytest )?)?((?:src|tests|docs|benchmarks|examples)/[\w./-]*)", text)
    named += re.findall(r"^ +python (benchmarks/\S+)", text, flags=re.MULTILINE)
    assert page.name != "CONTRIBUTING.md" or len(named) > 5
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_the_workflow_tests_every_python_that_the_package_is_for():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = [c.rpartition(" ")[2] for c in project["classifiers"] if re.search(r":: 3\.\d+$", c)]
    tests = (ROOT / ".github" / "workflows" / "tests.yml").read_text()
    (matrix,) = re.findall(r"python: \[(.+)\]", tests)
    assert re.findall(r"[\d.]+", matrix) == named
    assert project["requires-python"] == f">={named[0]}"


def test_a_release_is_published_when_all_is_built_and_its_tag_names_the_version():
    text = (ROOT / ".github" / "workflows" / "wheels.yml").read_text()
    jobs = dict(re.findall(r"^  (\w+):\n((?:    .*\n|\n)+)", text.partition("\njobs:\n")[2], re.MULTILINE))
    publish = jobs.pop("publish")
    assert f"needs: [{', '.join(jobs)}]" in publish
    assert "id-token: write" in publish
    assert "secrets." not in text
    (check,) = re.findall(r"run: (test .+)", publish)
    for tag, code in ((f"v{hashlearn.__version__}", 0), ("v9.9.9", 1)):
        assert (
            subprocess.run(["sh", "-c", check], cwd=ROOT, env={**os.environ, "GITHUB_REF_NAME": tag}).returncode == code
        )


@pytest.mark.slow
def test_quick_starts_no_server_and_no_browser():
    tests = ["tests/collection/test_conformance.py", "tests/service/test_explorer_parts.py"]
    command = [sys.executable, "-m", "pytest", "-q", "--collect-only", "-p", "no:cacheprovider"]
    chosen = {}
    for kind in ("slow", "not slow"):
        done = subprocess.run([*command, "-m", kind, "-vv", *tests], cwd=ROOT, capture_output=True, text=True)
        chosen[kind] = done.stdout
    for name in ("milvus", "postgres", "test_explorer_parts"):
        assert name in chosen["slow"]
        assert name not in chosen["not slow"]
    assert "embedded" in chosen["not slow"]
