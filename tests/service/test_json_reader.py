"""The reader of large JSON bodies agrees with Python's own, wherever its window is cut."""

import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hashlearn.service.errors import ApiError
from hashlearn.service.json_reader import _Reader, read_json_object

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=12,
)
OBJECTS = st.dictionaries(st.text(max_size=6), VALUES | st.lists(VALUES, max_size=12), max_size=6)


def longest_part(value: dict, indent: int | None) -> int:
    """The characters of the longest piece that is decoded at once: a name, an element of an array, another value."""
    parts = [part for member in value.values() for part in (member if isinstance(member, list) else [member])]
    # Deeper inside, lines begin with more spaces than here.
    longest = max((len(json.dumps(part, indent=indent)) for part in [*parts, *value]), default=1)
    return longest if indent is None else 4 * longest


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(value=OBJECTS, indent=st.sampled_from([None, 0, 3]))
def test_what_python_reads(value, indent):
    text = json.dumps(value, indent=indent)
    assert _Reader(text, 100, longest_part(value, indent)).object() == value


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(value=OBJECTS, place=st.floats(0, 1), letter=st.sampled_from('{}[]",:0aet\\ \n'))
def test_what_python_refuses(value, place, letter):
    text = json.dumps(value)
    at = int(place * len(text))
    spoiled = text[:at] + letter + text[at + 1 :]
    try:
        wanted = json.loads(spoiled, object_pairs_hook=unique)
    except ValueError:
        wanted = None
    if isinstance(wanted, dict):
        assert _Reader(spoiled, 100, len(spoiled)).object() == wanted
    else:
        with pytest.raises(ApiError):
            _Reader(spoiled, 100, longest_part(value, None)).object()


def unique(pairs: list) -> dict:
    if len(dict(pairs)) < len(pairs):
        raise ValueError
    return dict(pairs)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "an object is expected at character 0"),
        ("[1]", "an object is expected at character 0"),
        ('{"a" 1}', "':' is expected at character 5"),
        ('{"a": 1,}', "a name in double quotes is expected at character 8"),
        ('{"a": [1 2]}', "',' or ']' is expected at character 9"),
        ('{"a": [1,]}', "expecting value at character 9"),
        ('{"a": 1} x', "nothing more is expected at character 9"),
        ('{"a": [NaN]}', "JSON has no NaN"),
        ('{"a": 1, "b": {"c": 1, "c": 2}}', "'c' twice"),
        ('{"a": 1, "a": 2}', "'a' twice"),
        ('{"a": [1, 2, 3, 4]}', "'a' may have at most 3 elements"),
        ('{"a": "' + "x" * 500 + '"}', "at most 100 characters of JSON; what begins at character 6"),
    ],
)
def test_errors_say_where(text, says):
    with pytest.raises(ApiError) as caught:
        _Reader(text, 3, 100).object()
    assert says in str(caught.value.detail)


def test_many_names_take_linear_time():
    def seconds(count: int) -> float:
        body = ("{" + ",".join(f'"name {number}":1' for number in [*range(count), count - 1]) + "}").encode()
        started = time.process_time()
        with pytest.raises(ApiError, match="twice"):
            read_json_object(body, 10_000, 2**20)
        return time.process_time() - started

    seconds(1000)
    few, many = min(seconds(10_000) for _ in range(3)), min(seconds(80_000) for _ in range(3))
    assert many < 24 * few  # 8 where it is linear, 64 where it is not
