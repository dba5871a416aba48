"""One server and one browser for all tests of the explorer page, for both take seconds to start."""

import explorer_box
import pytest
from collection.servers import http_server, http_uri

__all__ = ["http_server", "http_uri"]


@pytest.fixture(scope="session")
def explorer_folders(tmp_path_factory):
    explorer_box.need_chromium()
    return explorer_box.make_collections(tmp_path_factory.mktemp("collections"))


@pytest.fixture(scope="session")
def page(explorer_folders, tmp_path_factory):
    report = tmp_path_factory.mktemp("report")
    (report / "report.html").write_text("<!doctype html><title>The report</title><h1>Figures</h1>")
    with (
        explorer_box.serving(explorer_folders, bench=report, texts=["learned"]) as address,
        explorer_box.browser(tmp_path_factory.mktemp("profile"), address) as served,
    ):
        yield served
