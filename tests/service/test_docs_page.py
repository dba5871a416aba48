"""The page of the API in Chromium: FastAPI's own, drawn without any file from elsewhere."""

import pytest

pytestmark = pytest.mark.slow


def test_the_page_of_the_api(page):
    page.complaints(), page.driver.get_log("performance")  # forget what earlier tests left in the browser
    page.driver.get(f"{page.base}/docs")
    page.until(lambda: page.js("return document.querySelectorAll('.opblock').length") > 10, "the routes")
    shown = page.js("return [...document.querySelectorAll('.opblock-summary-path')].map(node => node.dataset.path)")
    paths = page.js("return fetch('/openapi.json').then(answer => answer.json()).then(all => Object.keys(all.paths))")
    assert set(shown) == set(paths)
    page.js("document.querySelector('.opblock-summary-path[data-path$=\"/search\"]').click()")
    page.until(lambda: "exclude_self" in page.text(".opblock.is-open"), "the body of a search")
    assert page.complaints() == []
    assert page.asked_elsewhere() == []
