"""Ids that are texts or UUIDs, on every kind of storage: what users give is what they get back."""

import json
import uuid

import numpy as np
import pytest

from hashlearn import ITQ, Collection, codes
from hashlearn.collection import CollectionError, WhereError, ids

N_BITS = 12
NAMES = ["sku-7", "Zürich 東京", "17", "a/b [c], d"]


@pytest.fixture(params=("embedded", "milvus", "postgres"))
def uri(request, tmp_path):
    return str(tmp_path / "shop") if request.param == "embedded" else request.getfixturevalue(f"{request.param}_uri")


@pytest.fixture
def folder_uri(tmp_path):
    return tmp_path / "shop"


def packed(count=4, seed=0):
    return codes.pack(np.random.default_rng(seed).integers(0, 2, (count, N_BITS), dtype=np.uint8))


def text_shop(uri):
    shop = Collection.create(uri, n_bits=N_BITS, ids="text")
    added = shop.add(codes=packed(), ids=NAMES, payload=[{"n": n} for n in range(len(NAMES))])
    assert added.tolist() == NAMES
    return shop


def test_texts_on_every_store(uri):
    text_shop(uri).close()
    with Collection.open(uri) as shop:
        assert (shop.id_kind, shop.info()["ids"], shop.info()["settings"]) == ("text", "text", {})
        for n, name in enumerate(NAMES):
            hit = shop.search(codes=packed()[n], k=1)[0]
            assert (hit.id, hit.distance, hit.payload) == (name, 0, {"n": n})
            assert shop.get(name).payload == {"n": n}
        assert [None if one is None else one.id for one in shop.get(["17", "no", "17"])] == ["17", None, "17"]
        hits = shop.search(codes=packed(), k=6)
        assert hits.filled.sum(axis=1).tolist() == [4] * 4
        assert hits.ids.shape == (4, 4)
        assert [row[0]["id"] for row in hits.to_list()] == NAMES
        ball = shop.within(codes=packed(), radius=0)
        assert [ball.ids[a:b].tolist() for a, b in zip(ball.offsets[:-1], ball.offsets[1:], strict=True)] == [
            [name] for name in NAMES
        ]
        shop.add(codes=packed(1, seed=9), ids=["17"], payload=[{"n": "new"}])
        assert (len(shop), shop.get("17").payload) == (4, {"n": "new"})
        (rows,) = shop.scan()
        assert sorted(rows.ids) == sorted(NAMES)
        assert all(set(payload) == {"n"} for payload in rows.payloads)
        assert (shop.delete(["17", "absent"]), shop.delete("sku-7"), len(shop)) == (1, 1, 2)
        assert shop.verify().problems == ()


def test_uuids_on_every_store(uri):
    given = [uuid.UUID(int=n) for n in range(3)]
    with Collection.create(uri, n_bits=N_BITS, ids="uuid") as shop:
        assert shop.add(codes=packed(3), ids=[given[0], str(given[1]).upper(), given[2]]).tolist() == given
        drawn = shop.add(codes=packed(2, seed=5)).tolist()
        assert all(one.version == 4 for one in drawn)
        assert shop.search(codes=packed(3), k=1).ids[:, 0].tolist() == given
        assert shop.get(str(given[1])).id == given[1]
        assert {one for rows in shop.scan() for one in rows.ids} == {*given, *drawn}
        assert shop.delete([str(given[0]), drawn[0]]) == 2


def test_a_collision_is_refused_and_touches_no_row(folder_uri, monkeypatch):
    monkeypatch.setattr(ids, "number_of", lambda text: len(text))
    with Collection.create(folder_uri, n_bits=N_BITS, ids="text") as shop:
        with pytest.raises(CollectionError, match="'bb' and 'aa' have the same number"):
            shop.add(codes=packed(2), ids=["aa", "bb"])
        shop.add(codes=packed(1), ids=["aa"])
        with pytest.raises(CollectionError, match="'bb' and 'aa' have the same number"):
            shop.add(codes=packed(1, seed=3), ids=["bb"])
        assert shop.get("bb") is None
        assert shop.delete(["bb"]) == 0
        assert [item.id for item in shop.get(["aa"])] == ["aa"]


