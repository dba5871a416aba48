"""New payloads for stored rows, on every kind of storage: codes and vectors stay."""

import threading
import time
from contextlib import contextmanager

import numpy as np
import pytest

from hashlearn import ITQ, Collection
from hashlearn.collection import CollectionError, NoSuchRowsError, ids, store
from hashlearn.collection.filter_advice import FilterWarning
from hashlearn.collection.stores import store_class
from hashlearn.collection.stores.milvus import store as milvus_store

CODES = np.arange(6, dtype=np.uint8).reshape(3, 2)


@pytest.fixture(params=("embedded", "milvus", "postgres"))
def uri(request, tmp_path):
    return str(tmp_path / "shop") if request.param == "embedded" else request.getfixturevalue(f"{request.param}_uri")


def test_fields_are_merged_or_replaced(uri):
    vectors = np.arange(6, dtype=np.float32).reshape(3, 2)
    with Collection.create(uri, n_bits=16, vector_size=2, ids="text") as shop:
        shop.add(codes=CODES, ids=["a", "b", "c"], payload=[{"n": 1, "color": "red"}] * 3, vectors=vectors)
        assert shop.update_payload(["c", "a"], {"n": [3, 2]}) == 2
        assert shop.update_payload("b", {"n": 9}, merge=False) == 1
        items = shop.get(["a", "b", "c"])
        assert [item.payload for item in items] == [{"n": 2, "color": "red"}, {"n": 9}, {"n": 3, "color": "red"}]
        np.testing.assert_array_equal([item.code for item in items], CODES)
        np.testing.assert_array_equal([item.vector for item in items], vectors)
        assert shop.count({"n": 3}) == 1
        assert len(shop) == 3


def test_a_missing_row_changes_nothing(tmp_path):
    with Collection.create(tmp_path / "shop", n_bits=16) as shop:
        shop.add(codes=CODES, payload=[{"n": 1}] * 3)
        with pytest.raises(CollectionError, match="the first is 7: no payload was changed"):
            shop.update_payload([0, 7], [{"n": 2}, {"n": 2}])
        with pytest.raises(ValueError, match="Got 0 twice"):
            shop.update_payload([0, 0], [{"n": 2}, {"n": 2}])
        assert [item.payload for item in shop.get([0, 1, 2])] == [{"n": 1}] * 3
        assert shop.update_payload([], []) == 0


def test_rows_that_match_get_the_same_fields(uri):
    with Collection.create(uri, n_bits=16, ids="text") as shop:
        shop.add(codes=CODES, ids=["a", "b", "c"], payload=[{"n": 1}, {"n": 2}, {"n": 2, "sold": False}])
        assert shop.update_payload(where={"n": 2}, payload={"sold": True}) == 2
        assert [item.payload for item in shop.get(["a", "b", "c"])] == [{"n": 1}] + [{"n": 2, "sold": True}] * 2
        np.testing.assert_array_equal([item.code for item in shop.get(["a", "b", "c"])], CODES)
        assert shop.update_payload(where={"n": 3}, payload={"sold": True}) == 0


def test_what_an_update_by_filter_refuses(tmp_path):
    with Collection.create(tmp_path / "shop", n_bits=16) as shop:
        shop.add(codes=CODES, payload=[{"n": 1}] * 3)
        with pytest.raises(ValueError, match="Give ids or where= to update"):
            shop.update_payload(payload={"n": 2})
        with pytest.raises(ValueError, match="Give ids or where= to update"):
            shop.update_payload([0], [{"n": 2}], where={"n": 1})
        with pytest.raises(ValueError, match="payload must be one dict for all rows"):
            shop.update_payload(where={"n": 1}, payload=[{"n": 2}] * 3)
        with pytest.warns(FilterWarning, match="'m'") as told:
            shop.update_payload(where={"m": 1}, payload={"n": 2})
        assert told[0].filename == __file__
        assert shop.count({"n": 1}) == 3


def test_payloads_are_replaced_whole_by_filter_and_rows_keep_their_ids(uri):
    with Collection.create(uri, n_bits=16, ids="text") as shop:
        shop.add(codes=CODES, ids=["a", "b", "c"], payload=[{"n": 1}, {"n": 2}, {"n": 2, "sold": False}])
        assert shop.update_payload(where={"n": 2}, payload={"gone": True}, merge=False) == 2
        assert [item.payload for item in shop.get(["a", "b", "c"])] == [{"n": 1}, {"gone": True}, {"gone": True}]
        with pytest.raises(ValueError, match="'\\$id'"):
            shop.update_payload(where={"n": 1}, payload={"$id": "b"})
        with pytest.raises(NoSuchRowsError, match=r"2 of these 3 ids are not in .*, the first is 'x'") as caught:
            shop.update_payload(["x", "a", "y"], {"n": [5, 5, 5]})
        assert caught.value.missing == ["x", "y"]
        assert shop.get("a").payload == {"n": 1}


