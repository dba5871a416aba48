"""Filters: what is accepted, what it means, and that SQLite means the same."""

import contextlib
import json
import sqlite3

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hashlearn.collection.stores.embedded import filters as sqlite_where
from hashlearn.collection.where import All, AnyOf, Compare, Listed, Not, WhereError, matches, parse, split_path


def test_parse():
    assert parse({}) == All(())
    assert parse({"a": 1}) == All((Compare(("a",), "=", 1),))
    assert parse({"a.b": {">=": 1, "!=": 3}}) == All(
        (All((Compare(("a", "b"), ">=", 1), Not(Compare(("a", "b"), "=", 3)))),)
    )
    assert parse({"$or": [{"a": 1}, {}], "$not": {"b": {"not in": ["x"]}}}) == All(
        (
            AnyOf((All((Compare(("a",), "=", 1),)), All(()))),
            Not(All((All((Not(Compare(("b",), "in", Listed(("x",)))),)),))),
        )
    )
    assert split_path("a.b\\.c.d\\\\") == ("a", "b.c", "d\\")


@pytest.mark.parametrize(
    ("where", "sentence"),
    [
        ("colour", "A filter is an object"),
        ({1: 2}, "Field names"),
        ({"$and": []}, "at least one filter"),
        ({"$or": {"a": 1}}, "takes a list"),
        ({"$regex": 1}, "not known"),
        ({"a": {}}, "is empty"),
        ({"a": {"=~": 1}}, "no operator"),
        ({"a": {"<": None}}, "number or text"),
        ({"a": {"<": True}}, "number or text"),
        ({"a": {"in": "red"}}, "takes a list"),
        ({"a": {"exists": 1}}, "true or false"),
        ({"a": [1]}, "compares"),
        ({"a": 2**63}, "64 bits"),
        ({"a": float("inf")}, "finite"),
        ({"a": "x\0"}, "NUL"),
        ({"a..b": 1}, "names no field"),
        ({"a": "\ud800"}, "surrogate"),
        ({"a\udfff": 1}, "names no field"),
        ({"a": {"in": ["x", "y\ud800"]}}, "surrogate"),
        ({"$or": [{"a": n} for n in range(1001)]}, "at most 1,000 comparisons"),
        ({"a": {"in": range(100_001)}}, "and 100,000 values in lists"),
        ({"a": {"in": range(60_000)}, "b": {"not in": range(60_000)}}, "and 100,000 values in lists"),
    ],
)
def test_mistakes(where, sentence):
    with pytest.raises(WhereError, match=sentence):
        parse(where)


def test_a_filter_too_deep_is_a_mistake():
    where = {"a": 1}
    for _ in range(5000):
        where = {"$not": where}
    with pytest.raises(WhereError, match="deep"):
        parse(where)


@pytest.mark.parametrize(
    ("where", "payload", "holds"),
    [
        ({"a": 1}, {"a": 1.0}, True),
        ({"a": 1}, {"a": True}, False),
        ({"a": True}, {"a": 1}, False),
        ({"a": "1"}, {"a": 1}, False),
        ({"a": None}, {"a": None}, True),
        ({"a": None}, {}, False),
        ({"a": {"!=": 1}}, {}, True),
        ({"a": {"not in": [1]}}, {"a": "x"}, True),
        ({"a": {"<": 2}}, {"a": "1"}, False),
        ({"a": {"<": "b"}}, {"a": "a"}, True),
        ({"a": {">=": 2**53}}, {"a": 2**53 + 1}, True),
        ({"a.b": 1}, {"a": {"b": 1}}, True),
        ({"a.b": 1}, {"a": [{"b": 1}]}, False),
        ({"a\\.b": 1}, {"a.b": 1}, True),
        ({"a": {"contains": 1}}, {"a": [True, 1]}, True),
        ({"a": {"contains": 1}}, {"a": [True]}, False),
        ({"a": {"contains": "b"}}, {"a": "abc"}, False),
        ({"a": {"exists": True}}, {"a": None}, True),
        ({"a": {"exists": False}}, None, True),
    ],
)
def test_meaning(where, payload, holds):
    assert matches(parse(where), payload) is holds


_NAMES = st.sampled_from(
    ["a", "b", "a b", 'q"x', "it's", "back\\slash", "$.a", "ü紅🌹", "0", "[0]", "x-1", "#", "new\nline"]
)
_NUMBERS = st.one_of(
    st.integers(-3, 3),
    st.sampled_from(
        [0.1, 0.2, 0.30000000000000004, 2.5, -0.0, 1e300, 5e-324, 2**53 + 1, float(2**53), 2**63 - 1, -(2**63)]
    ),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
)
_TEXT = st.one_of(
    st.sampled_from(["", "a", "b", "A", "ü", "紅", "🌹", "\uffff", '"', "'", "\\", "null", "1", "true"]),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=4),
)
_SCALARS = st.one_of(st.none(), st.booleans(), _NUMBERS, _TEXT)
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_NAMES, inner, max_size=3)),
    max_leaves=6,
)
_PAYLOADS = st.dictionaries(_NAMES, _VALUES, max_size=4)
_COMPARE = st.one_of(
    st.builds(lambda o: {"=": o}, _SCALARS),
    st.builds(lambda o: {"!=": o}, _SCALARS),
    st.builds(lambda w, o: {w: o}, st.sampled_from(["<", "<=", ">", ">="]), st.one_of(_NUMBERS, _TEXT)),
    st.builds(lambda w, o: {w: o}, st.sampled_from(["in", "not in"]), st.lists(_SCALARS, max_size=4)),
    st.builds(lambda o: {"contains": o}, _SCALARS),
    st.builds(lambda o: {"exists": o}, st.booleans()),
)


