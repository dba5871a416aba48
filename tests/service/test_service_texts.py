"""Searching and adding texts: by the text model that a hasher names, where the server was told to load it."""

from __future__ import annotations

import pytest
from letters_model import letters
from service_box import API, AUTH, SIDE, client, error_of, new_service, rows

from hashlearn.service import served_collection
from hashlearn.service.settings import Limits

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

    loaded: dict = {}
    one, other = (served_collection.text_features(Hasher(), loaded) for _ in range(2))
    assert one is other
    assert letters.loaded == ["some-model"]
    assert one.rows(["a", "b"]).shape == (2, 26)
    assert served_collection.text_features(object(), loaded) is None
    Hasher.n_features_in_ = 17
    with pytest.raises(ValueError, match="makes rows of 26 numbers, the hasher takes 17"):
        served_collection.text_features(Hasher(), loaded)
