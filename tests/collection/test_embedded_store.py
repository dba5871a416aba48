"""The folder: several writers, readers that follow, damage, full disks, kinds of index."""

import multiprocessing
import os
import shutil
import sqlite3
import threading
import time

import numpy as np
import pytest

from hashlearn import Collection, Index
from hashlearn.collection import CollectionError
from hashlearn.collection.stores.embedded import blocks, filters, synced_index
from hashlearn.collection.stores.embedded import database as connection
from hashlearn.collection.stores.embedded import store as embedded
from hashlearn.collection.stores.embedded.store import EmbeddedStore
from hashlearn.collection.where import matches, parse
from hashlearn.progress import listening

BITS = 16


def random_codes(count, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (count, BITS // 8), dtype=np.uint8)


@pytest.fixture
def shop(tmp_path):
    with Collection.create(tmp_path / "shop", n_bits=BITS) as collection:
        yield collection


@pytest.fixture
def busy_blocks(monkeypatch):
    """Blocks merge, are written anew, and reach the index in batches after few rows."""
    monkeypatch.setattr(embedded, "_FAN", 3)
    monkeypatch.setattr(embedded, "_FULL_ROWS", 60)
    monkeypatch.setattr(embedded, "_WASTE_ROWS", 150)
    monkeypatch.setattr(embedded, "_REWRITTEN_ROWS", 100)
    monkeypatch.setattr(synced_index, "_BATCH_ROWS", 50)


@pytest.mark.slow
def test_any_history_equals_a_dict(tmp_path, busy_blocks):
    """A reader that looks now and then, one that opens anew, and the writer agree with a dict after any changes."""
    rng = np.random.default_rng(0)
    folder, model, base = tmp_path / "shop", {}, 0
    with Collection.create(folder, n_bits=BITS) as writer, Collection.open(folder, read_only=True) as reader:
        for step in range(250):
            ids = rng.choice(400, int(rng.choice([1, 3, 40])), replace=False)
            if rng.random() < 0.7:
                codes = rng.integers(0, 256, (len(ids), 2), dtype=np.uint8)
                payload = [{"step": step} if rng.random() < 0.5 else None for _ in ids]
                writer.add(codes=codes, ids=ids, payload=payload)
                model |= {i: (c.tobytes(), p or {}) for i, c, p in zip(ids.tolist(), codes, payload, strict=True)}
            else:
                gone = [model.pop(number, None) for number in ids.tolist()]
                assert writer.delete(ids) == sum(row is not None for row in gone)
            if step % 17 == 0 or step == 249:
                with Collection.open(folder) as fresh:
                    for collection in (writer, reader, fresh):
                        rows = next(iter(collection.scan(1000)))
                        found = zip(rows.ids.tolist(), rows.codes, rows.payloads, strict=True)
                        assert {i: (c.tobytes(), p) for i, c, p in found} == model
                        assert len(collection) == len(model)
                        index = Index(BITS)
                        index.add(rows.codes, rows.ids)
                        query = random_codes(2, step)
                        np.testing.assert_array_equal(
                            collection.search(codes=query, k=9).ids, index.search(query, 9).ids
                        )
        blocks, (base,) = _asked(folder, "SELECT size FROM block"), _asked(folder, "SELECT base FROM state")[0]
    assert base > 0  # written anew at least once
    assert len(blocks) < 40


@pytest.mark.slow
def test_kept_filters_follow_changes(shop, monkeypatch):
    """Filters that were asked before are answered from what has changed since, and never differ from asking anew."""
    rng = np.random.default_rng(3)
    wheres = [{"g": 1}, {"g": {"!=": 1}}, {"g": True}, {"g": {"exists": False}}, {"g": {"<": 3}}]
    anew, original = [], filters.matching_ids
    monkeypatch.setattr(filters, "matching_ids", lambda *args: anew.append(1) or original(*args))
    values = [0, 1, 2, True, None, "1"]
    shop.add(codes=random_codes(400), payload=[{"g": values[n % 6]} if n % 7 else None for n in range(400)])
    for step in range(40):
        ids = rng.choice(420, 8, replace=False)
        if step % 3:
            payload = [{"g": values[n]} if n < 6 else None for n in rng.integers(0, 7, 8)]
            shop.add(codes=random_codes(8, step), ids=ids, payload=payload)
        else:
            shop.delete(ids)
        rows = next(iter(shop.scan(1000)))
        for where in wheres[step % 2 :: 2]:
            expected = [n for n, p in zip(rows.ids, rows.payloads, strict=True) if matches(parse(where), p)]
            hits = shop.search(codes=random_codes(1), k=420, where=where).ids[0]
            assert sorted(hits[hits >= 0].tolist()) == expected
    assert len(anew) < 30  # of 100 questions; blocks that merge name more rows than have changed


def _asked(folder, question):
    db = sqlite3.connect(folder / connection.FILE)
    try:
        return db.execute(question).fetchall()
    finally:
        db.close()


@pytest.mark.slow
def test_single_rows_leave_few_blocks(tmp_path, monkeypatch):
    with Collection.create(tmp_path / "shop", n_bits=BITS) as collection:
        for number in range(300):
            collection.add(codes=random_codes(1, number))
        assert collection.info()["blocks"] < 2 * 16
        assert collection.search(codes=random_codes(1, 123), k=300).ids[0, 0] == 123


def test_blocks_are_split_where_a_row_of_sqlite_would_be_too_large(tmp_path, monkeypatch):
    """Texts of indexed fields and lists of removed ids make blocks large."""
    monkeypatch.setattr(blocks, "MAX_BYTES", 5000)
    monkeypatch.setattr(embedded, "_FULL_BYTES", 1500)
    payload = [{"text": f"{number} " + "x" * 90} for number in range(1200)]
    with (
        Collection.create(tmp_path / "shop", n_bits=BITS, indexed=["text"]) as shop,
        Collection.open(tmp_path / "shop", read_only=True) as reader,
    ):
        for start in range(0, 200, 5):
            shop.add(codes=random_codes(5), payload=payload[start : start + 5])
            assert reader.count({"text": payload[start]["text"]}) == 1  # a reader that follows every change
        shop.add(codes=random_codes(1000), payload=payload[200:])
        assert shop.delete(np.arange(900, 1200)) == 300
        for step in range(3):
            assert len(shop) == len(reader) == 900
            assert shop.count({"text": payload[899]["text"]}) == reader.count({"text": payload[899]["text"]}) == 1
            largest = "SELECT max(length(ids) + length(codes) + length(gone) + length(columns)), sum(size) FROM block"
            with shop._store._database.reading() as transaction:
                size, entries = transaction.db.execute(largest).fetchone()
                assert size <= 5000
                assert entries == transaction.state.entries
            assert shop.verify().problems == ()
            if step == 0:
                shop.compact()
            elif step == 1:
                shop.delete([5])
                shop.add(codes=random_codes(1), ids=[5], payload=payload[5:6])
    with Collection.open(tmp_path / "shop") as again:
        assert again.get(899).payload == payload[899]


def test_a_row_that_sqlite_cannot_hold_is_said(shop, tmp_path):
    connections = shop._store._database._free
    shop.count()
    connections[0].setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 10_000)
    with pytest.raises(CollectionError, match=r"more than SQLite can keep in one row .* nothing of this was written"):
        shop.add(codes=random_codes(1), payload=[{"text": "x" * 20_000}])


def test_a_failed_change_leaves_nothing(shop):
    shop.add(codes=random_codes(10), payload={"n": range(10)})
    payloads = shop._store._payloads

    def break_down(*_):
        raise KeyboardInterrupt

    original, payloads.remove = payloads.remove, break_down
    with pytest.raises(KeyboardInterrupt):
        shop.add(codes=random_codes(5, 1), ids=[0, 1, 2, 30, 31])
    payloads.remove = original
    assert len(shop) == shop.count({"n": {"exists": True}}) == 10
    assert (shop.search(codes=random_codes(10), k=1).distances == 0).all()
    shop.add(codes=random_codes(1, 2), ids=[77])
    assert shop.search(codes=random_codes(1, 2), k=1).ids[0, 0] in (77, *range(10))


def _add_rows(folder, start, count):
    with Collection.open(folder) as collection:
        for number in range(count):
            collection.add(codes=random_codes(3, start + number), payload=[{"writer": start}] * 3)


@pytest.mark.slow
def test_writers_in_several_processes_take_turns(shop, tmp_path):
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_add_rows, args=(tmp_path / "shop", 1000 * n, 25)) for n in range(1, 3)]
    for writer in writers:
        writer.start()
    seen = []
    while any(writer.is_alive() for writer in writers):
        seen.append(len(shop))
        assert seen[-1] % 3 == 0  # whole transactions only
        time.sleep(0.005)
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    assert seen == sorted(seen)
    assert len(shop) == 150  # no id was given out twice
    assert shop.count({"writer": 1000}) == shop.count({"writer": 2000}) == 75
    assert len(np.unique(shop.search(codes=random_codes(1), k=200).ids)) == 150


