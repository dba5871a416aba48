"""Payloads as people have them: dicts, columns, tables."""

import datetime
import uuid

import numpy as np
import pytest

from hashlearn.collection.payloads import checked_payloads

ROWS = [{"a": 1, "b": "x"}, {"a": 2, "b": None}]


@pytest.mark.parametrize(
    "payload",
    [
        ROWS,
        tuple(ROWS),
        {"a": [1, 2], "b": ["x", None]},
        {"a": np.array([1, 2]), "b": np.array(["x", None], dtype=object)},
        [{"a": np.int32(1), "b": np.str_("x")}, {"a": np.int64(2), "b": None}],
    ],
)
def test_the_same_rows(payload):
    found = checked_payloads(payload, 2)
    assert found == ROWS
    assert all(type(value) in (int, str, type(None)) for row in found for value in row.values())


def test_tables():
    pa, pd = pytest.importorskip("pyarrow"), pytest.importorskip("pandas")
    assert checked_payloads(pa.Table.from_pylist(ROWS), 2) == ROWS
    frame = pd.DataFrame({"a": [1, 2], "b": ["x", None], "c": [0.5, np.nan], "d": pd.to_datetime(["2020-01-02", None])})
    assert checked_payloads(frame, 2) == [
        {"a": 1, "b": "x", "c": 0.5, "d": "2020-01-02T00:00:00"},
        {"a": 2, "b": None, "c": None, "d": None},
    ]
    assert checked_payloads(pd.DataFrame(index=range(2)), 2) == [{}, {}]
    dated = pa.table({"day": [datetime.date(2020, 1, 2)]})
    assert checked_payloads(dated, 1) == [{"day": "2020-01-02"}]


def test_a_column_holds_what_the_same_column_of_a_frame_holds():
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    rows = [{"a": 1.5}, {"a": None}]
    assert checked_payloads({"a": pd.Series([1.5, np.nan], index=[7, 9])}, 2) == rows
    assert checked_payloads({"a": pl.Series([1.5, None])}, 2) == rows
    with pytest.raises(ValueError, match=r"row 1 .*JSON has no nan"):
        checked_payloads({"a": np.array([1.5, np.nan])}, 2)


def test_arrays_in_cells_become_lists_and_uuids_text():
    one = uuid.UUID(int=7)
    cells = [np.array([1, 2]), np.array([], dtype=float), np.array(["2020-01-02"], dtype="M8[D]"), np.eye(2), one]
    assert [row["a"] for row in checked_payloads({"a": cells}, 5)] == [
        [1, 2],
        [],
        ["2020-01-02"],
        [[1.0, 0.0], [0.0, 1.0]],
        str(one),
    ]


def test_nothing():
    assert checked_payloads(None, 5) is None
    assert checked_payloads([None, {}], 2) == [{}, {}]
    assert checked_payloads([], 0) == []


@pytest.mark.parametrize(
    ("payload", "sentence"),
    [
        ("text", "payload must be"),
        (3, "payload must be"),
        ([1], "row 0 must be a dict"),
        ([{"a": {"b": [1, {"c": b"x"}]}}], r"row 0 .*in \['a'\]\['b'\].*bytes"),
        ([{"a": float("inf")}], "no inf"),
        ([{"a": np.float32("nan")}], "no nan"),
        ([{"a": np.array([1.0, np.nan])}], "no nan"),
        ([{"a": np.array(b"x")}], "ndarray"),
        ([{"a": -(2**63) - 1}], "64 bits"),
        ([{"a\0": 1}], "NUL"),
        ([{"a": ["\udfff"]}], "surrogate"),
        ({"a": [1], "b": [1, 2]}, "one length"),
        ({"a": "xy"}, "column 'a' must be a list"),
        ({1: [1]}, "keys must be text"),
    ],
)
def test_mistakes(payload, sentence):
    with pytest.raises(ValueError, match=sentence):
        checked_payloads(payload, 1)


def test_a_payload_is_a_copy():
    inner = {"list": [1]}
    (row,) = checked_payloads([inner], 1)
    inner["list"].append(2)
    assert row == {"list": [1]}


def test_polars_frames_are_payloads():
    polars = pytest.importorskip("polars")
    rows = [{"a": 1, "b": "x", "tags": ["p", "q"]}, {"a": None, "b": "é", "tags": []}]
    assert checked_payloads(polars.DataFrame(rows), 2) == rows
    with pytest.raises(ValueError, match=r"or a DataFrame of pandas or polars\. Got polars\.LazyFrame instead"):
        checked_payloads(polars.DataFrame(rows).lazy(), 2)
