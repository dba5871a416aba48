"""What is said of a filter whose values are of another kind than those of the payloads, on every kind of storage."""

import re
import warnings

import numpy as np
import pytest

from hashlearn import Collection
from hashlearn.collection import filter_advice
from hashlearn.collection.filter_advice import FilterWarning

PAYLOADS = [
    {"year": 2020, "tags": ["new", "red"], "size": {"width": 3}, "sold": 0, "mixed": 1},
    {"year": 2021.5, "tags": [], "size": {"width": 4}, "sold": 1, "mixed": "a"},
    {"color": "red", "mixed": None},
]
CASES = [
    ({"year": "2020"}, "The field 'year' holds numbers, not text, so the filter finds nothing: a comparison holds"),
    ({"year": {">": "2019"}}, "holds numbers, not text"),
    ({"year": {"in": ["2020", True]}}, "holds numbers, not text or true or false"),
    ({"sold": True}, "'sold' holds numbers, not true or false"),
    ({"color": 5}, "'color' holds text, not numbers"),
    ({"tags": "new"}, "holds lists, not text.*: write {'tags': {'contains': ...}} for a value in a list"),
    (
        {"color": {"contains": "red"}},
        "holds text, not lists.*'contains' asks for a value in a list; write {'color'",
    ),
    ({"size": 3}, "holds objects, not numbers.*such as 'size.width'"),
    ({"size.width": "3"}, "'size.width' holds numbers, not text"),
    ({"mixed": True}, "holds numbers or text or null, not true or false"),
    ({"$or": [{"year": "2020"}, {"color": "blue"}]}, "'year' holds numbers"),
    ({"$not": {"year": {"!=": "2020"}}}, "'year' holds numbers"),
]


def filled(uri):
    shop = Collection.create(uri, n_bits=8)
    shop.add(codes=np.arange(3, dtype=np.uint8)[:, None], payload=PAYLOADS)
    return shop


@pytest.fixture(params=("embedded", "milvus", "postgres"))
def shop(request, tmp_path):
    folder = tmp_path / "shop"
    with filled(folder if request.param == "embedded" else request.getfixturevalue(f"{request.param}_uri")) as shop:
        yield shop


@pytest.mark.parametrize(("where", "says"), CASES)
def test_values_of_another_kind_are_warned_of(tmp_path, where, says):
    with filled(tmp_path / "shop") as shop, pytest.warns(FilterWarning, match=says) as told:
        assert shop.count(where) == 0
    assert len(told) == 1
    assert told[0].filename == __file__


def test_values_of_another_kind_are_told_on_every_store(shop):
    for where, says in CASES:
        (sentence,) = shop.filter_advice(where)
        assert re.search(says, sentence)


def test_filters_that_could_match_are_not_told(shop):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for where in (
            {"year": 1999},
            {"color": "blue"},
            {"color": ""},
            {"year": None},
            {"year": {"in": []}},
            {"year": {"in": [1999, "x"]}},
            {"tags": {"contains": "old"}},
            {"mixed": "b"},
            {"mixed": -1},
            {"year": {"exists": True}, "color": "red"},
            {"year": {"!=": "2020"}, "color": "blue"},
        ):
            assert shop.count(where) == 0, where
            assert shop.filter_advice(where) == [], where


def test_each_kind_is_told_once(shop):
    with pytest.warns(FilterWarning, match="not text"):
        shop.count({"year": "2020"})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert shop.count({"year": "2021"}) == 0
    with pytest.warns(FilterWarning, match="not true or false"):
        shop.count({"year": True})


def test_a_value_behind_the_first_rows_is_found(shop, monkeypatch):
    monkeypatch.setattr(filter_advice, "FIRST_ROWS", 1)
    monkeypatch.setattr(filter_advice, "SAMPLE_ROWS", 2)
    late = {"number": -7, "text": "text", "truth": False}
    shop.add(codes=np.zeros((4, 1), dtype=np.uint8), payload=[dict.fromkeys(late)] * 3 + [late])
    for field, same, other in (("number", 5, "5"), ("text", "other", 5), ("truth", True, 1)):
        assert shop.filter_advice({field: same}) == []
        assert len(shop.filter_advice({field: other})) == 1
