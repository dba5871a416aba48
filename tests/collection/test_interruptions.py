"""An exception at any line (Ctrl-C, a lack of memory) loses no acknowledged row and leaves no lock behind."""

import gc
import os
import shutil
import threading
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from interruptions import at_most, interrupted, places

from hashlearn import ITQ, Collection, models
from hashlearn.collection.stores.embedded import store as embedded
from hashlearn.service.run import KEPT_PER_COLLECTION

ROOMS = ("collection", "index")
X = np.random.default_rng(5).normal(size=(60, 6)).astype(np.float32)
HASHER = ITQ(n_bits=12, random_state=0).fit(X)
CODES = HASHER.encode(X)


def make(folder):
    """Make a collection of many small blocks: the next added row merges blocks on disk and runs in memory."""
    with Collection.create(folder, HASHER, store_vectors=True, indexed=["n"]) as shop:
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


def compact_outdated(shop, other):
    shop.add(X[:20] * 2, ids=np.arange(20))


def nothing(shop, other):
    pass


OPERATIONS = {
    "add": (nothing, lambda shop: shop.add(X[18:36], ids=np.arange(18, 36), payload={"n": np.arange(18)})),
    "delete": (nothing, lambda shop: shop.delete(where={"n": {"<": 9}})),
    "update": (nothing, lambda shop: shop.update_payload([1, 2], [{"n": 100}, {"m": 1}])),
    "search": (written_elsewhere, search),
    "compact": (compact_outdated, lambda shop: shop.compact()),
    "migrate": (
        nothing,
        lambda shop: shop.migrate(X[:30] * 2, ids=[n for n in range(31) if n != 7], vectors="drop"),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("error", [MemoryError, KeyboardInterrupt])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_exception_at_any_line_loses_nothing(tmp_path, monkeypatch, operation, error):
    monkeypatch.setattr(embedded, "_WASTE_ROWS", 3)  # so that changes tidy up too
    prepare, call = OPERATIONS[operation]
    make(tmp_path / "template")

    def opened():
        shutil.rmtree(tmp_path / "shop", ignore_errors=True)
        shutil.copytree(tmp_path / "template", tmp_path / "shop")
        shop = Collection.open(tmp_path / "shop", HASHER if operation == "migrate" else None)
        other = Collection.open(tmp_path / "shop", HASHER)
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
            if operation == "migrate":
                assert models.fingerprint(shop.hasher) == shop._store.spec.fingerprint
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
