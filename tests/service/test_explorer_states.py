"""The explorer page in Chromium on a bad day: hostile payloads, nothing to show, a server that is gone."""

from urllib.parse import urlsplit

import explorer_box
import pytest
from explorer_box import HOSTILE

from hashlearn.service.settings import Token

TOKEN = "a-token-of-some-length"


def test_a_payload_is_text(page):
    page.open("?c=cards")
    assert HOSTILE in page.text(".hit .text")
    assert HOSTILE in page.text(".hit .payload")  # as the name of a field
    page.one(".closer").click()
    assert page.text("#closer-body").count(HOSTILE) == 2
    places = ".hit", ".query-card", "#closer"
    made = ", ".join(f"{place} {tag}" for place in places for tag in ("img", "script"))
    inside = page.js("return document.querySelectorAll(arguments[0]).length", made)
    assert inside == 0
    assert page.js("return document.title").endswith("in cards · hashlearn explorer")


def test_ids_stay_exact(page):
    """Ids beyond 2^53, which a number of JavaScript cannot tell apart."""
    first = 2**62 + 1
    page.open(f"?c=cards&id={first}&k=39")
    (result,) = page.ask("/cards/search", {"ids": [first], "k": 39})["results"]
    assert page.ids() == [str(hit["id"]) for hit in result["hits"]]
    page.driver.find_elements("css selector", ".hit")[3].click()
    page.until(lambda: page.address()["id"] == str(result["hits"][3]["id"]), "the exact id in the address")
    page.settle()
    assert page.text(".query-card .name") == f"Row {result['hits'][3]['id']}"


def test_label_sets_agree_when_they_share_one(page):
    page.open(f"?c=cards&id={2**62 + 1}&k=10")
    assert {sign for _, _, sign in page.hits()} == {"✓"}  # all have the label "a"
    assert page.text(".precision-value") == "1.000"
    assert page.js("return document.querySelector('.hit .labels').innerText.split(/\\s+/)[0]") == "a"


def test_an_empty_collection(page):
    page.open("?c=empty")
    assert "This collection is empty" in page.text(".message")
    assert page.hits() == []
    page.open("?c=learned&c2=empty&id=3")
    assert len(page.hits(0)) == 20
    assert page.hits(1) == []


def test_an_address_with_nonsense(page):
    page.open("?c=nobody&k=-3&radius=abc&mode=magic&id=1x&where=%7B%22a")
    assert "no collection named nobody" in page.text("#notice")
    assert "not JSON" in page.text("#where-note")
    assert page.text("body").count("not JSON") == 1  # once, beside the filter
    assert "the filter cannot be used" in page.text(".message")
    page.open("?c=learned&code=00ff")
    assert "codes must be hex" in page.text(".message")
    for id in ("9223372036854775808", "a%2Fb"):  # one more than any id, and no number
        page.open(f"?c=learned&id={id}")
        assert "whole number" in page.text(".message")
        assert page.hits() == []
    page.one(".message button").click()
    page.until(lambda: len(page.hits()) == 20, "a random row instead")


@pytest.mark.parametrize(
    "address", ["?id=4", "?id=4&c2=random&by=radius&radius=9&show=labels", "?c=cards&show=map", "?c=empty"]
)
def test_a_phone_has_no_sideways_scroll(page, address):
    page.width(390, 844)
    try:
        page.open(address)
        assert page.js("return innerWidth") == 390
        assert page.js("return document.documentElement.scrollWidth") <= 390
        page.one("#help-button").click()
        assert page.js("return document.documentElement.scrollWidth") <= 390
    finally:
        page.width(1280)


def test_colours_follow_the_system(page):
    page.open("?id=4")
    grounds = []
    for scheme in ("light", "dark"):
        features = [
            {"name": "prefers-color-scheme", "value": scheme},
            {"name": "prefers-reduced-motion", "value": "reduce"},
        ]
        page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        grounds.append(page.js("return getComputedStyle(document.body).backgroundColor"))
    page.js("document.querySelector('.pane').classList.add('busy')")
    assert page.js("return getComputedStyle(document.querySelector('.pane'), '::before').animationName") == "none"
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    assert page.js("return getComputedStyle(document.querySelector('.pane'), '::before').animationName") == "wait"
    assert grounds[0] != grounds[1]


@pytest.mark.parametrize("part", ["query", "map", "labels", "stats"])
def test_everything_has_a_name(page, part):
    """Fields, buttons, pictures and drawings, as a screen reader would say them."""
    page.open(f"?id=4&c2=random&show={part}&where={{%22label%22:%224%22}}")
    page.until(lambda: "Computing" not in page.text(".overview-part"), part)
    nodes = page.driver.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    roles = {
        "button",
        "link",
        "textbox",
        "slider",
        "spinbutton",
        "combobox",
        "checkbox",
        "radio",
        "image",
        "dialog",
        "application",
    }
    shown = [node for node in nodes if not node["ignored"] and node["role"]["value"] in roles]
    assert {node["role"]["value"] for node in shown} >= {"link", "slider", "combobox", "image", "checkbox", "radio"}
    assert [node for node in shown if not node.get("name", {}).get("value")] == []


