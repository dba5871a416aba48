"""Parts of the explorer page, called in Chromium one by one, against NumPy."""

import numpy as np
import pytest

from hashlearn.codes import unpack
from hashlearn.service.routes_overview import fitted_landmarks


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
    assert call(page, "rows.js", "Array.from(m.bitsOf(a[0], a[1]))", one, n_bits) == bits[0].tolist()
    apart = np.flatnonzero(bits[0] != bits[1])
    compared = "m.differing(m.bitsOf(a[0], a[2]), m.bitsOf(a[1], a[2]))"
    assert call(page, "rows.js", compared, one, two, n_bits) == apart.tolist()
    # Cells of each kind: every one begins with an M.
    drawn = """Object.fromEntries([...m.strip(m.bitsOf(a[1], a[2]), m.bitsOf(a[0], a[2])).querySelectorAll('path')]
               .map(path => [path.getAttribute('class'), path.getAttribute('d').split('M').length - 1]))"""
    cells = call(page, "rows.js", drawn, one, two, n_bits)
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
    picture, told = call(page, "overview.js", expression, counts, [1, 0, 2, 0, 0], scale)
    assert told == "Radius 2: 6 rows of 1,026 within."
    heights = [
        float(part) for part in call(page, "overview.js", "a[0].match(/v-([\\d.]+)/g).map(t => t.slice(2))", picture)
    ]
    height = np.log1p if scale == "log" else np.asarray
    wanted = [max(height(n) / height(1000) * 76, 1.5) for n in (1, 5, 1000, 20, 1, 2)]
    np.testing.assert_allclose(heights, wanted, atol=0.01)
    assert "distance 3: 1,000 rows" in picture
    assert 'class="limit"' in picture


def test_labels(page):
    payloads = [{"l": ["a", 1]}, {"l": "a"}, {"l": None}, {}, None, {"l": [["a"], {"x": 1}]}, {"l": False}]
    assert call(page, "rows.js", "a[0].map(p => m.labelsOf(p, 'l'))", payloads) == [
        ["a", "1"],
        ["a"],
        [],
        [],
        [],
        [],
        ["false"],
    ]
    pairs = [[["a"], ["b", "a"]], [["a"], ["b"]], [[], ["a"]], [["a"], []]]
    assert call(page, "rows.js", "a[0].map(([x, y]) => m.agree(x, y))", pairs) == [True, False, None, None]
    told = call(page, "rows.js", "m.precision([true, null, false, true])")
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
    assert call(page, "controls.js", "a[0].map(([k, p]) => m.moved(k, p, 7, 3))", asked) == list(cases.values())


def test_addresses_there_and_back(page):
    given = "?c=a+b&mode=rescore&c2=%C3%A9&id=9223372036854775807&by=radius&k=7&radius=3&where=%7B%22x%22%3A1%7D"
    assert call(page, "state.js", "m.toAddress(m.fromAddress(a[0]))", given) == given
    wild = f"?k=99999&radius=-1&id={'1' * 3000}&mode=x&code=zz&scale=3&by=all"
    assert call(page, "state.js", "m.toAddress(m.fromAddress(a[0]))", wild) == "?k=1000"


def test_names_on_the_map(page):
    """The label with the most rows comes first, in their middle; names that would cover others are left out."""
    told = {"x": [0, 0.1, 0.9, 0.5, 0.5, 0.5, 0.5], "y": [0, 0.2, 0.1, 1, 1, 1, 1], "label": [1, 1, 1, 0, 0, 0, 0]}
    expression = "m.middles({x: Float32Array.from(a[0].x), y: Float32Array.from(a[0].y), label: a[0].label})"
    first, second = call(page, "map.js", expression, told)
    assert (first["label"], first["x"], first["y"]) == (0, 0.5, 1)
    assert (second["label"], round(second["x"], 3), round(second["y"], 3)) == (1, 0.1, 0.1)
    places = [
        {"text": text, "left": left, "top": 50} for text, left in (("one", 100), ("two", 120), ("far", 300), ("out", 5))
    ]
    room = call(page, "map.js", "m.withRoom(a[0], () => 30, 400, 100).map(place => place.text)", places)
    assert room == ["one", "far"]


def test_typed_ids(page):
    cases = {
        ("17", "int"): "17",
        (" 007 ", "int"): "7",
        (str(2**63 - 1), "int"): str(2**63 - 1),
        (str(2**63), "int"): None,
        ("1x", "int"): None,
        ("a/b ", "text"): "a/b ",
        ("", "text"): None,
        (" 123E4567-e89b-12d3-a456-426614174000", "uuid"): "123E4567-e89b-12d3-a456-426614174000",
        ("{123e4567e89b12d3a456426614174000}", "uuid"): "{123e4567e89b12d3a456426614174000}",
        ("123e4567", "uuid"): None,
    }
    told = call(page, "state.js", "a[0].map(([t, k]) => m.typedId(t, k))", [list(case) for case in cases])
    assert [one["id"] for one in told] == list(cases.values())
    assert all((one["id"] is None) == (one["wrong"] is not None) for one in told)
    written = call(
        page, "state.js", "[['9007199254740993', 'int'], ['1', 'text'], ['x', 'int']].map(([i, k]) => m.jsonOf(i, k))"
    )
    assert written == ["9007199254740993", '"1"', '"x"']


def test_a_code_is_placed_as_the_server_places_it(page):
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 256, (200, 3), dtype=np.uint8)
    landmarks = fitted_landmarks(codes[:100], 20)
    expression = """a[1].map(bits => m.placeOf(bits, a[0].map(([bits, x, y]) => ({bits, x, y}))))"""
    bits = unpack(codes, 20).tolist()
    told = [
        [unpack(code[None], 20)[0].tolist(), *place]
        for code, place in zip(landmarks.codes, landmarks.places.tolist(), strict=True)
    ]
    places = call(page, "points.js", expression, told, bits)
    np.testing.assert_allclose([[place["x"], place["y"]] for place in places], landmarks.places_of(codes), atol=1e-5)


def test_what_is_wrong_with_a_filter(page):
    texts = ["", " ", '{"a": 1}', "{", "[1]", "3", "null"]
    wrong = call(page, "filter.js", "a[0].map(t => m.wrongWith(t))", texts)
    assert wrong[:3] == [None, None, None]
    assert all(text.startswith("The filter") for text in wrong[3:])
