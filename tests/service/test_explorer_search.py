"""The explorer page in Chromium, against a real server: what it shows is what the API answers."""

import re

import pytest
from explorer_box import ROWS

QUERY = 17


def found(page, collection, number, **how):
    """(id, distance, ✓ or ✗) as the API tells them."""
    asked = {"ids": [number], "include": ["payload"], **({"k": 20} if "radius" not in how else {}), **how}
    (result,) = page.ask(f"/{collection}/search", asked)["results"]
    own = result["query"]["payload"]["label"]
    return [(str(hit["id"]), hit["distance"], "✓" if hit["payload"]["label"] == own else "✗") for hit in result["hits"]]


def test_a_random_query_shows_what_the_api_answers(page):
    page.open()
    first = page.address()["id"]
    assert page.hits() == found(page, "learned", int(first))
    assert page.text(".query-card .name") == f"Row {first}"
    page.one("#random-button").click()
    page.until(lambda: page.address()["id"] != first, "another random query")
    page.settle()
    assert page.hits() == found(page, "learned", int(page.address()["id"]))
    assert page.js("return [...document.querySelectorAll('.hit img')].length") == 20
    loaded = "return [...document.images].every(image => image.complete && image.naturalWidth > 0)"
    page.js("document.querySelectorAll('img').forEach(image => image.loading = 'eager')")
    page.until(lambda: page.js(loaded), "pictures")


def test_random_does_not_draw_the_row_that_is_shown(page):
    page.open(f"?id={QUERY}")
    page.js(
        """const real = window.fetch; window.draws = 0;
           window.fetch = async (address, ...rest) => String(address).endsWith("/random") && ++window.draws <= 2
             ? Response.json({id: arguments[0]}) : real(address, ...rest)""",
        QUERY,
    )
    page.one("#random-button").click()
    page.until(lambda: page.address()["id"] != str(QUERY), "another row")
    assert page.js("return window.draws") >= 3


def test_a_query_by_id(page):
    page.open(f"?id={QUERY}")
    field = page.one("#query-id")
    field.clear()
    field.send_keys("23\n")
    page.until(lambda: page.address()["id"] == "23", "the id in the address")
    page.settle()
    assert page.hits() == found(page, "learned", 23)
    field.clear()
    field.send_keys("no number\n")
    page.until(lambda: "whole number" in page.text("#query-note"), "a sentence about the id")
    field.clear()
    field.send_keys(f"{ROWS + 5}\n")
    page.until(lambda: f"no item {ROWS + 5}" in page.text(".message"), "a sentence about the missing item")
    assert page.hits() == []


def test_a_click_makes_a_result_the_query_and_back_leads_back(page):
    page.open(f"?id={QUERY}&k=6")
    before = page.hits()
    third = page.driver.find_elements("css selector", ".hit")[2]
    assert f"id={before[2][0]}" in third.get_attribute("href")  # opens in a new tab too
    third.click()
    page.until(lambda: page.address()["id"] == before[2][0], "the result as query")
    page.settle()
    assert page.hits() == found(page, "learned", int(before[2][0]), k=6)
    page.driver.back()
    page.until(lambda: page.hits() == before, "the first results again")
    assert page.address()["id"] == str(QUERY)
    assert page.text(".query-card .name") == f"Row {QUERY}"
    page.driver.forward()
    page.until(lambda: page.address()["id"] == before[2][0] and page.hits() != before, "forward again")


def test_an_address_shows_the_same_view(page):
    page.open(f"?c=random&c2=learned&mode2=asymmetric&id={QUERY}&k=7&scale=linear&where=%7B%22even%22%3Atrue%7D")
    address = page.js("return location.href")
    seen = page.hits(0), page.hits(1), page.text(".pane .summary"), page.js("return document.title")
    assert len(seen[0]) == len(seen[1]) == 7
    page.driver.get("about:blank")
    page.driver.get(address)
    page.settle()
    assert (page.hits(0), page.hits(1), page.text(".pane .summary"), page.js("return document.title")) == seen
    assert page.js("return location.href") == address
    assert page.js("return document.querySelector('#where').value") == '{"even":true}'
    assert page.js("return document.querySelector('#log-scale').checked") is False


def test_the_slider_of_k(page):
    from selenium.webdriver.common.keys import Keys

    page.open(f"?id={QUERY}")
    page.slide("k", 41)
    page.until(lambda: len(page.hits()) == 41, "41 results")
    assert page.hits() == found(page, "learned", QUERY, k=41)
    assert page.address()["k"] == "41"
    assert page.js("return document.querySelector('#k-number').value") == "41"
    right = [sign for _, _, sign in page.hits()].count("✓")
    assert page.text(".precision-value") == f"{right / 41:.3f}"
    page.one("#k-number").send_keys(Keys.CONTROL + "a" + Keys.NULL + "120")
    page.until(lambda: "120 results" in page.text(".toolbar"), "120 results, more than the slider has")
    # They come on two pages.
    found_all = found(page, "learned", QUERY, k=120)
    assert page.hits() == found_all[:100]
    page.one(".pager button:last-child").click()
    page.until(lambda: page.address().get("page") == "2", "the page in the address")
    assert page.hits() == found_all[100:]
    assert "101 to 120 of 120 results" in page.text(".pager")
    page.one("#random-button").click()
    page.until(lambda: "page" not in page.address(), "the first page of another query")