def test_it_says_that_it_is_loading(page):
    page.open("?id=4")
    assert page.js("document.querySelector('.hit').click(); return document.querySelector('.pane').ariaBusy") == "true"
    page.settle()
    assert "20 results" in page.js("return document.querySelector('#status').textContent")


def test_a_storage_that_cannot_count_distances(page):
    """Its error in place of the histogram, as collections in other databases may give it."""
    page.open("?id=4")
    chosen = page.ids()[0]
    page.js("""
        const ask = window.fetch, error = {code: 'unsupported', message: 'Cannot.'};
        window.fetch = (url, ...rest) => String(url).includes('/histogram')
            ? Promise.resolve(new Response(JSON.stringify({error}), {status: 400})) : ask(url, ...rest);
        document.querySelector('.hit').click()""")
    page.until(lambda: page.text(".query-card .name") == f"Row {chosen}", "the new query")
    assert len(page.hits()) == 20
    assert "cannot count" in page.text("figure")


def test_a_server_that_fails(page):
    """Its sentence and a way to ask again, for results and for the map."""
    page.open("?id=4&show=query")
    page.js("""
        window.asked = window.fetch;
        const error = {code: 'internal', message: 'The server failed.'};
        window.fetch = () => Promise.resolve(new Response(JSON.stringify({error}), {status: 500}));
        document.querySelector('.hit').click()""")
    page.until(lambda: "The server failed." in page.text(".pane.failed .message"), "the error state")
    page.one("[data-part=map]").click()
    page.until(lambda: "The server failed." in page.text(".map-told"), "the same for the map")
    page.js("window.fetch = window.asked")
    page.one(".message button").click()
    page.until(lambda: len(page.hits()) == 20, "results after Try again")
    page.until(lambda: "300 rows" in page.text(".map-told"), "the map as well")


def test_the_bench_report_is_linked(page):
    page.open("?id=4")
    page.one("#bench-link").click()
    page.until(lambda: page.js("return document.title") == "The report", "the report")


def test_a_server_that_is_gone_and_comes_back(explorer_folders, page):
    with explorer_box.command(*explorer_folders[2:]) as (address, stop):
        other = explorer_box.Page(page.driver, address)
        other.open("?k=8")
        chosen = other.ids()[3]
        stop()
    other.js("document.querySelectorAll('.hit')[3].click()")
    other.until(lambda: "does not answer" in other.text(".pane.failed .message"), "the error state")
    assert other.hits() == []
    other.one("#random-button").click()
    other.until(lambda: "does not answer" in other.text("#notice"), "the same for a random query")
    with explorer_box.serving(explorer_folders[2:], port=urlsplit(address).port):
        other.one(".message button").click()
        other.until(lambda: len(other.hits()) == 8, "results after Try again")
        assert other.address()["id"] == chosen
        assert other.text("#notice") == ""


def test_a_token_is_asked_for(explorer_folders, page):
    cdp = page.driver.execute_cdp_cmd
    # It listens here only, and asks as if it listened everywhere.
    with explorer_box.serving(explorer_folders[:1], host="0.0.0.0", tokens=(Token(TOKEN),)) as address:
        other = explorer_box.Page(page.driver, address)
        try:
            # The page itself is behind the token too; what is tested is how its own requests get it.
            cdp("Network.enable", {})
            cdp("Network.setExtraHTTPHeaders", {"headers": {"Authorization": f"Bearer {TOKEN}"}})
            other.open("?id=4")
        finally:
            cdp("Network.setExtraHTTPHeaders", {"headers": {}})
        dialog = "return document.querySelector('#token-dialog').open"
        other.one("#random-button").click()
        other.until(lambda: other.js(dialog), "the dialog")
        other.one("#token").send_keys("not the right token\n")
        other.until(lambda: "refused" in other.text("#token-note"), "the token refused")
        other.one("#token").send_keys(f"{TOKEN}\n")
        other.until(lambda: not other.js(dialog), "the dialog gone")
        other.settle()
        assert len(other.hits()) == 20
        other.js("document.querySelectorAll('img').forEach(image => image.loading = 'eager')")
        loaded = "return [...document.querySelectorAll('.hit img')].filter(image => image.naturalWidth > 0).length"
        other.until(lambda: other.js(loaded) == 20, "pictures, which also need the token")
        assert TOKEN not in other.js("return document.cookie + JSON.stringify(localStorage) + location.href")
