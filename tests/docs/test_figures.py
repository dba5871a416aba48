"""A measured figure names its command, its date, and the version of the code, which must be that of today."""

import re

import pytest
from test_pages import PAGES, ROOT

import hashlearn

SCORE = r"(?<![\w./])\.\d{2,}(?!\w)"
RATIO = r"\d×(?! ?\d)"
COMMAND = r"hashlearn bench |python benchmarks/|python -m hashlearn\."
DATE = r"\b(?:\d{1,2} [A-Z][a-z]+ 20\d\d|20\d\d-\d\d-\d\d)\b"
NO_FIGURES = {ROOT / "CHANGELOG.md"}
"""Its lines are about the versions that they stand under."""


def without_blocks(text):
    """The text less its fenced code, which other tests run."""
    return re.sub(r"```.*?```", "", text, flags=re.DOTALL)


def figures(text):
    """Scores (.872) and ratios (2.3×) of a text, outside of code and addresses."""
    prose = re.sub(r"^ {4}.*$|`[^`\n]*`|\]\([^)]*\)", "", text, flags=re.MULTILINE)
    return re.findall(f"{SCORE}|{RATIO}", prose)


def sections(text):
    """Each section of a page with those that it is part of, less their other parts."""
    kept: dict[int, str] = {}
    for part in re.split(r"^(?=#{1,4} )", without_blocks(text), flags=re.MULTILINE):
        level = len(part) - len(part.lstrip("#"))
        kept = {other: one for other, one in kept.items() if other < level} | {level: part}
        yield part, "".join(kept.values())


def faults(text, version=hashlearn.__version__):
    """Return what is wrong with the figures of a page."""
    found = [f"hashlearn {old}" for old in re.findall(r"hashlearn[\s=]*(\d+\.\d+\.\d+)", text) if old != version]
    found += re.findall(r"commit\s[0-9a-f]{7,40}\b", text)
    for part, whole in sections(text):
        if figures(part):
            title = part.splitlines()[0]
            stamp = re.search(rf"hashlearn\s{re.escape(version)}(?!\d)", whole)
            missing = {"version": stamp, "date": re.search(DATE, whole), "command": re.search(COMMAND, whole)}
            found += [f"{title}: no {name}, for {figures(part)[:3]}" for name, there in missing.items() if not there]
    return found


@pytest.mark.parametrize("page", sorted({*PAGES} - NO_FIGURES), ids=lambda page: str(page.relative_to(ROOT)))
def test_figures_are_those_of_this_version(page):
    assert faults(page.read_text()) == []


STAMPED = "# Results\n\n    hashlearn bench run -o r\n\nhashlearn 1.2.0, 3 May 2026.\n\n## Scores\n\n| a | .871 |\n"


def test_what_is_a_fault():
    assert faults(STAMPED, "1.2.0") == []
    assert len(faults(STAMPED, "1.3.0")) == 2  # an old version is named, and the new one is not
    assert faults(STAMPED.replace("3 May 2026", "long ago"), "1.2.0") == ["## Scores: no date, for ['.871']"]
    assert faults(STAMPED.replace("hashlearn bench", "we ran"), "1.2.0") == ["## Scores: no command, for ['.871']"]
    assert faults(STAMPED + "## Speed\n\n2.5× as fast, commit 440e7e2.\n", "1.2.0") == ["commit 440e7e2"]
    assert faults(STAMPED.replace("# Results", "# A\n\n# B"), "1.2.0") == []
    assert len(faults("# A\n\nhashlearn 1.2.0\n\n## B\n\n2.5× as fast\n", "1.2.0")) == 2
