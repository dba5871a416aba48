"""Collections on servers are served as those in a folder are, whatever kind their ids are of."""

from __future__ import annotations

import contextlib
import uuid
from urllib.parse import quote

import numpy as np
import pytest
from collection.servers import milvus_server, milvus_uri, postgres_server, postgres_uri  # noqa: F401 - fixtures
from service_box import AUTH, ROWS, TOKEN, client, error_of, npy, payload, rows

from hashlearn import ITQ, Collection
from hashlearn.codes import hamming_distances
from hashlearn.service.served_collection import open_collection
from hashlearn.service.service import Service
from hashlearn.service.settings import ServerSettings, Token

SETTINGS = ServerSettings(tokens=(Token(TOKEN),))
IDS = {
    "int": [7, 0, 2**62],
    "text": ["sku-7", "Zürich/東京 1", "17"],
    "uuid": [str(uuid.UUID(int=number)) for number in (1, 2, 3)],
}
CODES = np.arange(6, dtype=np.uint8).reshape(3, 2)
VECTORS = np.arange(6, dtype=np.float32).reshape(3, 2)


@pytest.mark.parametrize("place", ["postgres_uri", "milvus_uri"])
def test_a_collection_on_a_server(place, request):
    uri = request.getfixturevalue(place)
    X = rows()
    hasher = ITQ(n_bits=16, random_state=0).fit(X)
    with Collection.create(uri, hasher, store_vectors=True) as made:
        made.add(X, ids=np.arange(ROWS), payload=payload())
    codes = hasher.encode(X)
    far = hamming_distances(codes[7:8], codes)[0].astype(int)
    near = sorted((int(distance), row) for row, distance in enumerate(far) if row != 7)
    service = Service([open_collection(uri, "far")], SETTINGS)
    api = "/api/v1/collections/far"
    with client(service) as http:
        (facts,) = http.get("/api/v1/collections").json()["collections"]
        assert (facts["name"], facts["rows"], facts["label_field"]) == ("far", ROWS, "label")
        assert "@" not in http.get(api).text
        found = http.post(f"{api}/search", json={"ids": [7], "k": 9}).json()["results"][0]["hits"]
        assert [(hit["distance"], hit["id"]) for hit in found] == near[:9]
        body = {"ids": [7], "k": ROWS, "where": {"colour": "red", "year": {">=": 2000}}}
        found = http.post(f"{api}/search", json=body).json()["results"][0]["hits"]
        assert {hit["id"] for hit in found} == {row for row in range(10, ROWS) if row % 3 == 0}
        found = http.post(f"{api}/search", json={"ids": [7], "radius": 4}).json()["results"][0]
        assert [(hit["distance"], hit["id"]) for hit in found["hits"]] == [pair for pair in near if pair[0] <= 4]
        answer = http.post(f"{api}/search", json={"vectors": X[7:8].tolist(), "k": 1, "mode": "rescore"})
        assert answer.json()["results"][0]["hits"][0]["id"] == 7
        asymmetric = http.post(f"{api}/search", json={"vectors": X[7:8].tolist(), "k": 1, "mode": "asymmetric"})
        assert asymmetric.status_code == 200 or error_of(asymmetric, 400) == "unsupported"
        assert http.get(f"{api}/histogram?id=7").json()["counts"] == np.bincount(far, minlength=17).tolist()
        assert [item["id"] for item in http.get(f"{api}/items?limit=5&after=9").json()["items"]] == [10, 11, 12, 13, 14]
        assert http.get(f"{api}/random").json()["id"] < ROWS
        assert http.get(f"{api}/stats").json()["rows"] == ROWS
        headers = {**AUTH, "Content-Type": "application/x-npy"}
        added = http.post(f"{api}/items.npy?first_id=500", content=npy(X[:3]), headers=headers).json()
        assert added == {"ids": [500, 501, 502], "count": 3}
        assert http.delete(f"{api}/items/501", headers=AUTH).json() == {"deleted": 1}
        assert http.get(api).json()["rows"] == ROWS + 2
        assert http.get("/readyz").status_code == 200


@contextlib.contextmanager
def served(uris):
    """A service with a collection of three rows per kind of ids, which are dropped at the end."""
    for kind, uri in uris.items():
        with Collection.create(uri, n_bits=16, vector_size=2, ids=kind) as made:
            made.add(codes=CODES, ids=IDS[kind], payload=[{"color": "red", "price": 1}] * 3, vectors=VECTORS)
    try:
        service = Service([open_collection(uri, kind) for kind, uri in uris.items()], SETTINGS)
        with client(service) as http:
            yield http
    finally:
        for uri in uris.values():
            Collection.drop(uri)


@pytest.mark.slow
@pytest.mark.parametrize("place", ["folder", "postgres_uri", "milvus_uri"])
def test_new_payloads_on_every_store_and_kind_of_ids(place, request, tmp_path):
    base = str(tmp_path / "x") if place == "folder" else request.getfixturevalue(place)
    with served({kind: f"{base}_{kind}" for kind in IDS}) as http:
        for kind, ids in IDS.items():
            api = f"/api/v1/collections/{kind}"
            body = {"ids": ids[:2], "payload": [{"price": 2}, {"new": [1]}]}
            assert http.patch(f"{api}/items", json=body, headers=AUTH).json() == {"updated": 2}
            one = f"{api}/items/{quote(str(ids[2]), safe='')}"
            assert http.patch(one, json={"payload": {"price": 3}}, headers=AUTH).json() == {"updated": 1}
            items = [http.get(f"{api}/items/{quote(str(one), safe='')}").json() for one in ids]
            assert [item["payload"] for item in items] == [
                {"color": "red", "price": 2},
                {"color": "red", "price": 1, "new": [1]},
                {"color": "red", "price": 3},
            ]
            assert [bytes.fromhex(item["code"]) for item in items] == [code.tobytes() for code in CODES]
            assert [item["vector"] for item in items] == VECTORS.tolist()
            found = http.post(f"{api}/search", json={"codes": ["0000"], "where": {"price": 3}}).json()
            assert [hit["id"] for hit in found["results"][0]["hits"]] == [ids[2]]
            whole = http.patch(one, json={"payload": {"n": None}, "merge": False}, headers=AUTH)
            assert whole.json() == {"updated": 1}
            assert http.get(one).json()["payload"] == {"n": None}
            assert http.get(api).json()["rows"] == 3
