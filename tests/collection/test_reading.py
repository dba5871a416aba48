"""Rows by id, by filter and one after the other, on every kind of storage; as tables; and what cannot be read."""

import copy
import pickle

import numpy as np
import pytest

from hashlearn import Collection
from hashlearn.collection.filter_advice import FilterWarning

NAMES = ["a", "b", "c", "d"]
CODES = np.arange(8, dtype=np.uint8).reshape(4, 2)
VECTORS = np.arange(8, dtype=np.float32).reshape(4, 2)
PAYLOADS = [{"color": "red", "n": 0}, {"color": "blue", "n": 1}, {"color": "red", "id": "own"}, None]


@pytest.fixture(params=("embedded", "milvus", "postgres"))
def uri(request, tmp_path):
    return str(tmp_path / "shop") if request.param == "embedded" else request.getfixturevalue(f"{request.param}_uri")


def filled(uri, ids="text"):
    shop = Collection.create(uri, n_bits=16, vector_size=2, ids=ids)
    shop.add(codes=CODES, ids=NAMES if ids == "text" else [3, 5, 7, 9], payload=PAYLOADS, vectors=VECTORS)
    return shop


@pytest.fixture
def shop(tmp_path):
    with filled(tmp_path / "shop", "int") as shop:
        yield shop


def test_rows_without_ids_in_hand(uri):
    with filled(uri) as shop:
        assert ["a" in shop, "z" in shop] == [True, False]
        items = {item.id: item for item in shop}
        assert sorted(items) == NAMES
        assert [items[name].payload for name in NAMES] == [payload or {} for payload in PAYLOADS]
        np.testing.assert_array_equal([items[name].code for name in NAMES], CODES)
        red = sorted(shop.get(where={"color": "red"}))
        assert [item.id for item in red] == ["a", "c"]
        np.testing.assert_array_equal([item.vector for item in red], VECTORS[[0, 2]])
        assert len(shop.get(where={"color": "red"}, limit=1)) == 1
        assert [item.id for item in shop.peek(2)] == [item.id for item in shop][:2]
        assert [item.vector for item in shop.peek()] == [None] * 4


def test_numbers_come_in_their_order(shop):
    assert [item.id for item in shop] == [3, 5, 7, 9]
    assert [item.id for item in shop.get(limit=3)] == [3, 5, 7]
    assert [item.id for item in shop.get(where={"n": {">=": 0}}, vectors=False)] == [3, 5]
    assert shop.get(where={"n": 77}) == []
    assert 4 not in shop


def test_what_get_refuses(shop):
    with pytest.raises(ValueError, match="Give ids, or where= and limit="):
        shop.get()
    with pytest.raises(ValueError, match="Give ids, or where= and limit="):
        shop.get([3], where={"n": 0})
    with pytest.raises(ValueError, match="limit must be a whole number from 1"):
        shop.get(limit=0)
    with pytest.raises(ValueError, match="ids='text'"):
        assert "3" in shop
    with pytest.warns(FilterWarning, match="'colour'.*Did you mean 'color'"):
        shop.get(where={"colour": "red"})


def test_a_collection_as_a_table(shop):
    table = shop.to_pandas()
    assert table.columns.tolist() == ["id", "color", "n", "payload.id"]
    assert table["id"].tolist() == [3, 5, 7, 9]
    assert shop.to_pandas({"color": "red"})["id"].tolist() == [3, 7]
    assert shop.get(where={"color": "red"}).to_pandas()["color"].tolist() == ["red", "red"]
    assert shop.to_arrow().to_pydict() == {
        "id": [3, 5, 7, 9],
        "color": ["red", "blue", "red", None],
        "n": [0, 1, None, None],
        "payload.id": [None, None, "own", None],
    }


def test_a_notebook_shows_the_first_rows(shop):
    shop.add(codes=CODES[:1], ids=[1], vectors=VECTORS[:1], payload=[{"color": "<b>bold</b>"}])
    shown = shop._repr_html_()
    assert "5 rows" in shown
    assert "&lt;b&gt;bold" in shown
    assert "<b>" not in shown
    shop.close()
    assert "closed" in shop._repr_html_()


def test_hits_outlive_the_collection(shop):
    hits = shop.search(codes=CODES, k=2)
    shop.close()
    assert [hit.payload for hit in hits[0]] == [PAYLOADS[0], PAYLOADS[1]]


def test_hits_travel_to_other_processes_and_collections_do_not(shop):
    for found in (shop.search(codes=CODES, k=2, include=["payload", "vector"]), shop.within(codes=CODES, radius=1)):
        again = pickle.loads(pickle.dumps(found))
        assert repr(again.to_list()) == repr(found.to_list())
        assert again[0][0].payload == {"color": "red", "n": 0}
    for call in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match=r"cannot be pickled or copied.*open .* where it is needed"):
            call(shop)


def test_within_has_payloads_too(uri):
    with filled(uri) as shop:
        ball = shop.within(codes=CODES[:2], radius=0)
        assert len(ball) == 2
        assert ball.to_list() == [[{"id": name, "distance": 0, "payload": PAYLOADS[n]}] for n, name in enumerate("ab")]
        assert ball.to_pandas()["query"].tolist() == [0, 1]
        assert (
            shop.within(codes=CODES[0], radius=16).ids.tolist() == shop.within(codes=CODES[:1], radius=16).ids.tolist()
        )
        assert shop.within(codes=CODES[0], radius=0)[0].payload == PAYLOADS[0]
        offsets, ids, distances = ball
        assert (offsets.tolist(), ids.tolist(), distances.tolist()) == ([0, 1, 2], ["a", "b"], [0, 0])
