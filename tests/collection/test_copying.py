"""Copies have the same rows and answers, on every kind of storage, and an interrupted one goes on."""

import asyncio
import json
import uuid

import numpy as np
import pytest

import hashlearn as hl
from hashlearn import ITQ, Collection
from hashlearn.cli import main
from hashlearn.collection import CollectionError, UnsupportedByStoreError, copying
from hashlearn.progress import listening

X = np.random.default_rng(0).normal(size=(300, 6)).astype(np.float32)
IDS = {
    "int": list(range(7, 307)),
    "text": [f"row {n}" for n in range(300)],
    "uuid": [uuid.UUID(int=n) for n in range(300)],
}
PAYLOAD = [{"n": n, "text": f"t{n}", "nested": {"x": [n / 8, None]}} if n % 3 else None for n in range(300)]


@pytest.fixture(scope="module")
def hasher():
    return ITQ(n_bits=6, random_state=0).fit(X)


@pytest.fixture
def target(request, tmp_path):
    return str(tmp_path / "copy") if request.param == "embedded" else request.getfixturevalue(request.param)


def contents(collection):
    rows = [(item.id, item.code.tolist(), item.payload, item.vector.tolist()) for item in collection.get(where={})]
    return sorted(rows, key=lambda row: str(row[0]))


def filled(uri, hasher, ids="int", **settings):
    shop = Collection.create(uri, hasher, ids=ids, store_vectors=True, text_field="text", indexed=["n"], **settings)
    shop.add(X, ids=IDS[ids], payload=PAYLOAD)
    return shop


@pytest.mark.parametrize("ids", IDS)
def test_a_copy_in_memory_and_in_a_folder_is_the_same(hasher, tmp_path, ids):
    with filled(":memory:", hasher, ids, kind="ivf", n_lists=4) as shop, shop.copy(tmp_path / "copy") as folder:
        facts = ("n_bits", "hasher", "text_field", "vector_size", "kind", "settings", "indexed", "ids", "rows")
        assert [shop.info()[name] for name in facts] == [folder.info()[name] for name in facts]
        assert contents(folder) == contents(shop)
        with folder.copy(":memory:") as again:
            assert contents(again) == contents(shop)
            assert again.verify().problems == ()


@pytest.mark.parametrize("target", ["http_uri", "milvus_uri", "postgres_uri"], indirect=True)
@pytest.mark.parametrize("ids", ["int", "text"])
def test_a_copy_on_a_server_answers_the_same_and_comes_back(hasher, tmp_path, target, ids):
    with filled(tmp_path / "shop", hasher, ids) as shop, shop.copy(target) as copied:
        assert contents(copied) == contents(shop)
        for options in ({}, {"where": {"n": {">=": 100}}}, {"rescore": True}):
            here, there = shop.search(X[:9], 7, **options), copied.search(X[:9], 7, **options)
            assert there.ids.tolist() == here.ids.tolist()
            np.testing.assert_allclose(there.distances, here.distances, rtol=1e-6)
        with copied.copy(tmp_path / "back") as back:
            assert contents(back) == contents(shop)


@pytest.mark.parametrize("target", ["embedded", "milvus_uri"], indirect=True)
@pytest.mark.parametrize("ids", ["int", "text"])
def test_an_interrupted_copy_goes_on(hasher, target, monkeypatch, ids):
    monkeypatch.setattr(copying, "_BATCH_ROWS", 50)

    def stop(phase, done, total):
        if (phase, done) == ("copying", 150):
            raise KeyboardInterrupt

    with filled(":memory:", hasher, ids) as shop:
        with listening(stop), pytest.raises(KeyboardInterrupt):
            shop.copy(target)
        with Collection.open(target) as part:
            assert len(part) == 150
            changed = next(iter(part)).id
            part.update_payload(changed, {"n": -1})
            part.delete([item.id for item in part.get(limit=9)][8])
        told, written = [], []
        storage = type(part._opened)
        add = storage.add
        monkeypatch.setattr(storage, "add", lambda self, *rows: (written.append(len(rows[0])), add(self, *rows)))
        with listening(lambda *step: told.append(step)), shop.copy(target) as whole:
            assert contents(whole) == contents(shop)
        assert written == [2, 50, 50, 50]
        assert told == [("copying", done, 300) for done in range(50, 301, 50)]


def test_another_collection_at_the_target_is_refused_and_left_alone(hasher, tmp_path):
    other = hl.LSH(6, random_state=1).fit(X)
    with filled(":memory:", hasher) as shop:
        for made, says in (
            ({"hasher": other, "store_vectors": True}, "another hasher"),
            ({"hasher": hasher}, "vector_size=None. Got 6"),
            ({"hasher": hasher, "store_vectors": True, "ids": "text"}, "ids='text'. Got 'int'"),
            ({"n_bits": 6, "vector_size": 6}, "no hasher"),
        ):
            uri = tmp_path / str(len(list(tmp_path.iterdir())))
            Collection.create(uri, **made).close()
            with pytest.raises(CollectionError, match=says):
                shop.copy(uri)
            with Collection.open(uri) as there:
                assert len(there) == 0


def test_tables_are_refused_where_there_is_only_hamming_distance():
    hasher = hl.OpenHasher(32, random_state=0).fit(X, X[:, 0] > 0)
    with Collection.create(":memory:", hasher) as shop:
        for uri in ("milvus://127.0.0.1:1/shop", "postgresql://me@localhost/db?collection=shop"):
            with pytest.raises(UnsupportedByStoreError, match="cannot search by tables of scores, as OpenHasher"):
                shop.copy(uri)


def test_the_command_and_the_awaited_method(hasher, tmp_path, capsys):
    with filled(tmp_path / "shop", hasher) as shop:
        expected = contents(shop)
    for _ in range(2):
        assert main(["index", "copy", str(tmp_path / "shop"), str(tmp_path / "copy"), "--json"]) == 0
        facts = json.loads(capsys.readouterr().out)
        assert facts == {"collection": str(tmp_path / "shop"), "copy": str(tmp_path / "copy"), "rows": 300}
    assert main(["index", "copy", str(tmp_path / "shop"), ":memory:"]) == 2

    async def copied():
        async with (
            await hl.AsyncCollection.open(tmp_path / "copy", read_only=True) as shop,
            await shop.copy(":memory:") as made,
        ):
            return contents(made._collection)

    assert asyncio.run(copied()) == expected
