"""Collections whose ids are texts or UUIDs, in Chromium."""

import uuid
from urllib.parse import urlencode

import pytest
from explorer_box import ODD_IDS

# A click where a row is drawn.
CLICK_AT = """const [x, y] = arguments, map = document.querySelector('canvas.map'), box = map.getBoundingClientRect();
    const side = Math.min(box.width, box.height) * 0.88;
    const wide = side * Math.min(2, Math.max(1, box.width / box.height));
    const clientX = box.left + box.width / 2 + (x - 0.5) * wide, clientY = box.top + box.height / 2 - (y - 0.5) * side;
    const at = {clientX, clientY, pointerId: 1, bubbles: true};
    map.setPointerCapture = () => {};
    for (const kind of ['pointerdown', 'pointerup']) map.dispatchEvent(new PointerEvent(kind, at))"""


def found(page, collection, id, **how):
    (result,) = page.ask(f"/{collection}/search", {"ids": [id], "k": 20, **how})["results"]
    return [(hit["id"], hit["distance"]) for hit in result["hits"]]


def shown(page):
    return [(id, distance) for id, distance, _ in page.hits()]


@pytest.mark.slow
def test_odd_ids(page):
    """Typed, then as an address, then left by a click on a result and come back to."""
    page.open("?c=named&id=row+12&k=5")
    field = page.one("#query-id")
    for name in ODD_IDS:
        # Put in by a script, for the driver cannot type characters beyond 2^16.
        page.js("arguments[0].value = arguments[1]; arguments[0].form.requestSubmit()", field, name)
        page.until(lambda name=name: page.address()["id"] == name, "the id in the address")
        page.settle()
        assert shown(page) == found(page, "named", name, k=5)
        assert page.js("return document.querySelector('.query-card .name').textContent") == f"Row {name}"
        assert page.js("return document.querySelectorAll('.hit b, .query-card b').length") == 0
    for name in ("what?k=1&id=2", "50 % #1", "<b>bold</b>"):
        page.open(f"?{urlencode({'c': 'named', 'id': name, 'k': 5})}")
        assert shown(page) == found(page, "named", name, k=5)
    first = page.ids()[0]
    page.one(".hit").click()
    page.until(lambda: page.address()["id"] == first, "the result as query")
    page.driver.back()
    page.until(lambda: shown(page) == found(page, "named", "<b>bold</b>", k=5), "back again")


def test_pictures_of_rows_with_odd_ids(page):
    page.open("?c=named&id=row+12&k=39")
    assert set(ODD_IDS) <= set(page.ids())
    page.js("document.querySelectorAll('img').forEach(image => image.loading = 'eager')")
    loaded = "return [...document.querySelectorAll('.hit img')].filter(image => image.naturalWidth === 8).length"
    page.until(lambda: page.js(loaded) == 39, "all pictures")


def test_the_map_and_labels_lead_to_rows_with_odd_ids(page):
    page.open("?c=named&id=row+12&show=map")
    page.until(lambda: "40 rows" in page.text(".map-told"), "the map")
    told = page.ask("/named/map")
    for name in ("a/b/c.png", "<b>bold</b>"):
        place = told["ids"].index(name)
        page.js(CLICK_AT, told["x"][place], told["y"][place])
        page.until(lambda name=name: page.address()["id"] == name, "the row as query")
        page.settle()
    page.open("?c=named&id=row+12&show=labels")
    page.until(lambda: page.js("return document.querySelectorAll('[data-query]').length") > 0, "the table")
    rows = page.js("return [...document.querySelectorAll('[data-query]')].map(link => link.dataset.query)")
    page.one("[data-query]").click()
    page.until(lambda: page.address()["id"] == rows[0], "a row that shows the label")


def test_orders_and_fields_called_id(page):
    """Ids are ordered as texts; a field of the payload that is called id stays a number."""
    page.open("?c=named&id=row+12&k=39&sort=id")
    assert page.ids() == sorted(page.ids(), key=lambda id: id.encode("utf-16-be"))
    page.open("?c=named&id=row+12&k=39&sort=.id")
    rows = [*ODD_IDS, *(f"row {number}" for number in range(len(ODD_IDS), 40) if number != 12)]
    assert page.ids() == rows
    page.open("?c=learned&id=17&k=30&sort=id")
    assert page.ids() == sorted(page.ids(), key=int)


def test_uuids(page):
    page.open("?c=drawn&k=20")
    first = uuid.UUID(int=2**100 + 3)
    field = page.one("#query-id")
    field.clear()
    field.send_keys("3\n")
    page.until(lambda: "An id is a UUID" in page.text("#query-note"), "a sentence about the id")
    field.clear()
    field.send_keys(f" {first.hex.upper()} \n")
    page.until(lambda: page.text(".query-card .name") == f"Row {first}", "the row")
    page.settle()
    assert shown(page) == found(page, "drawn", str(first))
    before = page.address()["id"]
    page.one("#random-button").click()
    page.until(lambda: page.address()["id"] != before, "a random row")


def test_from_numbers_to_texts(page):
    """The id of one collection may say nothing in another: the page says so and offers a row."""
    page.open("?c=learned&id=23")
    page.choose_collection("named")
    assert "no item '23'" in page.text(".message")
    page.one(".message button").click()
    page.until(lambda: len(page.hits()) == 20, "a random row of the other collection")
    page.open("?c=named&id=row%2020")  # the random row may have the id "17", which the other collection has too
    page.choose_collection("learned")
    assert "whole numbers" in page.text(".message")
    assert page.js("return document.querySelector('#query-id').inputMode") == "numeric"
