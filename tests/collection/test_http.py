"""Collections of a server, opened by their address: what only such a store can get wrong."""

import re
from pathlib import Path

import numpy as np
import pytest

import hashlearn as hl
from hashlearn.collection import CollectionError, CollectionExistsError, NoSuchRowsError, UnsupportedByStoreError
from hashlearn.collection.stores import http

X = np.random.default_rng(0).normal(size=(60, 8)).astype(np.float32)
HASHER = hl.ITQ(n_bits=12, random_state=0).fit(X)


@pytest.fixture
def shop(http_uri):
    place, _, token = http_uri.partition("?token=")
    with hl.Collection.create(place, HASHER, token=token, store_vectors=True, ids="text") as made:
        made.add(X, ids=[f"row {n}" for n in range(60)], payload=[{"n": n, "$or": None} for n in range(60)])
        yield made


def test_the_same_as_in_a_folder(shop, tmp_path):
    with hl.Collection.create(tmp_path / "shop", HASHER, store_vectors=True, ids="text") as folder:
        folder.add(X, ids=[f"row {n}" for n in range(60)], payload=[{"n": n, "$or": None} for n in range(60)])
        for how in ({}, {"asymmetric": True}, {"rescore": True}, {"where": {"n": {">=": 30}}}):
            one, other = (it.search(X[:7], k=5, include=["payload", "vector", "code"], **how) for it in (shop, folder))
            assert repr(one.to_list()) == repr(other.to_list())
        one, other = (it.within(X[:7], radius=3, limit=2) for it in (shop, folder))
        assert one.to_list() == other.to_list()
        assert one.found.tolist() == other.found.tolist()
        for ask in (
            lambda it: it.update_payload(["row 1", "row 2"], [{"new": 1}, {"new": 2}]),
            lambda it: it.update_payload(where={"n": {"<": 9}}, payload={"old": True}, merge=False),
            lambda it: it.delete(where={"n": 7}),
            lambda it: it.delete(["row 9", "row 77"]),
            lambda it: it.count({"old": True}),
            lambda it: [(item.id, item.payload) for item in it],
            lambda it: it.verify()[:3],
            lambda it: it.health()[:3],
        ):
            assert ask(shop) == ask(folder)
        for wrong in (lambda it: it.update_payload(["row 1", "no"], [{}, {}]), lambda it: it.search(X[0][:3])):
            said = []
            for it in (shop, folder):
                with pytest.raises((NoSuchRowsError, ValueError)) as caught:
                    wrong(it)
                said.append((type(caught.value), str(caught.value).replace(it.uri, "")))
            assert said[0] == said[1]


def test_many_queries_and_rows_are_sent_in_parts(shop, monkeypatch):
    whole, found = shop.search(X, k=4), shop.within(X, radius=2)
    monkeypatch.setattr(http, "_QUERIES", 7)
    monkeypatch.setattr(http, "_BODY_BYTES", 200)
    monkeypatch.setattr(http, "_FLOATS", 100)
    assert shop.search(X, k=4).to_list() == whole.to_list()
    assert shop.within(X, radius=2).to_list() == found.to_list()
    np.testing.assert_array_equal([item.vector for item in shop.get([f"row {n}" for n in range(60)])], X)
    shop.add(X[:30], ids=[f"more {n}" for n in range(30)])
    assert len(list(shop.scan(vectors=True))) == 8
    assert len(shop) == 90


def test_codes_of_an_open_hasher_are_searched_by_their_tables(http_uri, tmp_path):
    y = np.arange(60) % 3
    hasher = hl.OpenHasher(n_bits=64, random_state=0).fit(X, y)
    with hl.Collection.create(http_uri, hasher) as shop, hl.Collection.create(tmp_path / "same", hasher) as folder:
        for one in (shop, folder):
            one.add(X, payload={"y": y.tolist()}, labels=y)
        for emphasis in (None, "alike", "label", 0.3):
            one, other = (it.search(X[:5], k=4, emphasis=emphasis) for it in (shop, folder))
            assert one.to_list() == other.to_list()
        reach = float(other.distances[0, -1])
        one, other = (it.within(X[:5], radius=reach, emphasis=0.3, where={"y": {"<": 2}}) for it in (shop, folder))
        assert len(one.ids)
        assert one.to_list() == other.to_list()
    with hl.Collection.open(http_uri) as again:
        assert type(again.hasher) is hl.OpenHasher


def test_the_model_of_a_server_is_replaced(shop, http_server):
    new = (X @ np.linalg.qr(np.random.default_rng(1).normal(size=(8, 8)))[0]).astype(np.float32)
    shop.migrate(new[:40], [f"row {n}" for n in range(40)], vectors="drop")
    with hl.Collection.open(f"{shop.uri}?token={http_server[1]}") as again:
        assert again.vector_size is None
        assert again.search(new[3], k=1)[0].distance <= 2
    shop.undo_migration()
    assert shop.vector_size == 8
    assert shop.search(X[3], k=1, rescore=True)[0].id == "row 3"


