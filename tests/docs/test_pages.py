"""The pages say what the code does: their code runs, their tables are up to date, their links lead somewhere."""

import re
import shlex
import tomllib
from pathlib import Path

import numpy as np
import pytest

from hashlearn.cli import main
from hashlearn.cli.methods import markdown_table
from hashlearn.methods import COMPOSITIONS, METHODS
from hashlearn.models import COMPONENTS

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


@pytest.mark.slow
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


@pytest.mark.slow
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


def test_the_page_about_model_files_names_every_class():
    text = (ROOT / "docs" / "model-files.md").read_text()
    assert [part.__name__ for part in (*COMPONENTS, *COMPOSITIONS) if part.__name__ not in text] == []


def test_the_page_about_scale_names_every_method_that_learns_from_chunks():
    rows = re.findall(
        r"^\| (.*?) \| .*rounds|^\| (.*?) \| [\dat]", (ROOT / "docs" / "scale.md").read_text(), flags=re.MULTILINE
    )
    named = {re.sub(r"\W", "", name.split(" (")[0]).lower() for row in rows for name in "".join(row).split(", ")}
    assert {re.sub(r"\W", "", name) for name in METHODS if METHODS[name].info.passes} <= named


def anchors(page):
    """The addresses of the headings of a page."""
    prose = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    titles = re.findall(r"^#+ (.*)$", prose, flags=re.MULTILINE)
    plain = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).lower() for title in titles]
    return {re.sub(r"[^\w\- ]", "", title).strip().replace(" ", "-") for title in plain}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    prose = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    for target, anchor in re.findall(r"\]\(([^)#]*)(?:#([^)]*))?\)", prose):
        if not target.startswith("http"):
            found = page.parent / target if target else page
            assert found.exists(), target
            assert not anchor or anchor in anchors(found), f"{target}#{anchor}"


def test_the_gallery_shows_the_picture_of_every_example():
    gallery = (EXAMPLES / "index.md").read_text()
    for page in EXAMPLES.glob("*.md"):
        for picture in re.findall(r"!\[.+\]\((.+)\)", page.read_text()):
            assert f'| <img src="{picture}" width="220" alt=""> | [' in gallery
            assert f"]({page.name})" in gallery


def test_each_section_of_the_readme_fits_on_a_screen():
    """About 30 lines of 130 characters; pictures and code count as they stand."""
    head, *sections = re.split(r"^## ", (ROOT / "README.md").read_text(), flags=re.MULTILINE)
    for section in (head, *sections):
        assert len(section.strip().splitlines()) <= 30, section.splitlines()[0]
        assert max(len(line) for line in section.splitlines()) <= 165


def test_the_badges_say_what_the_package_says():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    versions = re.findall(r":: (3\.\d+)", " ".join(project["classifiers"]))
    assert f">{' | '.join(versions)}</text>" in (ROOT / "docs" / "badge-python.svg").read_text()
    assert f">{project['license']}</text>" in (ROOT / "docs" / "badge-license.svg").read_text()


@pytest.mark.slow
@pytest.mark.parametrize(
    "page", sorted(set(EXAMPLES.glob("*.md")) - {EXAMPLES / "index.md"}), ids=lambda page: page.stem
)
def test_examples_run(page, tmp_path, monkeypatch):
    """All blocks of a page, Python and commands, in order, in an empty folder; every page checks what it claims."""
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```(python|sh)\n(.*?)```", page.read_text(), flags=re.DOTALL)
    assert "assert " in "".join(block for _, block in blocks)
    space: dict = {"__name__": page.stem}
    for language, block in blocks:
        if language == "python":
            exec(compile(block, page.name, "exec"), space)
        else:
            for command in block.splitlines():
                assert main(shlex.split(command, comments=True)[1:]) == 0, command
    pictures = re.findall(r"!\[.+\]\((.+)\)", page.read_text())
    assert pictures or page.stem == "coming-from"  # it compares calls, so there is nothing to draw
    for picture in pictures:
        assert (tmp_path / picture).is_file()
        assert (EXAMPLES / picture).stat().st_size < 100_000