def test_radius_and_its_empty_state(page):
    nearest = found(page, "learned", QUERY, k=1)[0][1]
    assert nearest > 0  # else the radius below could not be empty
    page.open(f"?id={QUERY}")
    page.one("[name=by][value=radius]").click()
    page.slide("radius", 8)
    page.until(lambda: page.address().get("radius") == "8", "the radius in the address")
    page.settle()
    assert page.hits() == found(page, "learned", QUERY, radius=8)
    assert page.js("return [...document.querySelectorAll('.mode option')].map(o => o.disabled)") == [False, True, True]
    page.slide("radius", 0)
    page.until(lambda: f"The nearest lies at {nearest}" in page.text(".message"), "the empty state")
    assert page.hits() == []
    page.one(".message button").click()
    page.until(lambda: len(page.hits()) > 0, "results at the offered radius")
    assert {distance for _, distance, _ in page.hits()} == {nearest}


def test_a_wide_radius_is_the_whole_collection(page):
    page.open(f"?c=random&id={QUERY}&by=radius&radius=9999")
    assert f"{ROWS - 1} results" in page.text(".toolbar")
    assert page.text(".pager span") == f"1 to 100 of {ROWS - 1} results"
    assert f"{ROWS} rows of {ROWS} within" in page.text("figcaption")


@pytest.mark.parametrize("mode", ["asymmetric", "rescore"])
def test_modes(page, mode):
    page.open(f"?id={QUERY}")
    page.choose_mode(mode)
    expected = found(page, "learned", QUERY, mode=mode)
    assert page.hits() == expected
    assert expected != found(page, "learned", QUERY)


def test_only_what_a_collection_can(page):
    page.open("?c=cards&mode=rescore")
    assert page.js("return [...document.querySelectorAll('.mode option')].map(o => o.value)") == ["hamming"]
    assert page.js("return document.querySelector('#upload').hidden")
    page.open("?c=learned")
    assert not page.js("return document.querySelector('#upload').hidden")


def test_two_collections_on_the_same_query(page):
    page.open(f"?id={QUERY}")
    page.one("#compare").click()
    page.until(lambda: page.address().get("c2") == "random", "the second collection in the address")
    page.settle()
    assert page.hits(0) == found(page, "learned", QUERY)
    assert page.hits(1) == found(page, "random", QUERY)
    tops = page.js("return [...document.querySelectorAll('.pane')].map(pane => pane.getBoundingClientRect().top)")
    assert tops[0] == tops[1]
    page.driver.find_elements("css selector", ".pane:nth-child(2) .hit")[0].click()
    chosen = found(page, "random", QUERY)[0][0]
    page.until(lambda: page.address()["id"] == chosen, "the result of the second pane as query")
    page.settle()
    assert page.hits(0) == found(page, "learned", int(chosen))
    assert page.hits(1) == found(page, "random", int(chosen))
    page.one("#compare").click()
    page.until(lambda: page.js("return document.querySelectorAll('.pane').length") == 1, "one pane again")
    assert "c2" not in page.address()


def test_a_filter(page):
    page.open(f"?id={QUERY}")
    box = page.one("#where")
    box.send_keys('{"label": "3"')
    page.until(lambda: "not JSON" in page.text("#where-note"), "a sentence about the JSON")
    assert page.hits() == found(page, "learned", QUERY)  # of the last filter that was right
    box.send_keys("}")
    page.until(lambda: page.address().get("where") == '{"label": "3"}', "the filter in the address")
    page.settle()
    assert page.hits() == found(page, "learned", QUERY, where={"label": "3"})
    assert page.text("#where-note") == ""
    kept = page.hits()
    box.clear()
    box.send_keys('{"label": {"like": 3}}')
    page.until(lambda: "'like' is no operator" in page.text("#where-note"), "what the server says about the filter")
    # Said once, and the results of the filter before are still there.
    assert page.text("body").count("is no operator") == 1
    assert page.text(".message") == ""
    assert page.js("return document.querySelector('#where').value") == '{"label": {"like": 3}}'
    assert "filter before" in page.text("#where-note")
    page.until(
        lambda: page.hits() == (kept if page.address().get("where") else found(page, "learned", QUERY)), "results"
    )
    box.clear()
    box.send_keys('{"label": "none of them"}')
    page.until(lambda: "No row passes the filter" in page.text(".message"), "no results")
    assert "no payload" not in page.text(".message").lower()
    box.clear()
    box.send_keys('{"lable": "3"}')
    page.until(lambda: "No payload has the field 'lable'" in page.text(".message"), "what is wrong with the field")


