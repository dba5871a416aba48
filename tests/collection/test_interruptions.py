"""An exception at any line (Ctrl-C, a lack of memory) loses no acknowledged row and leaves no lock behind."""

import contextlib
import gc
import os
import shutil
import threading
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from interruptions import at_most, interrupted, places

from hashlearn import ITQ, Collection, OpenHasher, models
from hashlearn.collection import CollectionError
from hashlearn.collection.stores.embedded import store as embedded
from hashlearn.service.run import KEPT_PER_COLLECTION

ROOMS = ("collection", "index", "wholefile.py")
X = np.random.default_rng(5).normal(size=(60, 6)).astype(np.float32)
HASHER = ITQ(n_bits=12, random_state=0).fit(X)
TABLES = OpenHasher(n_bits=16, n_landmarks=8, random_state=0).fit(X, np.arange(60) % 3)
CODES = HASHER.encode(X)


def make(folder, hasher=HASHER, **settings):
    """Make a collection of many small blocks: the next added row merges blocks on disk and runs in memory."""
    with Collection.create(folder, hasher, store_vectors=True, indexed=["n"], **settings) as shop:
        shop.add(X[:20], payload=[{"n": n, "name": f"thing {n}"} if n % 2 else None for n in range(20)])
        for n in range(20, 34):
            shop.add(X[n], payload={"n": n})
        shop.delete([7])


def answers(shop):
    """Return what the collection holds, as memory and as the file tell it. Codes as queries need no model."""
    found = shop.search(codes=CODES[:5], k=40)
    with shop._store._following.reading() as snapshot:
        rows = [array.tolist() for array in snapshot.index.rows()]
    return (
        shop._store.spec.fingerprint,
        shop.label_field,
        found.ids.tolist(),
        found.distances.tolist(),
        rows,
        [(rows.ids.tolist(), rows.payloads) for rows in shop.scan()],
        shop.count({"n": {">=": 30}}),
        shop.count({"name": "thing 11"}),
    )


def written_elsewhere(shop, other):
    other.add(X[40:44], ids=[0, 40, 41, 99], payload={"n": [1, 2, 3, 4]})
    other.delete([3, 99])


def search(shop):
    shop.search(X[:9], k=5, where={"n": {">": 3}, "name": "thing 11"}, rescore=True)
    shop.search(X[:2], k=20, asymmetric=True)
    shop.within(codes=CODES[:2], radius=3)
    shop.get([1, 2])


def search_tables(shop):
    shop.search(X[:2], k=5, where={"n": {"in": [4, 5, 6]}}, include=["vector", "code"])
    shop.search(X[:2], k=5)
    shop.within(X[:2], radius=1.0)


def read(shop):
    with Collection.open(shop.uri, read_only=True) as reader:
        list(reader.scan(where={"$or": [{"n": {"<": 5}}, {"name": {"exists": True}}]}, vectors=True))
        assert reader.verify().problems == ()


def outdated(shop, other):
    shop.add(X[:20] * 2, ids=np.arange(20))


def back_up(shop):
    shop.backup(kept_by(shop))


def kept_by(shop):
    return Path(shop.uri).with_name("kept.backup")


def restore(shop):
    Collection.restore(kept_by(shop), shop.uri, replace=True).close()


def changed_after_backup(shop, other):
    back_up(shop)
    shop.add(X[:20] * 2, ids=np.arange(5, 25))


def migrate(shop, other=None):
    shop.migrate(X[:30] * 2, ids=[n for n in range(31) if n != 7], vectors="drop")


def nothing(shop, other):
    pass


FLAT = {"hasher": HASHER}
OPERATIONS = {
    "add": (FLAT, nothing, lambda shop: shop.add(X[18:36], ids=np.arange(18, 36), payload={"n": np.arange(18)})),
    "delete": (FLAT, nothing, lambda shop: shop.delete(where={"n": {"<": 9}})),
    "update": (FLAT, nothing, lambda shop: shop.update_payload([1, 2], [{"n": 100}, {"m": 1}])),
    "update where": (FLAT, nothing, lambda shop: shop.update_payload(payload={"m": 2}, where={"name": "thing 11"})),
    "search": (FLAT, written_elsewhere, search),
    "search by tables": ({"hasher": TABLES}, written_elsewhere, search_tables),
    "search lists": ({"hasher": HASHER, "kind": "ivf", "n_lists": 4}, written_elsewhere, search),
    "read": (FLAT, nothing, read),
    "compact": (FLAT, outdated, lambda shop: shop.compact()),
    "back up": (FLAT, nothing, back_up),
    "restore": (FLAT, changed_after_backup, restore),
    "migrate": (FLAT, nothing, migrate),
    "undo": (FLAT, migrate, lambda shop: shop.undo_migration()),
    "learn labels": (FLAT, nothing, lambda shop: shop.learn_labels("n")),
}


