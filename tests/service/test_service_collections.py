"""Collections made and dropped over HTTP: with a token, in the folder given for them, and nowhere else."""

from __future__ import annotations

import asyncio
import json

import numpy as np
import pytest
from service_box import API, AUTH, TOKEN, client, command, error_of, new_service, rows

from hashlearn import Collection
from hashlearn.service.settings import Limits, Token

AT = "/api/v1/collections"


def test_made_filled_searched_and_dropped(tmp_path):
    with client(new_service(tmp_path, create_in=tmp_path / "made")) as http:
        assert http.get(AT).json()["can_create"] is True
        asked = {"name": "copy", "hasher_of": "shop", "store_vectors": True, "indexed": ["colour"]}
        facts = http.post(AT, json=asked, headers=AUTH).json()
        assert (facts["rows"], facts["n_bits"], facts["can"]["drop"]) == (0, 12, True)
        X = rows(5, seed=3)
        http.post(f"{AT}/copy/items", json={"vectors": X.tolist()}, headers=AUTH).raise_for_status()
        (result,) = http.post(f"{AT}/copy/search", json={"vectors": X[:1].tolist(), "k": 1}).json()["results"]
        assert (result["hits"][0]["id"], result["hits"][0]["distance"]) == (0, 0)
        http.post(AT, json={"name": "codes", "n_bits": 8}, headers=AUTH).raise_for_status()
        with Collection.open(tmp_path / "made" / "copy", read_only=True) as made:
            assert (len(made), made.info()["indexed"], made.vector_size) == (5, ["colour"], 16)
        assert http.delete(f"{AT}/copy", headers=AUTH).json() == {"dropped": "copy"}
        assert error_of(http.get(f"{AT}/copy"), 404) == "no_collection"
        assert [facts["name"] for facts in http.get(AT).json()["collections"]] == ["shop", "codes"]
        assert not (tmp_path / "made" / "copy").exists()
        http.post(AT, json=asked, headers=AUTH).raise_for_status()  # the name is free again


@pytest.mark.slow
def test_what_is_refused(tmp_path):
    (tmp_path / "made" / "notes").mkdir(parents=True)
    settings = {"create_in": tmp_path / "made", "tokens": (Token(TOKEN), Token("only-reads-things", False, "r"))}
    with client(new_service(tmp_path, limits=Limits(collections=2), **settings)) as http:
        reader = {"Authorization": "Bearer only-reads-things"}

        def code_of(status, headers=AUTH, **asked):
            return error_of(http.post(AT, json=asked, headers=headers), status)

        assert code_of(401, {}, name="x", n_bits=8) == "no_token"
        assert code_of(403, reader, name="x", n_bits=8) == "read_only_token"
        for name in ("", ".", "..", ".hidden", "a/b", "../x", "x" * 65, "a b", "ü"):
            assert code_of(400, name=name, n_bits=8) == "bad_request", name
        for wrong in ({}, {"n_bits": 0}, {"n_bits": 8, "hasher_of": "shop"}, {"n_bits": 8, "kind": "magic"}):
            assert code_of(400, name="x", **wrong) == "bad_request", wrong
        assert code_of(400, name="x", n_bits=8, store_vectors=True) == "bad_request"  # of which length?
        assert code_of(404, name="x", hasher_of="nobody") == "no_collection"
        assert code_of(409, name="shop", n_bits=8) == "exists"
        assert code_of(409, name="notes", n_bits=8) == "exists"
        assert sorted(path.name for path in (tmp_path / "made").iterdir()) == ["notes"]
        http.post(AT, json={"name": "x", "n_bits": 8}, headers=AUTH).raise_for_status()
        assert code_of(413, name="y", n_bits=8) == "too_many"
        assert error_of(http.delete(f"{AT}/x", headers=reader), 403) == "read_only_token"
        # What was named on the command line is its owner's.
        assert error_of(http.delete(API, headers=AUTH), 403) == "not_droppable"
    with client(new_service(tmp_path)) as http:
        response = http.post(AT, json={"name": "x", "n_bits": 8}, headers=AUTH)
        assert error_of(response, 403) == "no_creating"


def test_writes_that_waited_for_a_collection_that_is_gone(tmp_path):
    """They are told so; the storage is not touched."""
    service = new_service(tmp_path, create_in=tmp_path / "made")
    from hashlearn.service.errors import ApiError
    from hashlearn.service.routes_collections import add_items, create_collection, drop_collection
    from hashlearn.service.schemas import CreateRequest

    def call(route, **given):
        return asyncio.run(route(service=service, **given))

    try:
        call(create_collection, asked=CreateRequest(name="x", n_bits=8))
        served = service.collections["x"]
        call(drop_collection, served=served)
        with pytest.raises(ApiError, match="any more"):
            call(add_items, served=served, rows={"codes": np.zeros((1, 1), dtype=np.uint8)})
        with pytest.raises(ApiError, match="any more"):
            call(drop_collection, served=served)
    finally:
        service.close_now()


@pytest.mark.slow
def test_made_collections_are_there_after_a_restart(tmp_path):
    import httpx

    for expected in ([], ["x"]):
        with command("serve", "--create-in", tmp_path / "made", token=TOKEN) as (_, url):
            names = [facts["name"] for facts in httpx.get(url + AT, trust_env=False).json()["collections"]]
            assert names == expected
            if not names:
                body = json.dumps({"name": "x", "n_bits": 8})
                headers = {**AUTH, "Content-Type": "application/json"}
                httpx.post(url + AT, content=body, headers=headers, trust_env=False).raise_for_status()