def test_keys(page):
    from selenium.webdriver.common.keys import Keys

    def focused():
        return page.js("return document.activeElement.dataset.id ?? document.activeElement.id")

    page.open(f"?id={QUERY}")
    ids = page.ids()
    columns = page.js("return getComputedStyle(document.querySelector('.hits')).gridTemplateColumns.split(' ').length")
    assert columns > 2
    for key, place in (
        (Keys.ARROW_RIGHT, 0),
        (Keys.ARROW_RIGHT, 1),
        (Keys.ARROW_DOWN, 1 + columns),
        (Keys.ARROW_LEFT, columns),
        (Keys.ARROW_UP, 0),
        (Keys.ARROW_UP, 0),
        (Keys.END, 19),
        (Keys.ARROW_RIGHT, 19),
        (Keys.HOME, 0),
        (Keys.ARROW_RIGHT, 1),
    ):
        page.keys(key)
        assert focused() == ids[place], (key, place)
    page.keys(Keys.ENTER)
    page.until(lambda: page.address()["id"] == ids[1], "the result as query")
    page.settle()
    assert focused() == page.ids()[0]
    page.keys("r")
    page.until(lambda: page.address()["id"] != ids[1], "a random query")
    page.keys("?")
    assert page.js("return document.querySelector('#help').open")
    page.keys(Keys.ESCAPE)
    assert not page.js("return document.querySelector('#help').open")
    page.keys("/")
    assert focused() == "query-id"
    page.keys("5", Keys.ENTER)
    page.until(lambda: page.address()["id"] == "5", "the typed id")


def test_an_uploaded_picture(page, tmp_path):
    from PIL import Image
    from sklearn.datasets import load_digits

    row = load_digits().data[ROWS + 1]  # no row of the collection
    path = tmp_path / "new.png"
    Image.fromarray((row.reshape(8, 8) / 16 * 255).astype("uint8")).save(path)
    told = {
        name: page.ask(f"/{name}/search/image?k=20", path.read_bytes(), "image/png")["results"][0]
        for name in ("learned", "random")
    }
    expected = {name: [(str(hit["id"]), hit["distance"], "") for hit in told[name]["hits"]] for name in told}

    page.open(f"?id={QUERY}&c2=random")
    page.one("#upload-file").send_keys(str(path))
    page.until(lambda: page.address().get("code") == told["learned"]["query"]["code"], "the code in the address")
    page.settle()
    assert page.hits(0) == expected["learned"]
    assert page.hits(1) == expected["random"]
    assert "no labels" in page.text(".precision")
    page.until(lambda: page.js("return document.querySelector('.query-card img').naturalWidth") == 8, "the picture")
    page.choose_mode("asymmetric")
    answer = page.ask("/learned/search/image?k=20&mode=asymmetric", path.read_bytes(), "image/png")
    assert page.ids(0) == [str(hit["id"]) for hit in answer["results"][0]["hits"]]
    # In a new page the picture is gone, its code is not.
    page.open(re.sub(r"mode=asymmetric&?", "", page.js("return location.search")))
    assert page.hits(0) == expected["learned"]
    assert page.hits(1) == expected["random"]
    # A code says nothing in a collection of another hasher.
    page.choose_collection("cards")
    assert "no code of it" in page.text(".message")
    assert page.hits(1) == expected["random"]


def test_a_text_is_the_query(page):
    page.open(f"?id={QUERY}&k=6")
    page.one("#query-text").send_keys("digit 23\n")
    page.until(lambda: page.address().get("text") == "digit 23", "the text in the address")
    page.settle()
    assert "id" not in page.address()
    (result,) = page.ask("/learned/search", {"texts": ["digit 23"], "k": 6})["results"]
    assert page.hits() == [(str(hit["id"]), hit["distance"], "") for hit in result["hits"]]
    assert page.ids()[0] == "23"
    assert "digit 23" in page.text(".query-card")
    assert "rows of 300 within" in page.text("figcaption")
    shown = page.hits()
    page.open(page.js("return location.search"))
    assert page.hits() == shown
    page.choose_collection("cards")
    assert "cannot be searched by texts" in page.text(".message")
    assert page.js("return document.querySelector('#text-form').hidden")


def test_nothing_to_complain_of_and_nothing_from_elsewhere(page):
    page.complaints()
    page.driver.get_log("performance")
    parts = [f"?id={QUERY}&show={part}" for part in ("map", "labels", "stats")]
    for address in (f"?id={QUERY}&c2=random", f"?id={QUERY}&by=radius&radius=3", "?c=texts", "?c=empty", *parts):
        page.open(address)
        page.one("#help-button").click()
    assert page.complaints() == []
    assert page.asked_elsewhere() == []


def test_a_slider_says_how_much_labels_count(page):
    page.open(f"?c=open&id={QUERY}&e=0")
    assert page.hits() == found(page, "open", QUERY, emphasis=0)
    page.js("const s = document.querySelector('.emphasis input'); s.value = 100; s.dispatchEvent(new Event('change'))")
    page.until(lambda: page.address()["e"] == "100", "the emphasis in the address")
    page.settle()
    assert page.hits() == found(page, "open", QUERY, emphasis=1)
    page.open(f"?c=learned&id={QUERY}")
    assert page.js("return document.querySelector('.emphasis').hidden")
