"""Indexed fields of payloads: the same answers, without reading payloads."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collection.payload_strategies import conditions, payloads, targeted
from hashlearn import Collection
from hashlearn.collection import CollectionError, UnsupportedByStoreError
from hashlearn.collection.stores.embedded import columns
from hashlearn.collection.stores.embedded import tables as payload_table
from hashlearn.collection.stores.embedded.columns import ColumnTable
from hashlearn.collection.where import All, AnyOf, Compare, Listed, Not, matches, parse, split_path

PAYLOADS = [
    {
        "digit": n % 10,
        "price": n / 8,
        "colour": ["red", "blue", "grün"][n % 3],
        "size": {"width": n % 4},
        "tag": [n % 2],
    }
    if n % 11
    else None
    for n in range(400)
]
WHERES = [
    {"digit": 3},
    {"digit": 3.0},
    {"digit": "3"},
    {"digit": {">=": 7}},
    {"digit": {"<": 2.5}},
    {"price": {">": 10, "<=": 20.5}},
    {"price": 10},
    {"colour": "red"},
    {"colour": {"<": "red"}},
    {"colour": {"in": ["red", "black", None]}},
    {"digit": {"in": [1, 2.0, "3", 4.5]}},
    {"digit": {"not in": [1, 2]}},
    {"digit": {"!=": 1}},
    {"size.width": {"<=": 1}, "colour": "blue"},
    {"size": {"exists": True}},
    {"digit": {"exists": False}},
    {"$or": [{"digit": 1}, {"colour": "grün", "price": {"<": 9}}]},
    {"$not": {"digit": {"<": 9}}},
    {"tag": {"contains": 1}},
    {"digit": 4, "other": 7},
    {"digit": {"in": [1, 2]}, "tag": {"contains": 1}},
    {"$or": [{"digit": 1}, {"tag": {"contains": 1}}]},
]
INDEXED = ["digit", "price", "colour", "size.width", "tag"]


@pytest.fixture(params=["embedded", "postgres"])
def uri(request, tmp_path):
    return str(tmp_path / "shop") if request.param == "embedded" else request.getfixturevalue("postgres_uri")


def codes(count, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (count, 2), dtype=np.uint8)


def check(shop, model):
    for where in WHERES:
        condition = parse(where)
        expected = sorted(number for number, payload in model.items() if matches(condition, payload))
        assert shop.count(where) == len(expected), where
        hits = shop.search(codes=codes(1), k=500, where=where).ids[0]
        assert sorted(hits[hits >= 0].tolist()) == expected, where


def test_answers_are_those_of_the_filters(uri):
    rng = np.random.default_rng(0)
    with Collection.create(uri, n_bits=16, indexed=INDEXED) as shop:
        shop.add(codes=codes(400), ids=np.arange(400), payload=PAYLOADS)
        model = dict(enumerate(PAYLOADS))
        check(shop, model)
        for step in range(6):
            ids = rng.choice(420, 30, replace=False)
            if step % 3 == 2:
                shop.delete(ids)
                model = {number: payload for number, payload in model.items() if number not in set(ids.tolist())}
            else:
                some = [PAYLOADS[n] for n in rng.integers(0, 400, 30)]
                shop.add(codes=codes(30, step), ids=ids, payload=some)
                model |= dict(zip(ids.tolist(), some, strict=True))
        check(shop, model)
        assert shop.delete(where={"digit": 5}) == sum(matches(parse({"digit": 5}), p) for p in model.values())
        model = {number: payload for number, payload in model.items() if not matches(parse({"digit": 5}), payload)}
        check(shop, model)
        shop.compact()
        check(shop, model)
        assert shop.verify().problems == ()
    with Collection.open(uri) as again:
        assert again.info()["indexed"] == INDEXED
        check(again, model)
        again.add(codes=codes(2), ids=[900, 901])  # without payload
        check(again, model | {900: None, 901: None})


def test_payloads_are_not_read(tmp_path, monkeypatch):
    with Collection.create(tmp_path / "shop", n_bits=16, indexed=["digit", "colour"]) as shop:
        shop.add(codes=codes(400), payload=PAYLOADS)
        for name in ("read", "check_all"):
            monkeypatch.setattr(payload_table.PayloadTable, name, lambda *_: pytest.fail("payloads were read"))
        assert shop.count({"digit": 3, "colour": {">": "b"}}) > 0
        monkeypatch.undo()
        looked_at, original = [], payload_table.PayloadTable.read
        monkeypatch.setattr(
            payload_table.PayloadTable,
            "read",
            lambda self, moment, ids: looked_at.append(len(ids)) or original(self, moment, ids),
        )
        found = shop.count({"digit": 3, "colour": "red", "price": {"<": 20}})
        assert looked_at == [sum(p is not None and p["digit"] == 3 and p["colour"] == "red" for p in PAYLOADS)]
        assert found == sum(
            p is not None and p["digit"] == 3 and p["colour"] == "red" and p["price"] < 20 for p in PAYLOADS
        )


def test_postgres_asks_its_indexes(postgres_uri, postgres_server):
    with Collection.create(postgres_uri, n_bits=16, indexed=["digit"]) as shop:
        many = [{"digit": n, "name": f"n{n:05}"} for n in range(20_000)]
        shop.add(codes=codes(20_000), ids=np.arange(20_000), payload=many)
        shop.compact()  # gathers what PostgreSQL plans by
        name = postgres_uri.split("collection=")[1]

        def scans():
            with postgres_server.connect() as connection:
                connection.execute("SELECT pg_stat_force_next_flush()")
                query = "SELECT sum(idx_scan) FROM pg_stat_user_indexes WHERE relname = %s AND indexrelname LIKE %s"
                return int(connection.execute(query, [name, "%expr%"]).fetchone()[0])

        for where, found in (({"digit": 7}, 1), ({"digit": {">=": 19_990}}, 10), ({"digit": {"in": [1, 2, 3]}}, 3)):
            before = scans()
            for _ in range(8):  # also after the driver has prepared the statement
                assert shop.count(where) == found
            shop.close()  # statistics are written when a connection ends
            shop = Collection.open(postgres_uri)
            assert scans() >= before + 8, where
        shop.close()


def test_milvus_refuses(milvus_server):
    with pytest.raises(UnsupportedByStoreError, match="folder or on PostgreSQL"):
        Collection.create(milvus_server.uri("indexed_fields"), n_bits=8, indexed=["a"])


@pytest.mark.parametrize("wrong", ["digit", ["a", "a"], ["a..b"], [1], ["$or"], ["a\0"], 7])
def test_what_cannot_be_indexed(tmp_path, wrong):
    with pytest.raises(ValueError, match=r"index|field"):
        Collection.create(tmp_path / "shop", n_bits=8, indexed=wrong)
    assert not (tmp_path / "shop").exists()


PATHS = [("a",), ("b",), ("a", "b")]


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.lists(payloads, min_size=1, max_size=12), conditions, st.data())
def test_columns_mean_what_filters_mean(some, condition, data):
    """Any condition that the columns say they can tell, over any payloads, put in any order and parts."""
    paths = sorted({part.path for part in _compared(condition)} | {("a",)})
    extra = data.draw(st.sampled_from(targeted(some) or [condition]))
    paths += sorted({part.path for part in _compared(extra)} - set(paths))
    condition = AnyOf((condition, extra))
    table = ColumnTable(paths)
    order = data.draw(st.permutations(range(len(some))))
    for part in np.array_split(order, 2):
        ids = np.sort(part)
        table.put(ids, columns.of_payloads([some[n] for n in ids], len(ids), paths))
    table.remove(np.array([0]))
    told, left = table.split(condition)
    if left is None:
        expected = [number for number, payload in enumerate(some) if number and matches(condition, payload)]
        assert table.ids(told).tolist() == expected
    else:
        assert any(part.operator == "contains" for part in _compared(condition))


def _compared(condition):
    if isinstance(condition, Compare):
        return [condition]
    parts = [condition.part] if isinstance(condition, Not) else condition.parts
    return [found for part in parts for found in _compared(part)]


NUMBERS = [
    0,
    1,
    -1,
    2**53,
    2**53 + 1,
    -(2**53) - 1,
    2**63 - 1,
    -(2**63),
    0.5,
    -0.0,
    1e300,
    -1e300,
    2.0**63,
    2.0**53,
    5e-324,
]


def test_numbers_compare_exactly():
    table = ColumnTable([("a",)])
    table.put(
        np.arange(len(NUMBERS)), columns.of_payloads([{"a": number} for number in NUMBERS], len(NUMBERS), [("a",)])
    )
    for operator in ("=", "<", "<=", ">", ">=", "in"):
        for number in [*NUMBERS, 2**62 + 1, 9007199254740993.0, 1.5]:
            condition = Compare(("a",), operator, Listed((number,)) if operator == "in" else number)
            expected = [place for place, value in enumerate(NUMBERS) if matches(condition, {"a": value})]
            assert table.ids(condition).tolist() == expected, (operator, number)


def test_damaged_fields_are_said(tmp_path):
    folder = tmp_path / "shop"
    with Collection.create(folder, n_bits=16, indexed=["digit"]) as shop:
        shop.add(codes=codes(400), payload=[{"digit": 123_456_789} for _ in range(400)])
    path = folder / "collection.sqlite"
    data = path.read_bytes()
    path.write_bytes(data.replace((123_456_789).to_bytes(8, "little"), (123_456_788).to_bytes(8, "little"), 1))
    with Collection.open(folder) as shop, pytest.raises(CollectionError, match="block 1 does not match"):
        shop.count({"digit": 123_456_789})


def test_split_takes_what_it_can():
    table = ColumnTable([("a",), ("b", "c")])
    both = parse({"a": 1, "x": 2, "b.c": {">": 3}})
    told, left = table.split(both)
    assert matches(told, {"a": 1, "b": {"c": 4}})
    assert not matches(told, {"a": 1, "b": {"c": 3}})
    assert matches(left, {"x": 2})
    assert table.split(parse({"x": 2}))[0] is None
    assert table.split(All(())) == (All(()), None)
    assert split_path("b.c") == ("b", "c")
