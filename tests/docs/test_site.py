"""The site is built without a warning, it is complete, and what its pages refer to is on this host."""

import inspect
import json
import re
from html.parser import HTMLParser
from importlib import import_module

import pytest
from mkdocs.commands.build import build
from mkdocs.config import load_config
from test_pages import PAGES, ROOT

import hashlearn as hl
from hashlearn.index import Hits, RangeHits
from hashlearn.methods import METHODS

MODULES = ["data", "files", "rows", "functions", "methods", "metrics", "deep", "codecs"]
"""Modules whose names are all public. They list them in ``__all__``."""
PARTS = ["index", "collection", "models.export", "models"]
"""Modules of names that ``hashlearn`` has itself, with the errors and results that belong to them."""


class LoadedFiles(HTMLParser):
    """Collects the addresses of scripts, pictures, frames and style sheets."""

    def __init__(self):
        super().__init__()
        self.addresses = []

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        if tag in {"script", "img", "iframe"}:
            self.addresses.append(values.get("src"))
        elif tag == "link" and values.get("rel") == "stylesheet":
            self.addresses.append(values["href"])


def public_objects():
    """All functions and classes of the API, by the name under which users find them."""
    homes = [hl, *(import_module(f"hashlearn.{name}") for name in (*MODULES, *PARTS))]
    named = {f"{home.__name__}.{name}": getattr(home, name) for home in homes for name in home.__all__}
    own = {name: made for name, made in vars(hl.codes).items() if getattr(made, "__module__", "") == hl.codes.__name__}
    named |= {f"hashlearn.codes.{name}": made for name, made in own.items() if not name.startswith("_")}
    return {
        name: made
        for name, made in named.items()
        if (inspect.isclass(made) or inspect.isfunction(made)) and made.__module__.startswith("hashlearn")
    }


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    build(load_config(str(ROOT / "mkdocs.yml"), site_dir=str(folder)))  # strict: a warning ends it
    return folder


@pytest.mark.slow
def test_the_site_is_complete(site):
    home = (site / "index.html").read_text()
    assert 'href="guide.html"' in home
    assert "docs/guide" not in home
    pages = {str(page.relative_to(site)) for page in site.rglob("*.html")}
    wanted = {str(page.relative_to(ROOT / "docs").with_suffix(".html")) for page in PAGES if page.parent != ROOT}
    assert wanted <= pages
    for page in pages:
        loaded = LoadedFiles()
        loaded.feed((site / page).read_text())
        assert loaded.addresses
        assert not [address for address in loaded.addresses if re.match(r"(https?:)?//", address or "")]


@pytest.mark.slow
def test_the_reference_has_every_public_name(site):
    entries = {
        entry
        for page in (site / "api").rglob("*.html")
        for entry in re.findall(r'id="(hashlearn[^"]*)"', page.read_text())
    }
    objects = public_objects()
    assert {"hashlearn.AutoHasher", "hashlearn.deep.DCH", "hashlearn.metrics.Scores"} <= set(objects)
    assert [name for name, made in objects.items() if f"{made.__module__}.{made.__qualname__}" not in entries] == []
    for made in (hl.Collection, Hits, RangeHits):
        members = {name for name, _ in inspect.getmembers(made, inspect.isfunction) if not name.startswith("_")} - {
            "lines"
        }
        shown = {name for name in members if f"{made.__module__}.{made.__qualname__}.{name}" in entries}
        assert shown == members
    for method in METHODS.values():  # each has a page
        page = (site / "api" / "methods" / f"{method.__name__.lower()}.html").read_text()
        assert f'id="{method.__module__}.{method.__qualname__}"' in page
        assert f'href="methods/{method.__name__.lower()}.html"' in (site / "api" / "hashers.html").read_text()


@pytest.mark.slow
def test_programs_find_all_pages_as_markdown(site):
    links = re.findall(r"\]\((\S+\.md)\)", (site / "llms.txt").read_text())
    assert {"index.md", "guide.md", "api/hashers.md"} <= set(links)
    assert all((site / link).read_text().strip() for link in links)


@pytest.mark.slow
def test_the_search_knows_pages_and_names(site):
    documents = json.loads((site / "search" / "search_index.json").read_text())["docs"]
    places = {document["location"] for document in documents}
    assert {"guide.html", "api/hashers.html", "examples/dask.html"} <= places
    assert any(place.endswith("#hashlearn.pairwise.gsdhp.GSDHP") for place in places)