def test_the_row_of_another_text_with_the_same_number_is_not_changed(tmp_path, monkeypatch):
    monkeypatch.setattr(ids, "number_of", len)
    with Collection.create(tmp_path / "shop", n_bits=16, ids="text") as shop:
        shop.add(codes=CODES[:1], ids=["aa"], payload=[{"n": 1}])
        with pytest.raises(NoSuchRowsError, match="the first is 'bb'"):
            shop.update_payload("bb", {"n": 2})
        assert shop.get("aa").payload == {"n": 1}


def test_vectors_that_a_migration_set_aside_stay(uri):
    X = np.random.default_rng(0).normal(size=(60, 6)).astype(np.float32)
    with Collection.create(uri, ITQ(6, random_state=0).fit(X), store_vectors=True) as shop:
        ids = shop.add(X, payload={"n": list(range(60))})
        shop.migrate(X[:, ::-1], ids, vectors="drop")
        assert shop.update_payload(where={"n": {"<": 9}}, payload={"seen": True}) == 9
        shop.undo_migration()
        np.testing.assert_array_equal([item.vector for item in shop.get(ids)], X)


# Storages with transactions: three blocks of rows, of which the first has been written when something happens.


@pytest.fixture(params=("embedded", "postgres"))
def full(request, tmp_path):
    """A collection of 25,000 rows whose filters on "n" and "old" are remembered, and its URI."""
    place = str(tmp_path / "shop") if request.param == "embedded" else request.getfixturevalue("postgres_uri")
    codes = np.random.default_rng(0).integers(0, 256, (25_000, 2), dtype=np.uint8)
    with Collection.create(place, n_bits=16, vector_size=2, indexed=["n"]) as shop:
        vectors = np.arange(50_000, dtype=np.float32).reshape(-1, 2)
        shop.add(codes=codes, payload={"n": [0] * 25_000, "old": [True] * 25_000}, vectors=vectors)
        assert (shop.count({"n": 0}), shop.count({"old": True})) == (25_000, 25_000)
        yield shop, place, codes, vectors


@contextmanager
def during_the_update(monkeypatch, place, act):
    """Call ``act`` when the first block has been written."""
    kind = store_class(place)
    plain = kind.update_payloads

    class Watched(store.PayloadUpdate):
        def changed(self, blocks):
            for number, rows in enumerate(super().changed(blocks)):
                if number == 1:
                    act()
                yield rows

    def update(self, asked):
        return plain(self, Watched(*asked))

    with monkeypatch.context() as patched:
        patched.setattr(kind, "update_payloads", update)
        yield


@pytest.mark.parametrize("by_ids", [False, True])
def test_many_rows_are_changed_at_once(full, by_ids):
    shop, place, codes, vectors = full
    wanted = {"where": {"old": True}, "payload": {"n": 1, "old": False}}
    if by_ids:
        ids = np.random.default_rng(1).permutation(25_000)
        wanted = {"ids": ids, "payload": {"n": [1] * 25_000, "old": [False] * 25_000, "place": ids}}
    assert shop.update_payload(**wanted) == 25_000
    with Collection.open(place) as again:
        for one in (shop, again):
            assert (one.count({"n": 1}), one.count({"n": 0}), one.count({"old": True})) == (25_000, 0, 0)
            assert not one.search(codes=codes[:3], k=5, where={"n": 1, "old": True}).filled.any()
            if by_ids:
                assert all(item.payload["place"] == item.id for item in one)
        rows = list(again.scan(vectors=True))
    np.testing.assert_array_equal(np.concatenate([batch.codes for batch in rows]), codes)
    np.testing.assert_array_equal(np.concatenate([batch.vectors for batch in rows]), vectors)
    assert not shop.verify().problems


