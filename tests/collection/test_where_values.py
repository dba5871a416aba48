"""Filters with values as people have them, and with names that no payload has."""

import datetime
import warnings

import numpy as np
import pandas as pd
import pytest

from hashlearn import Collection
from hashlearn.collection.unknown_fields import UnknownFieldWarning

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
    ],
)
def test_values_of_numpy_and_dates(shop, where, count):
    assert shop.count(where) == count


def test_a_field_that_no_payload_has_is_told_once(shop):
    with pytest.warns(UnknownFieldWarning, match=r"'colour'.*payloads have day, size, color\. Did you mean 'color'\?"):
        assert shop.count({"colour": "red"}) == 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert shop.count({"colour": "red"}) == 0
        assert shop.count({"color": "green"}) == 0


def test_searches_and_deletes_tell_it_too(shop):
    code = np.zeros((1, 1), dtype=np.uint8)
    with pytest.warns(UnknownFieldWarning, match=r"'sizes\.width'") as told:
        assert not shop.search(codes=code, where={"sizes.width": 1})[0].to_list()
    assert told[0].filename == __file__
    with pytest.warns(UnknownFieldWarning, match="'sold'") as told:
        assert shop.delete(where={"sold": True}) == 0
    assert told[0].filename == __file__


def test_an_empty_collection_knows_no_fields(tmp_path):
    with Collection.create(tmp_path / "none", n_bits=8) as empty, warnings.catch_warnings():
        warnings.simplefilter("error")
        assert empty.count({"color": "red"}) == 0