def test_the_field_of_the_text_is_out_of_reach(folder_uri):
    with text_shop(folder_uri) as shop:
        with pytest.raises(WhereError, match="not known in a filter"):
            shop.count({"$id": "17"})
        with pytest.raises(ValueError, match=r"row 0 has the field '\$id'"):
            shop.add(codes=packed(1), ids=["x"], payload=[{"$id": "y"}])
        with pytest.warns(UserWarning, match="payloads have n[.]"):
            shop.count({"nothing": 1})


@pytest.mark.parametrize(
    ("kind", "ids", "says"),
    [
        ("text", None, "give ids="),
        ("text", [1, 2], "Got 1 instead"),
        ("text", ["a", "a"], "Got 'a' twice"),
        ("text", ["a"], "1 ids and 2 rows"),
        ("text", ["", "a"], "1 to 1024 characters"),
        ("text", "ab", "must be a list of texts"),
        ("uuid", ["x", "y"], "Got 'x' instead"),
        ("int", ["a", "b"], "whole numbers"),
    ],
)
def test_wrong_ids_are_refused(folder_uri, kind, ids, says):
    with Collection.create(folder_uri, n_bits=N_BITS, ids=kind) as shop:
        with pytest.raises(ValueError, match=says):
            shop.add(codes=packed(2), ids=ids)
        assert len(shop) == 0


def test_an_unknown_kind_of_ids_is_refused(folder_uri):
    with pytest.raises(ValueError, match="Got 'str' instead"):
        Collection.create(folder_uri, n_bits=N_BITS, ids="str")
    assert not folder_uri.exists()


def test_rescoring_and_backups_keep_the_texts(folder_uri, tmp_path):
    X = np.random.default_rng(0).normal(size=(40, 6)).astype(np.float32)
    names = [f"row {n}" for n in range(40)]
    with Collection.create(folder_uri, ITQ(n_bits=6, random_state=0).fit(X), store_vectors=True, ids="text") as shop:
        shop.add(X, ids=np.array(names))
        hits = shop.search(X[:5], k=2, rescore=True, include=["payload", "vector"])
        assert hits.ids[:, 0].tolist() == names[:5]
        np.testing.assert_array_equal(hits[3].vectors[0], X[3])
        assert shop.search(X[:5], k=40, asymmetric=True).filled.all()
        shop.backup(tmp_path / "copy")
    with Collection.restore(tmp_path / "copy", tmp_path / "again") as again:
        assert again.get("row 9").id == "row 9"


def test_exports_hold_the_texts(folder_uri, tmp_path):
    faiss = pytest.importorskip("faiss")
    import pyarrow.parquet as parquet

    with text_shop(folder_uri) as shop:
        shop.export(tmp_path / "out.parquet")
        shop.export(tmp_path / "out.npy")
        shop.export(tmp_path / "out.faiss")
    table = parquet.read_table(tmp_path / "out.parquet").to_pylist()
    assert {row["id"]: json.loads(row["payload"]) for row in table} == {name: {"n": n} for n, name in enumerate(NAMES)}
    ids = np.load(tmp_path / "out.ids.npy")
    assert dict(zip(ids.tolist(), np.load(tmp_path / "out.npy").tolist(), strict=True)) == dict(
        zip(NAMES, packed().tolist(), strict=True)
    )
    told = json.loads((tmp_path / "out.ids.json").read_bytes())
    index = faiss.read_index_binary(str(tmp_path / "out.faiss"))
    little = np.packbits(np.unpackbits(packed(), axis=1), axis=1, bitorder="little")
    numbers = index.search(little, 1)[1][:, 0].tolist()
    assert (told["ids"], [told["texts"][str(number)] for number in numbers]) == ("text", NAMES)


def test_a_migration_finds_rows_by_their_texts(folder_uri):
    X = np.random.default_rng(0).normal(size=(200, 6)).astype(np.float32)
    names = [f"row {n}" for n in range(200)]
    with Collection.create(folder_uri, ITQ(n_bits=6, random_state=0).fit(X), ids="text") as shop:
        shop.add(X, ids=names)
        shop.migrate(X @ np.diag(np.arange(1, 7)).astype(np.float32), names)
        with pytest.raises(ValueError, match="Got 'row 1' twice"):
            shop.migrate(X[:2], ["row 1", "row 1"])
