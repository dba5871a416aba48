"""Collections whose ids are texts or UUIDs, over HTTP: ids are strings in JSON and in addresses."""

from __future__ import annotations

import io
import uuid
from urllib.parse import quote

import numpy as np
import pytest
from service_box import AUTH, client, error_of, new_service, npy

NAMES = ["sku-7", "Zürich 東京", "a/b", "17"]
CODES = ["000f", "0f00", "f000", "ff00"]
API = "/api/v1/collections/named"


@pytest.fixture(scope="module")
def http(tmp_path_factory):
    folder = tmp_path_factory.mktemp("text_ids")
    (folder / "made").mkdir()
    with client(new_service(folder, create_in=folder / "made")) as http:
        for name, kind in (("named", "text"), ("drawn", "uuid")):
            made = http.post("/api/v1/collections", json={"name": name, "n_bits": 16, "ids": kind}, headers=AUTH)
            assert made.json()["ids"] == kind, made.text
        body = {"codes": CODES, "ids": NAMES, "payload": [{"label": str(n % 2)} for n in range(4)]}
        assert http.post(f"{API}/items", json=body, headers=AUTH).json() == {"ids": NAMES, "count": 4}
        yield http


def test_items_by_text(http):
    for name, code in zip(NAMES, CODES, strict=True):
        found = http.get(f"{API}/items/{quote(name, safe='')}").json()
        assert (found["id"], found["code"]) == (name, code)
        assert "$id" not in found["payload"]
    assert error_of(http.get(f"{API}/items/absent"), 404) == "no_item"
    assert http.get(f"{API}/random").json()["id"] in NAMES
    page = http.get(f"{API}/items", params={"limit": 3}).json()
    rest = http.get(f"{API}/items", params={"limit": 3, "after": page["next"]}).json()
    assert [item["id"] for item in page["items"] + rest["items"]] == sorted(NAMES)
    assert rest["next"] is None


def test_search_by_text(http):
    told = http.post(f"{API}/search", json={"ids": NAMES, "k": 3}).json()["results"]
    assert [one["query"]["id"] for one in told] == NAMES
    assert all(len(one["hits"]) == 3 and one["query"]["id"] not in [hit["id"] for hit in one["hits"]] for one in told)
    near = http.post(f"{API}/search", json={"codes": CODES, "radius": 0}).json()["results"]
    assert [[hit["id"] for hit in one["hits"]] for one in near] == [[name] for name in NAMES]
    assert sum(http.get(f"{API}/histogram", params={"id": "a/b"}).json()["counts"]) == 4
    arrays = np.load(
        io.BytesIO(
            http.post(
                f"{API}/search.npy?k=5",
                content=npy(np.array([[0, 15]], dtype=np.uint8)),
                headers={"Content-Type": "application/x-npy"},
            ).content
        )
    )
    assert (arrays["ids"][0, 0], arrays["ids"].shape) == ("sku-7", (1, 4))  # as many as there are rows
    assert sorted(http.get(f"{API}/map").json()["ids"]) == sorted(NAMES)
    assert http.get(f"{API}/confusion").json()["rows"][0][0]["id"] in NAMES


def test_ids_of_another_kind_are_refused(http):
    assert error_of(http.post(f"{API}/search", json={"ids": [17]}), 400) == "bad_id"
    assert error_of(http.post("/api/v1/collections/shop/search", json={"ids": ["x"]}), 400) == "bad_id"
    assert error_of(http.post(f"{API}/items", json={"codes": ["0000"]}, headers=AUTH), 400) == "bad_request"
    assert error_of(http.get("/api/v1/collections/drawn/items/x"), 400) == "bad_id"


def test_uuids_are_drawn_and_deleted(http):
    api = "/api/v1/collections/drawn"
    (drawn,) = http.post(f"{api}/items", json={"codes": ["0000"]}, headers=AUTH).json()["ids"]
    assert uuid.UUID(drawn).version == 4
    assert http.get(f"{api}/items/{drawn}").json()["id"] == drawn
    assert http.request("DELETE", f"{api}/items", json={"ids": [drawn]}, headers=AUTH).json() == {"deleted": 1}
    assert error_of(http.delete(f"{api}/items/{drawn}", headers=AUTH), 404) == "no_item"
