"""Codes of OpenHasher in the service: the emphasis is chosen by each search, and scores have no radius."""

from __future__ import annotations

import numpy as np
import pytest
from service_box import ROWS, client, error_of, new_service, rows

import hashlearn as hl
from hashlearn.service.served_collection import open_collection

OPEN = "/api/v1/collections/open"


@pytest.fixture
def service(tmp_path):
    labels = np.arange(ROWS) % 3
    hasher = hl.OpenHasher(n_bits=32, random_state=0).fit(rows(), labels)
    with hl.Collection.create(tmp_path / "open", hasher, store_vectors=True) as made:
        made.add(rows(), labels=labels, payload={"label": labels.tolist()})
    service = new_service(tmp_path)
    service.collections["open"] = open_collection(str(tmp_path / "open"))
    return service


def test_a_search_says_how_much_labels_count(service):
    collection = service.collections["open"].collection
    with client(service) as http:
        can = http.get(OPEN).json()["can"]
        assert (can["emphasis"], can["asymmetric"], can["rescore"]) == (True, False, True)
        answers = []
        for emphasis in ("alike", 0.3, "label"):
            body = {"vectors": rows()[:2].tolist(), "k": 5, "emphasis": emphasis}
            found = http.post(f"{OPEN}/search", json=body).json()["results"]
            wanted = collection.search(rows()[:2], k=5, emphasis=emphasis)
            assert [[hit["id"] for hit in one["hits"]] for one in found] == wanted.ids.tolist()
            assert [one.get("skipped", 0) for one in found] == wanted.skipped.tolist()
            answers.append(wanted.ids.tolist())
        assert wanted.skipped.all()  # rows of other labels
        assert answers[0] != answers[-1]
        asked = http.post(f"{OPEN}/search", json={"ids": [4], "k": 5, "emphasis": "alike", "exclude_self": False})
        assert asked.json()["results"][0]["hits"][0]["id"] == 4  # a stored row finds itself first


def test_what_cannot_be_is_said(service):
    with client(service) as http:
        vector = rows()[:1].tolist()
        for wrong in ("most", 1.5, -0.1):
            reply = http.post(f"{OPEN}/search", json={"vectors": vector, "emphasis": wrong})
            assert error_of(reply, 400) == "bad_request"
        assert error_of(http.post(f"{OPEN}/search", json={"vectors": vector, "radius": 3}), 400) == "bad_request"
        assert error_of(http.get(f"{OPEN}/histogram?id=3"), 400) == "unsupported"
        shop = {"vectors": vector, "emphasis": "auto"}
        assert error_of(http.post("/api/v1/collections/shop/search", json=shop), 400) == "bad_request"
