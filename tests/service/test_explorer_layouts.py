"""Rows of text, of products and of pictures in Chromium: what is shown can be read, on a desk and on a phone."""

import pytest

# Every result: its height, and the narrowest box that holds a word of its payload.
BOXES = """return [...document.querySelectorAll('.hits > li')].map(result => {
    const range = document.createRange(), walk = document.createTreeWalker(result, NodeFilter.SHOW_TEXT), widths = [];
    for (let text = walk.nextNode(); text; text = walk.nextNode()) {
        if (text.data.trim().length < 8 || !text.parentElement.checkVisibility()) continue;
        range.selectNodeContents(text);
        widths.push(range.getBoundingClientRect().width);
    }
    return [result.getBoundingClientRect().height, Math.min(...widths)];
})"""


@pytest.mark.parametrize("width", [1400, 420])
@pytest.mark.parametrize("collection", ["texts", "products"])
def test_rows_can_be_read(page, collection, width):
    page.width(width)
    try:
        page.open(f"?c={collection}&id=4&k=6")
        boxes = page.js(BOXES)
        assert len(boxes) == 6
        assert max(height for height, _ in boxes) < 450
        assert min(narrowest for _, narrowest in boxes) > 40  # 0 where letters stand in a column
        assert page.js("return document.documentElement.scrollWidth") <= width
    finally:
        page.width(1280)


def test_a_row_of_text(page):
    """Title, text and short fields in the link; a long field behind its name; all of it in a closer look."""
    from selenium.webdriver.common.keys import Keys

    page.open("?c=texts&id=4&k=3")
    first = page.ids()[0]
    assert page.text(".hit .title").startswith(f"Question {first} about")
    assert f"{first} days ago" in page.text(".hit .text")
    assert page.text(".hit .chips").split()[-2:] == ["channel", ("mail", "chat", "phone")[int(first) % 3]]
    folded = "return document.querySelector('.hits li details p').checkVisibility()"
    assert page.js(folded) is False
    page.one(".hits li summary").click()
    assert page.js(folded) is True
    assert page.address()["id"] == "4"  # opening a field asks nothing
    page.keys(Keys.ARROW_RIGHT, "z")
    assert page.text("#closer-title") == f"Row {first}, distance {page.hits()[0][1]}"
    assert page.text("#closer-body").count("We are sorry to hear that.") == 80
    page.keys(Keys.ARROW_RIGHT)
    assert page.text("#closer-title").startswith(f"Row {page.ids()[1]},")
    page.one("#closer-query").click()
    page.until(lambda: page.address()["id"] == page.text(".query-card .name").removeprefix("Row "), "the row as query")
    assert not page.js("return document.querySelector('#closer').open")


def test_a_picture_in_full_size(page):
    page.open("?c=learned&id=4&k=3")
    page.js("document.querySelector('.closer').click()")
    page.until(lambda: page.js("return document.querySelector('#closer-body img')?.naturalWidth > 0"), "the picture")
    assert page.js("return document.querySelector('#closer-body img').getBoundingClientRect().width") > 400


def test_another_layout_and_another_order(page):
    page.open("?c=products&id=4&k=30")
    assert page.js("return document.querySelector('.hits').className") == "hits cards"
    by_price = "return [...document.querySelectorAll('.hit')].map(hit => 5 + Number(hit.dataset.id))"
    page._set(".toolbar label:first-of-type select", ".price", "change")
    page.until(lambda: page.address().get("sort") == ".price", "the order in the address")
    prices = page.js(by_price)
    assert prices == sorted(prices)
    assert len(prices) == 30
    page.one(".toolbar .turn").click()
    page.until(lambda: page.js(by_price) == prices[::-1], "the order turned around")
    page._set(".toolbar label:last-of-type select", "text", "change")
    page.until(lambda: page.js("return document.querySelector('.hits').className") == "hits text", "the other layout")
    shown = page.js(by_price)
    page.open(page.js("return location.search"))
    assert page.js(by_price) == shown == prices[::-1]


@pytest.mark.parametrize("address", ["?c=learned&id=4", "?c=texts&id=4", "?c=products&id=4"])
def test_the_first_result_is_on_the_first_screen_of_a_phone(page, address):
    page.width(390, 844)
    try:
        page.open(address)
        assert page.js("return document.querySelector('.hit').getBoundingClientRect().bottom") <= 844
        assert page.js("return scrollY") == 0
    finally:
        page.width(1280)


