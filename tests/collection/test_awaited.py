"""AsyncCollection has every method of a collection, and its calls run beside each other."""

import asyncio
import inspect
import threading

import numpy as np
import pytest

import hashlearn as hl
from hashlearn.collection import CollectionError

CODES = np.arange(8, dtype=np.uint8)[:, None]


def test_every_public_name_is_there():
    missing = {name for name in dir(hl.Collection) if not name.startswith("_")} - set(dir(hl.AsyncCollection))
    assert not missing


def test_the_same_awaited(tmp_path):
    async def main():
        async with await hl.AsyncCollection.create(tmp_path / "shop", n_bits=8) as shop:
            assert (await shop.add(codes=CODES, payload={"n": list(range(8))})).tolist() == list(range(8))
            parts = await asyncio.gather(*(shop.search(codes=CODES[n], k=1) for n in range(8)))
            assert [part[0].payload["n"] for part in parts] == list(range(8))
            assert [item.id async for item in shop] == list(range(8))
            assert [len(rows.ids) async for rows in shop.scan(3)] == [3, 3, 2]
            assert await shop.delete(where={"n": {"<": 2}}) == 2
            assert (shop.n_bits, shop.id_kind, shop.vector_size, shop.hasher) == (8, "int", None, None)
            with pytest.raises(ValueError, match="k must be a whole number"):
                await shop.search(codes=CODES, k=0)
        with pytest.raises(CollectionError, match="closed"):
            await shop.count()
        async with await hl.AsyncCollection.open(tmp_path / "shop", read_only=True) as again:
            return repr(again), await again.count()

    said, rows = asyncio.run(main())
    assert said.startswith("AsyncCollection(")
    assert rows == 6


def test_other_tasks_go_on(tmp_path, monkeypatch):
    free = threading.Event()
    plain = hl.Collection.count

    def slow(self, where=None):
        assert free.wait(30)
        return plain(self, where)

    monkeypatch.setattr("hashlearn.collection.awaited.AsyncCollection.count", slow_awaited(slow))

    async def main():
        async with await hl.AsyncCollection.create(tmp_path / "shop", n_bits=8) as shop:
            waiting = asyncio.create_task(shop.count())
            await shop.add(codes=CODES)
            assert not waiting.done()
            free.set()
            return await waiting

    assert asyncio.run(main()) == 8


def slow_awaited(method):
    from hashlearn.collection.awaited import _awaited

    return _awaited(method)


@pytest.mark.parametrize("name", ["create", "open", "from_texts", "restore", "search", "add"])
def test_help_shows_the_arguments_of_a_collection(name):
    shown, wanted = (inspect.signature(getattr(made, name)).parameters for made in (hl.AsyncCollection, hl.Collection))
    assert list(shown) == list(wanted)
