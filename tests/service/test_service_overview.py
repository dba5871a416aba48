"""Answers about all rows of a collection: fields, the map, and which labels are confused."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from service_box import API, AUTH, N_BITS, ROWS, client, new_service

from hashlearn import Collection
from hashlearn.service import routes_overview
from hashlearn.service.routes_overview import Landmarks, fitted_landmarks
from hashlearn.service.served_collection import open_collection
from hashlearn.service.service import Service


def test_fields(tmp_path):
    with Collection.create(tmp_path / "c", n_bits=8) as made:
        payload = [
            {"name": f"n{row}", "size": {"width": row / 2}, "tags": ["a", "b"][: row % 3], "on": True, "a.b": None}
            for row in range(5)
        ]
        made.add(codes=np.zeros((5, 1), dtype=np.uint8), payload=payload)
    with client(Service([open_collection(str(tmp_path / "c"))])) as http:
        told = http.get("/api/v1/collections/c/fields").json()
        fields = {field["name"]: field for field in told["fields"]}
        assert told["sampled"] == 5
        assert list(fields) == ["name", "size.width", "tags", "on", "a\\.b"]
        assert fields["name"]["kinds"] == ["text"]
        assert fields["name"]["characters"] == 2
        assert (fields["size.width"]["lowest"], fields["size.width"]["highest"]) == (0, 2)
        assert fields["size.width"]["path"] == ["size", "width"]
        assert fields["tags"]["kinds"] == ["list"]
        assert fields["tags"]["values"] == ["a", "b"]
        assert fields["on"]["values"] == [True]
        # Every name is one that a filter takes.
        for name in fields:
            asked = {"codes": ["00"], "where": {name: {"exists": True}}}
            (result,) = http.post("/api/v1/collections/c/search", json=asked).json()["results"]
            assert len(result["hits"]) == 5, name


def test_the_map(tmp_path):
    """Rows lie where the landmarks of the answer put their codes; other rows of the same code lie around them."""
    with client(new_service(tmp_path)) as http:
        told = http.get(f"{API}/map").json()
        items = http.get(f"{API}/items?limit=1000").json()["items"]
    assert told["rows"] == told["shown"] == ROWS
    assert told["ids"] == [item["id"] for item in items]
    assert told["labels"] == ["0", "1", "2", "3"]
    assert [told["labels"][label] for label in told["label"]] == [item["payload"]["label"] for item in items]
    codes = np.stack([np.frombuffer(bytes.fromhex(item["code"]), dtype=np.uint8) for item in items])
    landmarks = Landmarks(
        np.stack([np.frombuffer(bytes.fromhex(one["code"]), dtype=np.uint8) for one in told["landmarks"]]),
        np.array([[one["x"], one["y"]] for one in told["landmarks"]], dtype=np.float32),
        N_BITS,
    )
    places = landmarks.places_of(codes)
    shown = np.stack([told["x"], told["y"]], axis=1)
    first = np.unique(codes, axis=0, return_index=True)[1]
    np.testing.assert_allclose(shown[first], places[first], atol=1e-3)
    assert 0.6 < told["trust"] <= 1  # the pictures are noise, so how much depends on rounding


def test_rows_with_one_code_do_not_cover_each_other():
    codes = np.zeros((500, 2), dtype=np.uint8)
    codes[300:] = 255
    places = fitted_landmarks(codes, 16).places_of(codes) + routes_overview.spread(codes)
    assert len(np.unique(places.round(4), axis=0)) == 500
    assert np.ptp(places[:300, 0]) < 0.5


def test_an_answer_is_computed_once_per_version(tmp_path, monkeypatch):
    calls, begun = [], threading.Event()
    map_of = routes_overview.map_of

    def counted(served):
        calls.append(served.name)
        begun.set()
        return map_of(served)

    monkeypatch.setattr(routes_overview, "map_of", counted)
    with client(new_service(tmp_path)) as http, ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(lambda _: http.get(f"{API}/map").json(), range(4)))
        assert answers[0] == answers[3]
        assert len(calls) == 1
        http.delete(f"{API}/items/0", headers=AUTH)
        assert http.get(f"{API}/map").json()["rows"] == ROWS - 1
        assert http.get(f"{API}/map").status_code == 200
        assert len(calls) == 2


def test_confusion(tmp_path):
    """Two labels with the same codes are confused, a third is not; a row of each cell shows it."""
    codes = np.repeat(np.array([[0], [0], [255]], dtype=np.uint8), 30, axis=0)
    labels = ["cat"] * 30 + ["dog"] * 30 + ["car"] * 30
    with Collection.create(tmp_path / "c", n_bits=8) as made:
        order = np.random.default_rng(0).permutation(90)
        made.add(codes=codes[order], payload=[{"label": labels[row]} for row in order])
    with client(Service([open_collection(str(tmp_path / "c"))])) as http:
        told = http.get("/api/v1/collections/c/confusion").json()
        table = {
            (own, other): told["rows"][row][column]
            for row, own in enumerate(told["labels"])
            for column, other in enumerate([*told["labels"], "other"])
        }
        assert (told["sampled"], told["all_labels"]) == (90, 3)
        assert 1 / 3 < told["own_share"] < 1
        assert table["car", "car"]["share"] == 1
        assert table["cat", "car"] == {"share": 0, "id": None}
        assert table["cat", "dog"]["share"] + table["cat", "cat"]["share"] == 1
        assert table["cat", "dog"]["share"] > 0.1
        example = http.get(f"/api/v1/collections/c/items/{table['cat', 'dog']['id']}").json()
        assert example["payload"]["label"] == "cat"


def test_of_many_labels_the_most_confused_are_listed(tmp_path):
    """30 labels with codes of their own, and two more that share one."""
    codes = np.repeat(np.arange(31, dtype=np.uint8) * 8, 12)
    codes = np.concatenate([codes, codes[-12:]])
    numbers = np.concatenate([np.repeat(np.arange(30), 12), np.tile([30, 31], 12)]).tolist()
    payload = [{"labels": [f"l{number}", "more"][: 1 + (number == 0)]} for number in numbers]
    with Collection.create(tmp_path / "c", n_bits=8) as made:
        made.add(codes=codes[:, None], payload=payload)
    with client(Service([open_collection(str(tmp_path / "c"))])) as http:
        told = http.get("/api/v1/collections/c/confusion").json()
    assert told["all_labels"] == 33
    assert len(told["labels"]) == len(told["rows"]) == 20
    assert set(told["labels"][:2]) == {"l30", "l31"}
    assert 0.3 < told["rows"][0][1]["share"] < 0.7
    worst = told["most_confused"]
    assert [worst[0]["label"], worst[1]["label"]] == told["labels"][1::-1]
    assert worst[0]["share"] == told["rows"][0][1]["share"]
    assert worst[2:].count(None) >= 17  # the other labels are confused with none
    for row in told["rows"]:
        assert sum(cell["share"] for cell in row) == pytest.approx(1, abs=0.005)


def test_nothing_to_look_at(tmp_path):
    Collection.create(tmp_path / "c", n_bits=8).close()
    with client(Service([open_collection(str(tmp_path / "c"))])) as http:
        at = "/api/v1/collections/c"
        assert http.get(f"{at}/fields").json() == {"sampled": 0, "fields": []}
        assert http.get(f"{at}/map").json()["ids"] == []
        assert http.get(f"{at}/confusion").json()["rows"] == []