def test_a_filter_by_the_form(page):
    page.open("?c=products&id=4&k=50")
    page.until(lambda: page.js("return !document.querySelector('#filter-add').hidden"), "the known fields")
    page.one("#filter-add").click()
    fields = page.js("return [...document.querySelectorAll('.condition .field option')].map(option => option.value)")
    assert {"name", "price", "in_stock", "tags", "size.width"} <= set(fields)
    page._set(".condition .field", "price", "change")
    page._set(".condition .operator", ">=", "change")
    page.one(".condition .value").send_keys("80")
    page.until(lambda: page.address().get("where") == '{"price":{">=":80}}', "the filter in the address")
    page.settle()
    assert sorted(map(int, page.ids())) == list(range(75, 90))
    assert page.js("return document.querySelector('#where').value") == '{"price":{">=":80}}'
    page.one(".condition button").click()
    page.until(lambda: "where" not in page.address(), "no filter")
    # JSON that is a list of conditions shows in the form; other JSON says so.
    page.open('?c=products&id=4&where={"size.width":{"in":["1"]},"in_stock":true}')
    page.until(lambda: page.js("return document.querySelectorAll('.condition').length") == 2, "two conditions")
    page.open('?c=products&id=4&where={"$or":[{"price":6},{"price":7}]}')
    page.until(lambda: "more than the form" in page.text("#filter-more"), "a sentence about the form")
    assert len(page.ids()) == 2


def test_conditions_there_and_back(page):
    """A filter that the form shows is written back with the same meaning."""
    page.open("?c=empty")
    texts = [
        "",
        '{"a":1}',
        '{"a":{">":1,"<=":5},"b":{"in":["x","y"]}}',
        '{"a":{"exists":false},"b":{"!=":"z"}}',
        '{"$and":[{"a":{">":1}},{"a":{">":2}}]}',
        '{"$or":[{"a":1}]}',
        '{"a":9007199254740993}',
        '{"a":null}',
    ]
    script = """const done = arguments[1];
        import('/static/filter.js').then(m => done(arguments[0].map(t => {
            const found = m.parsed(t);
            return found === null ? null : m.written(found);
        })))"""
    told = page.driver.execute_async_script(script, texts)
    assert told[:4] == texts[:4]
    assert told[4] == '{"a":{">":1},"$and":[{"a":{">":2}}]}'
    assert told[5:] == [None, None, None]


def test_values_as_people_read_them(page):
    page.open("?c=empty")
    values = ["a", 3, True, None, [], ["x", "y"], {"d": {"min": 3}, "w": 1}, [{"sizes": [1, 2], "sku": "K"}, {}], [[]]]
    script = """const done = arguments[1];
        import('/static/rows.js').then(m => done(arguments[0].map(value => m.written(value))))"""
    assert page.driver.execute_async_script(script, values) == [
        "a",
        "3",
        "true",
        "none",
        "none",
        "x, y",
        "d: (min: 3), w: 1",
        "(sizes: [1, 2], sku: K), none",
        "none",
    ]


@pytest.mark.parametrize("width", [1400, 420])
def test_a_long_id_stays_inside(page, width):
    """300 letters without a space: in the query's card, in every layout and in the closer look."""
    page.width(width)
    try:
        for address in ("?c=named&id=row+12&k=39", f"?c=named&id={'x' * 300}&k=39&layout=text"):
            page.open(address)
            page.js("document.querySelector('[data-id^=xxx], .hit').parentElement.querySelector('.closer').click()")
            outside = """const right = node => node.getBoundingClientRect().right;
                const boxes = [['.query-card', '.block'], ['.hit .facts', '.hit'], ['#closer-title', '#closer']];
                return boxes.filter(([part, box]) => [...document.querySelectorAll(part)].some(
                    node => right(node) > right(node.closest(box)) || node.scrollWidth > node.clientWidth + 1))"""
            assert page.js(outside) == []
            heights = "return Math.max(...[...document.querySelectorAll('.facts')].map(node => node.clientHeight))"
            assert page.js(heights) < 40  # one line
    finally:
        page.width(1280)


def test_the_field_for_a_text_is_wide(page):
    page.width(1400)
    try:
        page.open("?c=learned&id=4")
        assert page.js("return document.querySelector('#query-text').offsetWidth") > 500
    finally:
        page.width(1280)
