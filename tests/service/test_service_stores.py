"""Collections on servers are served as those in a folder are."""

from __future__ import annotations

import numpy as np
import pytest
from collection.servers import milvus_server, milvus_uri, postgres_server, postgres_uri  # noqa: F401 - fixtures
from service_box import AUTH, ROWS, TOKEN, client, error_of, npy, payload, rows

from hashlearn import ITQ, Collection
from hashlearn.codes import hamming_distances
from hashlearn.service.served_collection import open_collection
from hashlearn.service.service import Service
from hashlearn.service.settings import ServerSettings
from hashlearn.service.tokens import Token


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
    service = Service([open_collection(uri, "far")], ServerSettings(tokens=(Token(TOKEN),)))
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