def _escaped(names):
    return ".".join(name.replace("\\", "\\\\").replace(".", "\\.") for name in names)


_FIELDS = st.builds(_escaped, st.lists(_NAMES, min_size=1, max_size=2)).filter(lambda name: not name.startswith("$"))
_SIMPLE = st.dictionaries(_FIELDS, _COMPARE, max_size=3)
_FILTERS = st.recursive(
    _SIMPLE,
    lambda inner: st.one_of(
        st.builds(lambda part: {"$not": part}, inner),
        st.builds(
            lambda word, parts: {word: parts}, st.sampled_from(["$and", "$or"]), st.lists(inner, min_size=1, max_size=3)
        ),
    ),
    max_leaves=4,
)


@pytest.mark.slow
@settings(max_examples=400, deadline=None)
@given(payloads=st.lists(_PAYLOADS, min_size=1, max_size=12), where=_FILTERS, data=st.data())
def test_sqlite_means_the_same(payloads, where, data):
    # A value that is there makes a comparison that can hold.
    fields = [(name, value) for payload in payloads for name, value in payload.items() if not name.startswith("$")]
    scalars = [(name, value) for name, value in fields if not isinstance(value, (list, dict))]
    if scalars:
        name, value = data.draw(st.sampled_from(scalars))
        word = data.draw(st.sampled_from(["=", "!=", "in", "<=", ">", "<"]))
        if (
            word in ("=", "!=")
            or (isinstance(value, (int, float, str)) and not isinstance(value, bool))
            or word == "in"
        ):
            where = {"$or": [where, {_escaped([name]): {word: [value, None] if word == "in" else value}}]}
    lists = [(name, item) for name, value in fields if isinstance(value, list) for item in value]
    held = [(name, item) for name, item in lists if not isinstance(item, (list, dict))]
    if held:
        name, item = data.draw(st.sampled_from(held))
        where = {"$or": [where, {_escaped([name]): {"contains": item}}]}
    condition = parse(where)
    with contextlib.closing(sqlite3.connect(":memory:")) as db:
        db.execute("CREATE TABLE payload (id INTEGER PRIMARY KEY, json TEXT)")
        rows = [(number, json.dumps(payload, ensure_ascii=False)) for number, payload in enumerate(payloads) if payload]
        db.executemany("INSERT INTO payload VALUES (?, ?)", rows)
        found = sqlite_where.matching_ids(db, condition, lambda: np.arange(len(payloads) + 3))
    expected = [number for number, payload in enumerate([*payloads, None, {}, None]) if matches(condition, payload)]
    assert found.tolist() == expected


def test_plain_names_are_left_to_sqlite(monkeypatch):
    """The slow way is for names that need it: the quick one does not ask ``matches`` for every row."""
    with contextlib.closing(sqlite3.connect(":memory:")) as db:
        db.execute("CREATE TABLE payload (id INTEGER PRIMARY KEY, json TEXT)")
        db.executemany("INSERT INTO payload VALUES (?, ?)", [(n, json.dumps({"a": n, 'q"': n})) for n in range(50)])
        asked = []
        monkeypatch.setattr(sqlite_where, "matches", lambda *arguments: asked.append(1) or matches(*arguments))
        for name, least, most in (("a", 0, 1), ('q"', 50, 51)):
            found = sqlite_where.matching_ids(db, parse({name: {">=": 40}}), lambda: np.arange(50))
            assert found.tolist() == list(range(40, 50))
            assert least <= len(asked) <= most
            asked.clear()


@pytest.mark.slow
def test_long_and_deep_filters_run():
    with contextlib.closing(sqlite3.connect(":memory:")) as db:
        db.execute("CREATE TABLE payload (id INTEGER PRIMARY KEY, json TEXT)")
        db.executemany("INSERT INTO payload VALUES (?, ?)", [(n, json.dumps({"a": n})) for n in range(20)])
        for where in ({"$or": [{"a": n} for n in range(1000)]}, {"a": {"in": list(range(100_000))}}):
            assert len(sqlite_where.matching_ids(db, parse(where), lambda: np.arange(20))) == 20
        where = {"a": 3}
        for _ in range(30):
            where = {"$not": where}
        assert sqlite_where.matching_ids(db, parse(where), lambda: np.arange(20)).tolist() == [3]


def test_a_list_of_values_is_explained():
    with pytest.raises(WhereError, match=r"Got \[1, 2\] instead: write \{'a': \{'in': \[...\]\}\} for one of several"):
        parse({"a": [1, 2]})


@pytest.mark.parametrize("key", ["\\$id", "\\$\\id", "\\$id.a"])
def test_filters_cannot_ask_for_the_hidden_id(key):
    with pytest.raises(WhereError, match="field that holds ids"):
        parse({key: "a"})
