"""What is said of a filter whose values are of another kind than those of the payloads, on every kind of storage."""

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


@pytest.fixture(params=("embedded", "milvus", "postgres"))
def shop(request, tmp_path):
    folder = str(tmp_path / "shop")
    with Collection.create(
        folder if request.param == "embedded" else request.getfixturevalue(f"{request.param}_uri"), n_bits=8
    ) as shop:
        shop.add(codes=np.arange(3, dtype=np.uint8)[:, None], payload=PAYLOADS)
        yield shop


@pytest.mark.parametrize(
    ("where", "says"),
    [
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
    ],
)
def test_values_of_another_kind_are_told(shop, where, says):
    with pytest.warns(FilterWarning, match=says) as told:
        assert shop.count(where) == 0
    assert len(told) == 1
    assert told[0].filename == __file__
    assert shop.filter_advice(where) == [str(told[0].message)]


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


@pytest.mark.parametrize("rare", [-7, "text", False])
def test_a_value_behind_the_first_rows_is_found(shop, rare, monkeypatch):
    monkeypatch.setattr(filter_advice, "SAMPLE_ROWS", 2)
    shop.add(codes=np.zeros((4, 1), dtype=np.uint8), payload=[{"late": None}] * 3 + [{"late": rare}])
    other = {int: 5, str: "other", bool: True}[type(rare)]
    assert shop.filter_advice({"late": other}) == []
    assert len(shop.filter_advice({"late": "none" if rare != "text" else 1})) == 1
