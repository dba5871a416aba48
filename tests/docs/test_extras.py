"""Extras: ``all`` is all of them, and every one that a message or a page tells people to install exists."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


def test_all_is_all_but_the_tools_of_development():
    (everything,) = EXTRAS["all"]
    names = re.fullmatch(r"hashlearn\[(.+)\]", everything)[1].split(",")
    assert sorted(names) == sorted(set(EXTRAS) - {"all", "test", "docs"})


def test_extras_that_are_named_exist():
    texts = [*(ROOT / "src" / "hashlearn").rglob("*.py"), *ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    named = {name for path in texts for name in re.findall(r"(?:hashlearn|\.)\[([a-z,]+)\]'", path.read_text())}
    assert {"bench", "deep", "files"} <= {extra for name in named for extra in name.split(",")}
    assert {extra for name in named for extra in name.split(",")} <= set(EXTRAS)


def test_the_readme_lists_them():
    text = (ROOT / "README.md").read_text()
    assert [name for name in EXTRAS if name not in ("test", "docs") and f"`{name}`" not in text] == []
