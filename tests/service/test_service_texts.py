"""Searching and adding texts: by the text model that a hasher names, where the server was told to load it."""

from __future__ import annotations

import time
from types import SimpleNamespace

import httpx
import pytest
from letters_model import letters
from service_box import API, AUTH, SIDE, client, error_of, new_service, rows

from hashlearn import Collection
from hashlearn.data import embed
from hashlearn.service.served_collection import open_collection
from hashlearn.service.service import Service
from hashlearn.service.settings import Limits, ServerSettings

__all__ = ["letters"]  # a fixture


class Lengths:
    """A stand-in for a text model: a text of n letters is row n."""

    n_features = SIDE * SIDE

    def rows(self, texts):
        return rows()[[len(text) for text in texts]]


def test_texts_are_embedded_and_searched(tmp_path):
    service = new_service(tmp_path, limits=Limits(texts=2, text_chars=20))
    service.collections["shop"].texts = Lengths()
    with client(service) as http:
        assert http.get(API).json()["can"]["text"] is True
        for mode in ("hamming", "rescore"):
            body = {"texts": ["abc", "abcdef"], "k": 4, "mode": mode}
            found = http.post(f"{API}/search", json=body).json()["results"]
            body.pop("texts")
            wanted = http.post(f"{API}/search", json={**body, "vectors": rows()[[3, 6]].tolist()}).json()["results"]
            assert [result["hits"] for result in found] == [result["hits"] for result in wanted]
        assert error_of(http.post(f"{API}/search", json={"texts": ["a"] * 3}), 413) == "too_many"
        assert error_of(http.post(f"{API}/search", json={"texts": ["a" * 21]}), 413) == "too_large"
        assert error_of(http.post(f"{API}/search", json={"texts": []}), 400) == "bad_request"
        assert error_of(http.post(f"{API}/search", json={"texts": ["a", " "]}), 400) == "bad_request"
        assert error_of(http.post(f"{API}/search", json={"texts": ["a"], "ids": [1]}), 400) == "bad_request"
    with client(new_service(tmp_path)) as http:
        assert error_of(http.post(f"{API}/search", json={"texts": ["a"]}), 400) == "no_texts"


def test_texts_are_embedded_and_added(tmp_path):
    service = new_service(tmp_path, limits=Limits(texts=2, text_chars=20))
    service.collections["shop"].texts = Lengths()
    with client(service) as http:
        body = {"texts": ["abc", "abcdef"], "ids": [900, 901], "payload": [{"text": "abc"}, {"text": "abcdef"}]}
        added = http.post(f"{API}/items", json=body, headers=AUTH)
        assert added.json() == {"ids": [900, 901], "count": 2}
        for one, row, text in zip((900, 901), (3, 6), body["texts"], strict=True):
            item, known = (http.get(f"{API}/items/{number}").json() for number in (one, row))
            assert item["code"] == known["code"]
            assert item["payload"] == {"text": text}
        count = http.get(API).json()["rows"]
        for wrong, status, says in (
            ({"texts": ["a"] * 3}, 413, "too_many"),
            ({"texts": ["a" * 21]}, 413, "too_large"),
            ({"texts": []}, 400, "bad_request"),
            ({"texts": ["a", " "]}, 400, "bad_request"),
            ({"texts": ["a", 1]}, 400, "bad_request"),
            ({"texts": ["a"], "codes": ["00"]}, 400, "bad_request"),
            ({"texts": ["a"], "vectors": [[0.0]]}, 400, "bad_request"),
        ):
            assert error_of(http.post(f"{API}/items", json=wrong, headers=AUTH), status) == says, wrong
        assert error_of(http.post(f"{API}/items", json={"texts": ["a"]}), 401)
        assert error_of(http.post(f"{API}/items", json={"texts": ["a"], "ids": [1, 2]}, headers=AUTH), 400)
        assert http.get(API).json()["rows"] == count
    with client(new_service(tmp_path)) as http:
        assert error_of(http.post(f"{API}/items", json={"texts": ["a"]}, headers=AUTH), 400) == "no_texts"


def test_the_model_that_a_hasher_names(letters):
    class Hasher:
        text_model_ = "some-model"
        n_features_in_ = 26

    service = Service([])
    one, other, without = (SimpleNamespace(name=name, hasher=Hasher(), texts=None) for name in ("one", "other", "none"))
    without.hasher = object()
    assert [service.load_text_model(served) for served in (one, other, without)] == [None] * 3
    assert one.texts is other.texts
    assert letters.loaded == ["some-model"]
    assert one.texts.rows(["a", "b"]).shape == (2, 26)
    assert without.texts is None
    Hasher.n_features_in_ = 17
    assert "makes rows of 26 numbers, the hasher takes 17" in service.load_text_model(one)
    service.close_now()


def until(true):
    end = time.monotonic() + 20
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_collections_of_clients_know_their_texts_and_labels(letters, http_server, http_uri, monkeypatch):
    """The server loads the text model of a collection that a client makes, and embeds where the client cannot."""
    url, _ = http_server
    name = http_uri.partition("?")[0].rpartition("/")[2]
    texts, labels = ["card lost", "rain today", "book flight"] * 8, ["card", "weather", "travel"] * 8
    with Collection.from_texts(http_uri, texts, labels, "m", label_field="topic", n_bits=16) as faq:
        address = f"{url}/api/v1/collections/{name}"
        until(lambda: httpx.get(address).json()["can"]["text"])
        facts = httpx.get(address).json()
        assert (facts["label_field"], facts["has_labels"], facts["text_model"]) == ("topic", True, "m")
        wanted = faq.search(texts=["rain"], k=3).to_list()

        def missing(name):
            raise embed.TextExtraMissing("Embedding texts needs sentence-transformers.")

        with Collection.open(http_uri) as again, monkeypatch.context() as patch:
            patch.setattr(embed, "text_model", missing)
            assert again.search(texts=["rain"], k=3).to_list() == wanted
            assert again.search(texts="rain", k=3).ids.tolist() == [hit["id"] for hit in wanted[0]]
            again.add(texts=["rain"] * 101, payload={"text": ["rain"] * 101})
            with Collection.create(":memory:", faq.hasher) as local, pytest.raises(ImportError, match="needs sentence"):
                local.search(texts="rain")


def test_text_models_are_loaded_unless_told_otherwise(letters, tmp_path):
    Collection.from_texts(tmp_path / "faq", ["a b", "c d"] * 20, model="m", n_bits=16).close()
    for wanted in (True, False):
        service = Service([open_collection(str(tmp_path / "faq"))], ServerSettings(search_texts=wanted))
        served = service.collections["faq"]
        assert service.load_text_model(served) is None
        assert (served.texts is not None) is wanted
        served.hasher.n_features_in_ = 17
        assert (service.load_text_model(served) is None) is not wanted
        service.close_now()
