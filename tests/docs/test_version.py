"""The version stands in ``hashlearn.__version__``; what repeats it agrees with it."""

import re
import tomllib
from pathlib import Path

import hashlearn

ROOT = Path(__file__).resolve().parents[2]


def test_the_build_reads_the_version_from_the_package():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "version" not in settings["project"]
    assert settings["project"]["dynamic"] == ["version"]
    assert settings["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "hashlearn.__version__"}


def test_the_citation_names_this_version():
    (cited,) = re.findall(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(), flags=re.MULTILINE)
    assert cited == hashlearn.__version__


def test_the_changelog_begins_with_this_version():
    text = (ROOT / "CHANGELOG.md").read_text()
    releases = re.findall(r"^## (\S+)(?: \((.+)\))?$", text, flags=re.MULTILINE)
    assert releases[0][0] == hashlearn.__version__
    dates = [date for _, date in releases[1:] if date]
    assert all(re.fullmatch(r"\d{4}-\d{2}-\d{2}", date) for date in dates)
    headings = set(re.findall(r"^### (.+)$", text, flags=re.MULTILINE))
    assert headings <= {"Added", "Changed", "Fixed", "Deprecated", "Removed"}
