"""JSON bodies are read as Python reads them, within limits, and what is refused gets one clear sentence."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hashlearn.service.errors import ApiError
from hashlearn.service.schemas import read_json_object

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**80), 2**80)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=12,
)
OBJECTS = st.dictionaries(st.text(max_size=6), VALUES | st.lists(VALUES, max_size=12), max_size=6)


@settings(max_examples=100, deadline=None)
@given(value=OBJECTS, indent=st.sampled_from([None, 0, 3]), ascii=st.booleans())
def test_what_python_reads(value, indent, ascii):
    body = json.dumps(value, indent=indent, ensure_ascii=ascii).encode()
    assert json.dumps(read_json_object(body, 100, 2**20)) == json.dumps(value)


@settings(max_examples=100, deadline=None)
@given(value=OBJECTS, place=st.floats(0, 1), letter=st.sampled_from('{}[]",:0aet\\ \n'))
def test_what_python_refuses(value, place, letter):
    text = json.dumps(value)
    at = int(place * len(text))
    spoiled = text[:at] + letter + text[at + 1 :]
    try:
        wanted = json.loads(spoiled)
    except ValueError:
        wanted = None
    try:
        found = read_json_object(spoiled.encode(), 100, 2**20)
    except ApiError:
        found = None  # half a surrogate pair, say, which Python reads
    assert found is None or found == wanted
    assert found is not None or not isinstance(wanted, dict) or "\\u" in spoiled or "e" in spoiled


@pytest.mark.parametrize(
    ("body", "code", "says"),
    [
        (b"", "bad_json", "The body is no JSON"),
        (b"[1]", "bad_json", "must be a JSON object"),
        (b'{"a" 1}', "bad_json", r"expected ':' \(byte 5\)"),
        (b'{"a": [1,]}', "bad_json", "trailing comma in array"),
        (b'{"a": 1} x', "bad_json", "The body is no JSON"),
        (b'{"a": [NaN]}', "bad_json", "The body is no JSON"),
        (b'{"a": "\xff"}', "bad_json", "The"),
        (b'{"a":' + 5000 * b"[" + 5000 * b"]" + b"}", "bad_json", "nested too deep"),
        (b'{"a": [1, 2, 3, 4]}', "too_many", "'a' may have at most 3 elements"),
        (b'{"a": [1, "' + 101 * b"x" + b'"]}', "too_large", "at most 100 bytes of JSON; number 1 of 'a' has more"),
        (b'{"a": "' + 500 * b"x" + b'"}', "too_large", "number 0 of 'a' has more"),
    ],
)
def test_errors_say_what_is_wrong(body, code, says):
    with pytest.raises(ApiError, match=says) as caught:
        read_json_object(body, 3, 100)
    assert caught.value.code == code
