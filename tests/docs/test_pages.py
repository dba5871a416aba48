"""The pages say what the code does: their code runs, their tables are up to date, their links lead somewhere."""

import re
from pathlib import Path

import numpy as np
import pytest

from hashlearn.cli.methods import markdown_table
from hashlearn.hashers import METHODS

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "docs" / "examples"
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


def python_blocks(page):
    return re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL)


def test_the_new_method_of_the_page_works():
    method, use = python_blocks(ROOT / "docs" / "adding-a-method.md")
    assert len(method.strip().splitlines()) < 60
    space: dict = {}
    exec(method, space)
    exec(use, space)
    hasher, X, y = space["hasher"], space["X"], space["y"]
    assert hasher.score(X[1200:], y[1200:]) > 0.8
    assert len(np.unique(hasher.codes_, axis=0)) == 10


def test_the_readme_examples_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    first, second = python_blocks(ROOT / "README.md")
    assert len(first.strip().splitlines()) <= 12
    space: dict = {}
    exec(first, space)
    assert space["scores"].map > 0.9
    exec(second, space)
    assert (space["y"][space["hits"].ids] >= 3).all()
    space["shop"].close()


@pytest.fixture(scope="module")
def begun():
    """The names that the first block of the guide makes: it fits, so it runs once."""
    space: dict = {}
    exec(python_blocks(ROOT / "docs" / "guide.md")[0], space)
    return space


@pytest.mark.parametrize("number", range(1, len(python_blocks(ROOT / "docs" / "guide.md"))))
def test_the_guide_runs(number, begun, tmp_path, monkeypatch):
    """Each block on its own, after the first one, which makes the data."""
    monkeypatch.chdir(tmp_path)
    space = dict(begun)
    exec(python_blocks(ROOT / "docs" / "guide.md")[number], space)
    assert space["X"].shape[0] == space["y"].shape[0]


def test_the_table_of_methods_is_up_to_date():
    assert markdown_table() in (ROOT / "docs" / "methods.md").read_text()
    assert len(METHODS) >= 4


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    prose = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", prose):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target


@pytest.mark.slow
@pytest.mark.parametrize(
    "page", sorted(set(EXAMPLES.glob("*.md")) - {EXAMPLES / "index.md"}), ids=lambda page: page.stem
)
def test_examples_run(page, tmp_path, monkeypatch):
    """All blocks of a page, in order, in an empty folder; every page checks what it claims."""
    monkeypatch.chdir(tmp_path)
    blocks = python_blocks(page)
    assert "assert " in "".join(blocks)
    space: dict = {"__name__": page.stem}
    for block in blocks:
        exec(block, space)
