"""Parts of the explorer page, called in Chromium one by one, against NumPy."""

import numpy as np
import pytest


@pytest.fixture(autouse=True)
def _opened(page):
    page.open("?c=empty")


def call(page, module, expression, *arguments):
    """The value of an expression over a module of the page (m) and arguments (a)."""
    script = f"""const [...a] = arguments, done = a.pop();
                 import('/static/{module}').then(m => done({{ok: {expression}}}), e => done({{wrong: String(e)}}))"""
    told = page.driver.execute_async_script(script, *arguments)
    assert "wrong" not in told, told
    return told["ok"]


@pytest.mark.parametrize("n_bits", [1, 7, 8, 12, 64, 65, 1030])
def test_bits_and_their_strip(page, n_bits):
    bits = np.random.default_rng(n_bits).integers(0, 2, (2, n_bits), dtype=np.uint8)
    one, two = (np.packbits(row).tobytes().hex() for row in bits)
    assert call(page, "bits.js", "Array.from(m.bitsOf(a[0], a[1]))", one, n_bits) == bits[0].tolist()
    apart = np.flatnonzero(bits[0] != bits[1])
    compared = "m.differing(m.bitsOf(a[0], a[2]), m.bitsOf(a[1], a[2]))"
    assert call(page, "bits.js", compared, one, two, n_bits) == apart.tolist()
    # Cells of each kind: every one begins with an M.
    drawn = """Object.fromEntries([...m.strip(m.bitsOf(a[1], a[2]), m.bitsOf(a[0], a[2])).querySelectorAll('path')]
               .map(path => [path.getAttribute('class'), path.getAttribute('d').split('M').length - 1]))"""
    cells = call(page, "bits.js", drawn, one, two, n_bits)
    differs = bits[0] != bits[1]
    expected = {
        "zero": int((~differs & (bits[1] == 0)).sum()),
        "one": int((~differs & (bits[1] == 1)).sum()),
        "zero differs": int((differs & (bits[1] == 0)).sum()),
        "one differs": int((differs & (bits[1] == 1)).sum()),
        "mark": int(differs.sum()),
    }
    assert cells == {kind: count for kind, count in expected.items() if count}


@pytest.mark.parametrize("scale", ["log", "linear"])
def test_the_histogram(page, scale):
    counts = [1, 0, 5, 1000, 20]
    expression = "(({picture, told}) => [picture.outerHTML, told])(m.histogram(a[0], a[1], 2, 'Radius', a[2]))"
    picture, told = call(page, "histogram.js", expression, counts, [1, 0, 2, 0, 0], scale)
    assert told == "Radius 2: 6 rows of 1,026 within."
    heights = [
        float(part) for part in call(page, "histogram.js", "a[0].match(/v-([\\d.]+)/g).map(t => t.slice(2))", picture)
    ]
    height = np.log1p if scale == "log" else np.asarray
    wanted = [max(height(n) / height(1000) * 76, 1.5) for n in (1, 5, 1000, 20, 1, 2)]
    np.testing.assert_allclose(heights, wanted, atol=0.01)
    assert "distance 3: 1,000 rows" in picture
    assert 'class="limit"' in picture


def test_labels(page):
    payloads = [{"l": ["a", 1]}, {"l": "a"}, {"l": None}, {}, None, {"l": [["a"], {"x": 1}]}, {"l": False}]
    assert call(page, "labels.js", "a[0].map(p => m.labelsOf(p, 'l'))", payloads) == [
        ["a", "1"],
        ["a"],
        [],
        [],
        [],
        [],
        ["false"],
    ]
    pairs = [[["a"], ["b", "a"]], [["a"], ["b"]], [[], ["a"]], [["a"], []]]
    assert call(page, "labels.js", "a[0].map(([x, y]) => m.agree(x, y))", pairs) == [True, False, None, None]
    told = call(page, "labels.js", "m.precision([true, null, false, true])")
    assert told == {"right": 2, "shown": 4, "value": 0.5}


def test_arrows_in_a_grid(page):
    """Seven results in three columns."""
    cases = {
        ("ArrowRight", 0): 1,
        ("ArrowRight", 6): 6,
        ("ArrowLeft", 0): 0,
        ("ArrowDown", 1): 4,
        ("ArrowDown", 4): 6,
        ("ArrowDown", 6): 6,
        ("ArrowUp", 4): 1,
        ("ArrowUp", 1): 1,
        ("Home", 5): 0,
        ("End", 5): 6,
    }
    asked = [[key, place] for key, place in cases]
    assert call(page, "keys.js", "a[0].map(([k, p]) => m.moved(k, p, 7, 3))", asked) == list(cases.values())


def test_addresses_there_and_back(page):
    given = "?c=a+b&mode=rescore&c2=%C3%A9&id=9223372036854775807&by=radius&k=7&radius=3&where=%7B%22x%22%3A1%7D"
    assert call(page, "state.js", "m.toAddress(m.fromAddress(a[0]))", given) == given
    wild = "?k=99999&radius=-1&id=12345678901234567890&mode=x&code=zz&scale=3&by=all"
    assert call(page, "state.js", "m.toAddress(m.fromAddress(a[0]))", wild) == "?k=1000"


def test_what_is_wrong_with_a_filter(page):
    texts = ["", " ", '{"a": 1}', "{", "[1]", "3", "null"]
    wrong = call(page, "filter.js", "a[0].map(t => m.wrongWith(t))", texts)
    assert wrong[:3] == [None, None, None]
    assert all(text.startswith("The filter") for text in wrong[3:])