def test_places_and_tokens(http_server, http_uri, monkeypatch):
    url, token = http_server
    place = http_uri.partition("?")[0]
    with pytest.raises(CollectionError, match=r"There is no collection at http://.*: create it first"):
        hl.Collection.open(place)
    with pytest.raises(CollectionError, match=r"Writing needs a token.*Give token= .*HASHLEARN_TOKEN"):
        hl.Collection.create(place, n_bits=8)
    monkeypatch.setenv("HASHLEARN_TOKEN", token)
    with hl.Collection.create(place, n_bits=8) as made:
        assert (made.uri, made.info()["storage"]) == (place, "embedded")
        assert token not in repr(made)
    with pytest.raises(CollectionExistsError, match="open it, or drop it first"):
        hl.Collection.create(place, n_bits=8)
    listed = {facts["uri"]: facts for facts in hl.collections(url)}
    assert (listed[place]["rows"], listed[place]["n_bits"], listed[place]["ids"]) == (0, 8, "int")
    with hl.Collection.open(place, read_only=True) as reader, pytest.raises(CollectionError, match="reading only"):
        reader.add(codes=np.zeros((1, 1), dtype=np.uint8))
    with hl.Collection.open(place) as shop, pytest.raises(UnsupportedByStoreError, match="hashlearn index backup"):
        shop.backup("x")
    hl.Collection.drop(place)
    assert place not in {facts["uri"] for facts in hl.collections(url)}
    for wrong, says in (
        ("http://127.0.0.1:1/shop", r"Cannot reach http://127.0.0.1:1/shop"),
        ("http://127.0.0.1:1", "no address of a collection"),
        ("http://[::1/shop", "no address of a collection"),
    ):
        with pytest.raises(CollectionError, match=says):
            hl.Collection.open(wrong)
    with pytest.raises(ValueError, match="token= is for collections on a server"):
        hl.Collection.open("folder", token="x")


def test_bodies_that_are_no_calls(http_server, shop):
    import httpx

    _, token = http_server
    base = f"{shop._store._link.server}{shop._store._link.path}/store/"
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/vnd.msgpack"}
    codes, ids = http.wire.Array("uint8", [1, 2], b"\0\x01"), http.wire.Array("int64", [1], bytes(8))
    table = http.wire.WireQuery(values=codes)
    huge = http.wire.WireQuery(values=http.wire.Array("float32", [2**40, 2**40], b""))
    floats = http.wire.Array("float64", [1], bytes(8))
    for call, message in (
        ("search", b"\xc1"),
        ("search", {"query": 7, "k": 1}),
        ("search", http.wire.SearchCall(table, 3)),  # a padding bit is set
        ("search", http.wire.SearchCall(huge, 3)),
        ("search", http.wire.SearchCall(http.wire.WireQuery(), 3)),
        ("count", {"where": {"a": {"~": 1}}}),
        ("get", http.wire.GetCall(http.wire.Array("int64", [-1], b""))),
        ("get", http.wire.GetCall(http.wire.Array("int64", [1], b"\xff" * 8))),
        ("get", http.wire.GetCall(floats)),
        ("get", {"ids": 7}),
        ("write/add", http.wire.AddCall(ids, codes, [{"$id": "another"}])),
        ("write/delete", {"where": {}}),
        ("write/update", http.wire.UpdateCall([{"a": 1}], True, where={"$id": "row 1"})),
        ("write/replace", http.wire.ReplaceCall(shop._store.spec.fingerprint, b"no model")),
    ):
        body = message if isinstance(message, bytes) else http.wire.encode(message)
        answer = httpx.post(base + call, content=body, headers=headers)
        assert (answer.status_code, set(answer.json())) == (400, {"error"}), call
    assert (
        httpx.post(base + "write/compact", content=b"\x80", headers={**headers, "Authorization": ""}).status_code == 401
    )
    assert httpx.post(base + "nothing", content=b"\x80", headers=headers).status_code == 404
    assert len(shop) == 60


def test_the_page(http_server, monkeypatch):
    url, token = http_server
    page = (Path(__file__).parents[2] / "docs" / "stores.md").read_text()
    (block,) = [one for one in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "http://" in one]
    with hl.Collection.create(f"{url}/shop", HASHER, token=token) as shop:
        shop.add(X, payload=[{"year": 2000 + n} for n in range(60)])
    names = {"X": X}
    exec(block.replace("http://127.0.0.1:8765", url).replace('"..."', repr(token)), names)
    assert (names["hits"].ids >= 20).all()
    hl.Collection.drop(f"{url}/shop", token=token)