def test_threads_add_without_ids(shop):
    def add(seed):
        for number in range(10):
            shop.add(codes=random_codes(2, seed * 100 + number))

    threads = [threading.Thread(target=add, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(shop) == 80


def test_a_writer_that_waits_too_long_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(connection, "WAIT_SECONDS", 0.1)
    with Collection.create(tmp_path / "shop", n_bits=BITS) as shop:
        other = sqlite3.connect(tmp_path / "shop" / connection.FILE, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(CollectionError, match="written by somebody else"):
            shop.add(codes=random_codes(3), ids=[1, 2, 3])
        assert len(shop) == 0  # readers do not wait
        other.execute("ROLLBACK")
        other.close()
        shop.add(codes=random_codes(3), ids=[1, 2, 3])
        assert len(shop) == 3


def test_a_full_disk_loses_nothing(tmp_path):
    folder = tmp_path / "shop"
    with Collection.create(folder, n_bits=BITS) as shop:
        shop.add(codes=random_codes(1000))
        (pages,) = shop._store._database._free[0].execute("PRAGMA page_count").fetchone()
        shop._store._database._free[0].execute(f"PRAGMA max_page_count = {pages + 4}")
        with pytest.raises(CollectionError, match="disk is full"):
            shop.add(codes=random_codes(5000), ids=np.arange(5000), payload=[{"text": "x" * 100}] * 5000)
        assert len(shop) == 1000
        assert (shop.search(codes=random_codes(1000)[:50], k=1).distances == 0).all()
    with Collection.open(folder) as again:
        assert len(again) == 1000
        again.add(codes=random_codes(5000), ids=np.arange(5000))
        assert len(again) == 5000


def test_an_error_in_a_later_transaction_says_what_is_in(shop, monkeypatch):
    monkeypatch.setattr(EmbeddedStore, "batch_rows", 10)
    original, calls = EmbeddedStore.add, []

    def fail_third(self, *arguments):
        calls.append(1)
        if len(calls) == 3:
            raise CollectionError("The disk is full.")
        original(self, *arguments)

    monkeypatch.setattr(EmbeddedStore, "add", fail_third)
    seen = []
    full = pytest.raises(CollectionError, match="first 20 of these 35 rows were added")
    with full, listening(lambda *told: seen.append(told)):
        shop.add(codes=random_codes(35))
    assert len(shop) == 20
    assert seen == [("adding", 10, 35), ("adding", 20, 35)]


def test_damage_is_one_sentence_that_names_the_file(tmp_path):
    folder = tmp_path / "shop"
    with Collection.create(folder, n_bits=BITS) as shop:
        shop.add(codes=random_codes(5000), payload={"n": range(5000)})
    path = folder / connection.FILE
    whole = path.read_bytes()
    place = whole.find(random_codes(5000)[1000:1010].tobytes())
    assert place > 0
    for damage, content in {
        "checksum": whole[:place] + b"\xff\x00\xff" + whole[place + 3 :],
        "damaged": b"\0" * 100 + whole[100:],
        "not a collection|damaged": b"hello, world" * 500,
        "not a collection": b"",
        "damaged.": whole[: len(whole) // 2],
    }.items():
        path.write_bytes(content)
        with pytest.raises(CollectionError, match=damage) as caught, Collection.open(folder) as shop:
            shop.search(codes=random_codes(1), k=1)
            shop.count({"n": 4999})
            list(shop.scan())
        assert str(path) in str(caught.value)
        assert "\n" not in str(caught.value)
    path.unlink()
    with pytest.raises(CollectionError, match="no collection in"):
        Collection.open(folder)
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE t (a)")
    other.close()
    with pytest.raises(CollectionError, match="not a collection"):
        Collection.open(folder)


def test_another_format_is_refused(shop, tmp_path):
    shop.close()
    db = sqlite3.connect(tmp_path / "shop" / connection.FILE)
    db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(CollectionError, match="has format 99, and this hashlearn reads only format 3"):
        Collection.open(tmp_path / "shop")


def test_a_folder_that_may_only_be_read(tmp_path, monkeypatch):
    folder = tmp_path / "shop"
    with Collection.create(folder, n_bits=BITS) as shop:
        shop.add(codes=random_codes(20))
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)  # root may write everywhere
    with pytest.raises(CollectionError, match="read_only=True"):
        Collection.open(folder)
    before = sorted(folder.iterdir())
    with Collection.open(folder, read_only=True) as reader:
        assert len(reader) == 20
        assert (reader.search(codes=random_codes(20), k=1).distances == 0).all()
        assert sorted(folder.iterdir()) == before
        with monkeypatch.context() as allowed:
            allowed.setattr(os, "access", access)
            writer = Collection.open(folder)
        writer.add(codes=random_codes(1))
        with pytest.raises(CollectionError, match="open it again"):
            reader.search(codes=random_codes(1), k=1)
    with Collection.open(folder, read_only=True) as reader:
        assert len(reader) == 21
    writer.close()


def test_creating_leaves_other_files_alone(tmp_path):
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "notes.txt").write_text("mine")
    (folder / f".{connection.FILE}.abc.tmp").write_bytes(b"half")  # of a creation that was killed
    Collection.create(folder, n_bits=8).close()
    Collection.drop(folder)
    assert [path.name for path in folder.iterdir()] == ["notes.txt"]
    (folder / f"{connection.FILE}-wal").write_bytes(b"log")
    with pytest.raises(CollectionError, match="log of a collection whose file is gone"):
        Collection.create(folder, n_bits=8)
    (tmp_path / "file").write_text("x")
    with pytest.raises(CollectionError, match="file"):
        Collection.create(tmp_path / "file", n_bits=8)


@pytest.mark.parametrize("name", ["with space", "50% #1?mode=rw&x", "ünï", 'quote\'d "x"'])
def test_any_name_of_a_folder(tmp_path, name):
    with Collection.create(tmp_path / name, n_bits=8) as shop:
        shop.add(codes=np.array([[3]], dtype=np.uint8))
    with Collection.open(tmp_path / name, read_only=True) as shop:
        assert len(shop) == 1
    shutil.rmtree(tmp_path / name)


def test_approximate_kinds(tmp_path):
    codes = random_codes(2000)
    with Collection.create(tmp_path / "shop", n_bits=BITS, kind="ivf") as shop:
        shop.add(codes=codes)
        hits = shop.search(codes=codes[:50], k=5)
        assert (hits.distances[:, 0] == 0).all()
        shop.add(codes=codes[:3], ids=[0, 1, 2], payload=[{"a": 1}] * 3)
        assert shop.delete([0]) == 1
        assert shop.count({"a": 1}) == 2
    with Collection.open(tmp_path / "shop") as again:
        assert again.info()["kind"] == "ivf"
        assert (again.search(codes=codes[1:50], k=1).distances == 0).all()
    for kind in ("tree", "hnsw"):
        with pytest.raises(ValueError, match="kind"):
            Collection.create(tmp_path / "other", n_bits=BITS, kind=kind)
    with pytest.raises(ValueError, match="n_lists"):
        Collection.create(tmp_path / "other", n_bits=BITS, kind="ivf", lists=3)
    assert not (tmp_path / "other").exists()


def test_a_scan_shows_one_moment(shop):
    shop.add(codes=random_codes(30), payload={"n": range(30)})
    scan = shop.scan(10)
    first = next(scan)
    shop.add(codes=random_codes(30, 5), payload=[{"n": -1}] * 30, ids=np.arange(30))
    shop.delete(np.arange(20, 30))
    rest = list(scan)
    codes = np.concatenate([rows.codes for rows in [first, *rest]])
    np.testing.assert_array_equal(codes, random_codes(30))
    assert [p["n"] for rows in [first, *rest] for p in rows.payloads] == list(range(30))
    assert len(shop) == 20


def test_closed_is_closed(shop):
    shop.close()
    shop.close()
    with pytest.raises(CollectionError, match="closed"):
        shop.count()
