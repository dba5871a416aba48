"""The site is built without a warning, and what its pages refer to is on this host."""

import re
from html.parser import HTMLParser

import pytest
from mkdocs.commands.build import build
from mkdocs.config import load_config
from test_pages import ROOT

from hashlearn.hashers import METHODS


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


@pytest.mark.slow
def test_the_site_is_whole(tmp_path):
    build(load_config(str(ROOT / "mkdocs.yml"), site_dir=str(tmp_path)))  # strict: a warning ends it
    reference = (tmp_path / "api" / "hashers.html").read_text()
    for method in METHODS.values():
        assert f'<h2 id="{method.__module__}.{method.__qualname__}"' in reference
    home = (tmp_path / "index.html").read_text()
    assert 'href="guide.html"' in home
    assert "docs/guide" not in home
    pages = list(tmp_path.rglob("*.html"))
    assert len(pages) > 25
    for page in pages:
        loaded = LoadedFiles()
        loaded.feed(page.read_text())
        assert loaded.addresses
        assert not [address for address in loaded.addresses if re.match(r"(https?:)?//", address or "")]
