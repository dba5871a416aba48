"""Filters with values as people have them, and with names that no payload has."""

import datetime
import warnings

import numpy as np
import pandas as pd
import pytest

from hashlearn import Collection
from hashlearn.collection.filter_advice import FilterWarning

DAYS = [datetime.date(2020, 1, day) for day in (1, 2, 3)]


@pytest.fixture
def shop(tmp_path):
    with Collection.create(tmp_path / "shop", n_bits=8) as shop:
        frame = pd.DataFrame({"day": DAYS, "size": np.array([1, 2, 3]), "color": ["red", "blue", "red"]})
        shop.add(codes=np.arange(3, dtype=np.uint8)[:, None], payload=frame)
        yield shop


@pytest.mark.parametrize(
    ("where", "count"),
    [
        ({"size": np.int64(2)}, 1),
        ({"size": {">=": np.float32(2)}}, 2),
        ({"size": {"in": np.array([1, 3])}}, 2),
        ({"color": {"in": {"red", "green"}}}, 2),
        ({"color": {"in": pd.Series(["blue"])}}, 1),
        ({"day": {">": DAYS[0]}}, 2),
        ({"day": {"=": DAYS[1]}}, 1),
        ({"day": np.datetime64("2020-01-03")}, 1),
        ({"day": {"<": pd.Timestamp("2020-01-02 12:00")}}, 2),
        ({"day": {"<": np.datetime64("2020-01-02T12:00:00.000000000")}}, 2),
        ({"day": {"$gte": DAYS[1]}, "size": {"$lt": 3}}, 1),
        ({"color": {"$in": ["red"]}, "size": {"$nin": [1]}, "day": {"$exists": True}}, 1),
        ({"color": {"$ne": "red"}, "size": {"$eq": 2}}, 1),
        ({"size": {"$gt": 1, "$lte": 2, "==": 2}}, 1),
    ],
)
def test_values_of_numpy_and_dates(shop, where, count):
    assert shop.count(where) == count


@pytest.mark.parametrize("indexed", [[], ["when"]])
@pytest.mark.parametrize("as_time", [False, True])
def test_a_date_is_the_midnight_with_which_it_begins(tmp_path, indexed, as_time):
    days = pd.date_range("2020-01-01", periods=3)
    kept = days if as_time else days.date
    with Collection.create(tmp_path / "shop", n_bits=8, indexed=indexed) as shop:
        shop.add(codes=np.zeros((3, 1), dtype=np.uint8), payload={"when": list(kept)})
        for second in (days[1], days[1].date(), np.datetime64("2020-01-02"), days[1].to_datetime64()):
            counts = {
                operator: shop.count({"when": {operator: second}}) for operator in ("<", "<=", "=", ">=", ">", "!=")
            }
            assert counts == {"<": 1, "<=": 2, "=": 1, ">=": 2, ">": 1, "!=": 2}
            assert shop.count({"when": {"in": [second, days[2]]}}) == 2
        noon = days[1] + pd.Timedelta(hours=12)
        assert [shop.count({"when": {operator: noon}}) for operator in ("<", "=", ">")] == [2, 0, 1]


def test_a_missing_time_is_null(shop):
    shop.add(codes=np.zeros((1, 1), dtype=np.uint8), ids=[9], payload=[{"day": pd.NaT}])
    assert shop.get(9).payload == {"day": None}
    assert shop.count({"day": pd.NaT}) == 1


def test_a_field_that_no_payload_has_is_told_once(shop):
    with pytest.warns(FilterWarning, match=r"'colour'.*payloads have day, size, color\. Did you mean 'color'\?"):
        assert shop.count({"colour": "red"}) == 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert shop.count({"colour": "red"}) == 0
        assert shop.count({"color": "green"}) == 0


def test_searches_and_deletes_tell_it_too(shop):
    code = np.zeros((1, 1), dtype=np.uint8)
    with pytest.warns(FilterWarning, match=r"'sizes\.width'") as told:
        assert not shop.search(codes=code, where={"sizes.width": 1})[0].to_list()
    assert told[0].filename == __file__
    with pytest.warns(FilterWarning, match="'near'") as told:
        assert not len(shop.within(codes=code, radius=8, where={"near": 1}).ids)
    assert told[0].filename == __file__
    with pytest.warns(FilterWarning, match="'sold'") as told:
        assert shop.delete(where={"sold": True}) == 0
    assert told[0].filename == __file__


def test_an_empty_collection_knows_no_fields(tmp_path):
    with Collection.create(tmp_path / "none", n_bits=8) as empty, warnings.catch_warnings():
        warnings.simplefilter("error")
        assert empty.count({"color": "red"}) == 0