@pytest.mark.parametrize("error", [CollectionError, KeyboardInterrupt])
def test_a_failure_in_the_middle_changes_nothing(full, monkeypatch, error):
    shop, place, codes, _ = full

    def fail():
        raise error("in the middle")

    before = shop.search(codes=codes[:3], k=5, where={"n": 0, "old": True}).ids
    with during_the_update(monkeypatch, place, fail), pytest.raises(error, match="in the middle"):
        shop.update_payload(where={"n": 0}, payload={"n": 1, "old": False})
    with Collection.open(place) as again:
        for one in (shop, again):
            assert (one.count({"n": 0}), one.count({"n": 1}), one.count({"old": False})) == (25_000, 0, 0)
            np.testing.assert_array_equal(one.search(codes=codes[:3], k=5, where={"n": 0, "old": True}).ids, before)
    assert all(item.payload == {"n": 0, "old": True} for item in shop.get([0, 9_999, 10_000, 24_999]))
    assert not shop.verify().problems
    assert shop.update_payload(where={"n": 0}, payload={"n": 1}) == 25_000  # nothing is left that would be in its way


def test_a_row_that_is_missing_at_the_end_changes_nothing(full):
    shop, *_ = full
    with pytest.raises(NoSuchRowsError, match=r"1 of these 25001 ids are not in .*, the first is 25000: no payload"):
        shop.update_payload(np.arange(25_001), {"n": [1] * 25_001})
    assert (shop.count({"n": 0}), shop.count({"n": 1})) == (25_000, 0)


def test_what_another_writer_replaces_meanwhile_is_kept(full, monkeypatch):
    shop, place, codes, _ = full
    new = ~codes[[12_000, 24_000]]

    def replace():
        with Collection.open(place) as other:
            other.add(codes=new, ids=[12_000, 24_000], payload=[{"n": 7}] * 2, vectors=np.ones((2, 2), np.float32))

    writer = threading.Thread(target=replace)

    def start():
        writer.start()
        time.sleep(0.5)  # enough for a writer that need not wait

    with during_the_update(monkeypatch, place, start):
        assert shop.update_payload(where={"n": 0}, payload={"n": 1}) == 25_000
    writer.join()
    items = shop.get([12_000, 24_000])
    np.testing.assert_array_equal([item.code for item in items], new)
    assert [item.payload for item in items] == [{"n": 7}] * 2
    np.testing.assert_array_equal([item.vector for item in items], 1)
    assert (shop.count({"n": 1}), shop.count({"n": 7})) == (24_998, 2)


def test_what_another_program_writes_in_sql_meanwhile_is_kept(postgres_server, postgres_uri, monkeypatch):
    table = postgres_uri.partition("collection=")[2]

    def write():
        with postgres_server.connect() as other:
            other.execute(f"UPDATE {table} SET payload = payload || '{{\"sql\": 1}}' WHERE id = 10001")

    writer = threading.Thread(target=write)

    def start():
        writer.start()
        time.sleep(0.5)  # enough for a writer that need not wait

    with Collection.create(postgres_uri, n_bits=16) as shop:
        codes = np.random.default_rng(0).integers(0, 256, (10_002, 2), dtype=np.uint8)
        shop.add(codes=codes, payload={"n": [0] * 10_002})
        with during_the_update(monkeypatch, postgres_uri, start):
            shop.update_payload(where={"n": 0}, payload={"n": 1})
        writer.join()
        assert shop.get(10_001).payload == {"n": 1, "sql": 1}


def test_milvus_refuses_before_it_writes_and_says_what_it_wrote(milvus_uri, monkeypatch):
    monkeypatch.setattr(store, "_UPDATE_ROWS", 2)
    with Collection.create(milvus_uri, n_bits=16) as shop:
        shop.add(codes=CODES, ids=[0, 1, 2], payload=[{"n": 0}] * 3)
        with pytest.raises(CollectionError, match=r"of at most 65536 bytes of JSON. That of id 2 has"):
            shop.update_payload([0, 1, 2], {"n": [1, 1, 1], "text": ["", "", "x" * 70_000]})
        assert shop.count({"n": 0}) == 3
        passes = iter([lambda: None, lambda: shop.delete([2])])
        plain = milvus_store.update_blocks

        def update_blocks(ids, *phase):
            act = next(passes)
            for number, block in enumerate(plain(ids, *phase)):
                if number == 1:
                    act()
                yield block

        monkeypatch.setattr(milvus_store, "update_blocks", update_blocks)
        with pytest.raises(NoSuchRowsError, match="is 2: it was removed meanwhile, and 2 payloads were changed"):
            shop.update_payload([0, 1, 2], {"n": [1, 1, 1]})
        assert [item.payload for item in shop] == [{"n": 1}] * 2