def assert_whole_or_absent(backup, expected):
    if backup.exists():
        with Collection.restore(backup, backup.with_name("restored"), replace=True) as restored:
            assert answers(restored) == expected
        backup.unlink()
    assert not list(backup.parent.glob(".*"))  # half-made files


@pytest.mark.slow
@pytest.mark.parametrize("error", [MemoryError, KeyboardInterrupt])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_exception_at_any_line_loses_nothing(tmp_path, monkeypatch, operation, error):
    monkeypatch.setattr(embedded, "_WASTE_ROWS", 3)  # so that changes tidy up too
    settings, prepare, call = OPERATIONS[operation]
    replaces_model = operation in ("migrate", "undo", "learn labels")
    make(tmp_path / "template", **settings)

    def opened():
        shutil.rmtree(tmp_path / "shop", ignore_errors=True)
        shutil.copytree(tmp_path / "template", tmp_path / "shop")
        shop = Collection.open(tmp_path / "shop", settings["hasher"] if replaces_model else None)
        other = Collection.open(tmp_path / "shop", settings["hasher"])
        answers(shop)
        prepare(shop, other)
        return shop, other

    def state(shop):
        with shop._store._database.reading() as transaction:
            return transaction.state

    shop, other = opened()
    with shop, other:
        found = places(partial(call, shop), ROOMS)
        after = answers(shop)
    shop, other = opened()
    before = answers(shop)
    gc.freeze()  # so that collecting is quick
    for place in found:
        at_first = state(shop)
        kept = interrupted(partial(call, shop), place, error)  # its traceback keeps objects alive, as a notebook does
        with at_most(30):
            seen, now = answers(shop), state(shop)
            assert seen in (before, after), place
            assert seen == after or kept is not None, place
            if now == at_first:
                assert seen == before, place
            else:
                with Collection.open(shop.uri) as fresh:
                    assert answers(fresh) == seen, place
                    assert fresh._store.verify().problems == (), place
            assert shop.delete([12345]) == 0  # a writer gets its turn
            if replaces_model:
                assert models.fingerprint(shop.hasher) == shop._store.spec.fingerprint
            if operation == "back up":
                assert_whole_or_absent(kept_by(shop), before)
        del kept
        gc.collect()  # frames and exceptions that refer to each other hold transactions
        if before == after:
            prepare(shop, other)
        elif seen == after:
            shop.close()
            other.close()
            shop, other = opened()
    shop.close()
    other.close()
    gc.unfreeze()


def test_a_statement_that_was_stopped_does_not_keep_its_view_of_the_file(tmp_path, monkeypatch):
    """The connection of a failed search is not used again: it would go on with the rows of that moment."""
    make(tmp_path / "shop")
    with Collection.open(tmp_path / "shop") as shop:
        database, kept = shop._store._database, []
        try:
            with database.reading() as transaction:
                kept.append(transaction.db.execute("SELECT id FROM payload ORDER BY id"))
                next(kept[0])
                raise MemoryError
        except MemoryError:
            pass
        with Collection.open(tmp_path / "shop") as other:
            other.add(X[:1], ids=[900], payload=[{"name": "new"}])
        assert len(shop) == 34
        assert shop.count({"name": "new"}) == 1


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="open files are counted in /proc")
def test_a_burst_of_readers_leaves_few_files_open(tmp_path):
    make(tmp_path / "shop")
    with Collection.open(tmp_path / "shop") as shop:
        started = threading.Barrier(12)

        def read():
            with shop._store._database.reading():
                started.wait(20)

        readers = [threading.Thread(target=read) for _ in range(12)]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()
        names = [os.readlink(one) for one in Path("/proc/self/fd").iterdir() if one.exists()]
        assert sum(str(tmp_path) in name for name in names) <= KEPT_PER_COLLECTION


@pytest.mark.slow
@pytest.mark.parametrize("error", [MemoryError, KeyboardInterrupt])
def test_a_collection_is_created_and_dropped_whole_or_can_be_so_again(tmp_path, error):
    folder = tmp_path / "shop"

    def create():
        Collection.create(folder, HASHER).close()

    def drop():
        Collection.drop(folder)

    gc.freeze()  # so that collecting is quick
    for call, other in ((create, drop), (drop, create)):
        found = places(call, ROOMS)
        other()
        for place in found:
            interrupted(call, place, error)
            gc.collect()
            with at_most(30):
                # A collection of which only a part was removed can only be dropped.
                with contextlib.suppress(CollectionError):
                    Collection.open(folder).close()
                with contextlib.suppress(CollectionError):
                    call()
                other()
            assert not list(folder.glob(".*")), place  # half-made files
        call()
    gc.unfreeze()
