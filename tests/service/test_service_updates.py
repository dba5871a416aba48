"""New payloads over HTTP, and what is told about filters with fields that cannot match."""

from __future__ import annotations

import io
import warnings

import numpy as np
import pytest
from service_box import API, AUTH, ROWS, TOKEN, client, error_of, new_service, npy, payload, rows

from hashlearn.service.served_collection import open_collection
from hashlearn.service.service import Service
from hashlearn.service.settings import ServerSettings, Token

SETTINGS = ServerSettings(tokens=(Token(TOKEN),))


@pytest.fixture
def http(tmp_path):
    with client(new_service(tmp_path)) as it:
        yield it


def test_a_missing_item_changes_nothing(http):
    body = {"ids": [0, ROWS], "payload": [{"year": 0}, {"year": 0}]}
    assert error_of(http.patch(f"{API}/items", json=body, headers=AUTH), 404) == "no_item"
    assert http.get(f"{API}/items/0").json()["payload"] == payload()[0]
    assert error_of(http.patch(f"{API}/items/{ROWS}", json={"payload": {}}, headers=AUTH), 404) == "no_item"


def test_all_items_that_match_get_the_same_fields(http):
    body = {"where": {"colour": "red", "year": {">=": 2000}}, "payload": {"sold": True}}
    count = sum(row["colour"] == "red" and row["year"] >= 2000 for row in payload())
    assert http.patch(f"{API}/items", json=body, headers=AUTH).json() == {"updated": count}
    found = http.post(f"{API}/search", json={"ids": [0], "k": ROWS, "where": {"sold": True}}).json()["results"][0]
    assert len(found["hits"]) == count
    assert all(hit["payload"]["colour"] == "red" for hit in found["hits"])
    body["where"] = {"color": "red"}
    told = http.patch(f"{API}/items", json=body, headers=AUTH).json()
    assert told["updated"] == 0
    assert "Did you mean 'colour'?" in told["warnings"][0]


def test_updates_need_a_token_and_a_right_body(http):
    good = {"ids": [0], "payload": [{"year": 1}]}
    assert error_of(http.patch(f"{API}/items", json=good), 401) == "no_token"
    assert error_of(http.patch(f"{API}/items/0", json={"payload": {"year": 1}}), 401) == "no_token"
    for body in (
        {"ids": [0]},
        {"payload": [{}]},
        {"ids": [0, 1], "payload": [{}]},
        {"ids": [0, 0], "payload": [{}, {}]},
        {"ids": [0], "payload": {"year": 1}},
        {"where": {"year": 1}, "payload": [{"year": 1}]},
        {"where": {"year": 1}, "ids": [0], "payload": [{"year": 1}]},
        {"where": {"year": {"about": 1}}, "payload": {"year": 1}},
        {"ids": [0], "payload": [{}], "merge": 1},
        {"ids": [], "payload": []},
        {"ids": ["x"], "payload": [{}]},
    ):
        assert error_of(http.patch(f"{API}/items", json=body, headers=AUTH), 400), body
    for one in ({}, {"payload": [{}]}, {"payload": None}, {"year": 1}):
        assert error_of(http.patch(f"{API}/items/0", json=one, headers=AUTH), 400), one
    assert error_of(http.patch(f"{API}/items/x", json={"payload": {}}, headers=AUTH), 400) == "bad_id"
    assert error_of(http.patch(f"{API}/items", content=b"{}", headers=AUTH), 415) == "wrong_type"
    assert http.get(f"{API}/items/0").json()["payload"] == payload()[0]


def test_read_only_collections_are_not_updated(tmp_path):
    new_service(tmp_path).close_now()
    service = Service([open_collection(str(tmp_path / "shop"), read_only=True)], SETTINGS)
    with client(service) as http:
        assert error_of(http.patch(f"{API}/items/0", json={"payload": {}}, headers=AUTH), 403) == "read_only"


def test_a_filter_with_an_unknown_field_is_told_in_every_answer(http):
    body = {"ids": [0], "where": {"color": "red"}}
    says = (
        "No payload has the field 'color', so the filter finds nothing: payloads have colour, year, label. "
        "Did you mean 'colour'?"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # the operator of the server gets no warning
        for more in ({}, {}, {"radius": 3}):
            assert http.post(f"{API}/search", json=body | more).json()["warnings"] == [says]
    for address in ("search.npy?k=2", "search.npy?radius=3"):
        asked = http.post(
            f"{API}/{address}",
            params={**dict([address.partition("?")[2].split("=")]), "where": '{"color": "red"}'},
            content=npy(rows(2)),
            headers={"Content-Type": "application/x-npy"},
        )
        assert np.load(io.BytesIO(asked.content))["warnings"].tolist() == [says]
    gone = http.request("DELETE", f"{API}/items", json={"where": {"color": "red"}}, headers=AUTH).json()
    assert gone == {"deleted": 0, "warnings": [says]}


def test_values_of_another_kind_are_told_too(http):
    told = http.post(f"{API}/search", json={"ids": [0], "where": {"year": "5"}}).json()["warnings"]
    assert told == [
        "The field 'year' holds numbers, not text, so the filter finds nothing: a comparison holds only between values "
        "of one kind."
    ]


def test_known_fields_are_not_warned_of(http):
    for where in ({"year": 5}, {"colour": "red"}, {}):
        assert "warnings" not in http.post(f"{API}/search", json={"ids": [0], "where": where}).json()
    many = {"$or": [{f"field{n}": 1} for n in range(1000)]}
    assert len(http.post(f"{API}/search", json={"ids": [0], "where": many}).json()["warnings"]) == 20
    long = http.post(f"{API}/search", json={"ids": [0], "where": {"x" * 10_000: 1}}).json()["warnings"]
    assert [len(sentence) for sentence in long] == [500]
