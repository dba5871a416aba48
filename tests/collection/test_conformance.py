"""One suite over every kind of storage: what a collection promises, whoever keeps it."""

import json
import threading
import time

import numpy as np
import pytest

from hashlearn import ITQ, Collection, codes
from hashlearn.collection import CollectionError, WhereError
from hashlearn.collection.where import matches, parse
from hashlearn.files import read_codes

STORES = ("embedded", "http", "milvus", "postgres")
BITS = 12  # not whole bytes, and few enough for many ties


@pytest.fixture(params=STORES)
def kind(request):
    return request.param


@pytest.fixture
def uri(request, kind, tmp_path):
    """A place where no collection is yet."""
    return str(tmp_path / "shop") if kind == "embedded" else request.getfixturevalue(f"{kind}_uri")


@pytest.fixture
def empty(uri):
    with Collection.create(uri, n_bits=BITS) as collection:
        yield collection


@pytest.fixture(scope="module")
def rows():
    return np.random.default_rng(0).normal(size=(200, 8)).astype(np.float32)


@pytest.fixture(scope="module")
def hasher(rows):
    return ITQ(n_bits=8, random_state=0).fit(rows)


def random_codes(count, seed=0, bits=BITS):
    return codes.pack(np.random.default_rng(seed).integers(0, 2, (count, bits), dtype=np.uint8))


def nearest(queries, ids, database, k):
    """Ids and distances by sorting everything."""
    k = min(k, len(ids))
    found = np.full((2, len(queries), k), -1)
    for number, distances in enumerate(codes.hamming_distances(queries, database).astype(int)):
        order = np.lexsort((ids, distances))[:k]
        found[0, number, : len(order)], found[1, number, : len(order)] = ids[order], distances[order]
    return found


def same_hits(hits, expected):
    ids, distances = expected
    np.testing.assert_array_equal(hits.ids, ids)
    np.testing.assert_array_equal(hits.distances, distances)
    return True


def test_an_empty_collection_answers(empty):
    queries = random_codes(3)
    assert len(empty) == empty.count({"a": 1}) == 0
    assert bool(empty)
    hits = empty.search(codes=queries, k=4)
    assert (hits.ids == -1).all()
    assert (hits.distances == -1).all()
    assert hits.ids.shape == (3, 0)
    assert hits.to_list() == [[], [], []]
    ball = empty.within(codes=queries, radius=12)
    assert (ball.offsets.tolist(), len(ball.ids), len(ball.distances)) == ([0, 0, 0, 0], 0, 0)
    assert empty.get(7) is None
    assert empty.get([7, 8]) == [None, None]
    assert empty.get([]) == []
    assert empty.delete([1, 2]) == empty.delete(where={"a": 1}) == 0
    assert list(empty.scan()) == []
    nothing = empty.add(codes=random_codes(0), payload=[])
    assert nothing.dtype == np.int64
    assert len(nothing) == len(empty) == 0
    assert empty.search(codes=random_codes(0), k=3).ids.shape == (0, 0)


def test_add_get_and_replace(empty):
    stored = random_codes(5)
    ids = empty.add(codes=stored, ids=range(5), payload=[{"n": 0}, {"n": 1}, None, {}, {"n": 4}])
    assert ids.tolist() == [0, 1, 2, 3, 4]
    assert [item.payload for item in empty.get(ids)] == [{"n": 0}, {"n": 1}, {}, {}, {"n": 4}]
    np.testing.assert_array_equal([item.code for item in empty.get(ids)], stored)
    other = random_codes(3, seed=1)
    empty.add(codes=other, ids=[4, 0, 9], payload=[{"new": True}, None, {"n": 9}])
    assert len(empty) == 6
    items = empty.get([9, 4, 0, 7, 1])
    assert [item.payload if item else None for item in items] == [{"n": 9}, {"new": True}, {}, None, {"n": 1}]
    np.testing.assert_array_equal([items[1].code, items[2].code, items[0].code], other)
    assert empty.count({"n": {"exists": True}}) == 2
    assert same_hits(
        empty.search(codes=other, k=6),
        nearest(other, np.array([0, 1, 2, 3, 4, 9]), np.stack([other[1], *stored[1:4], other[0], other[2]]), 6),
    )


def test_ids_that_the_collection_gives_out_never_meet(uri, kind):
    """Two clients add at the same time and without ids: on Milvus half of the rows were lost."""
    with Collection.create(uri, n_bits=BITS) as one, Collection.open(uri) as other:
        one.add(codes=random_codes(3), ids=[0, 1, 9])
        given, errors = [], []

        def add(collection):
            try:
                for turn in range(10):
                    given.append(collection.add(codes=random_codes(5, seed=turn)))
            except Exception as error:
                errors.append(error)

        threads = [threading.Thread(target=add, args=(collection,)) for collection in (one, other)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not errors
        ids = np.concatenate(given)
        assert len(np.unique(ids)) == 100
        assert len(one) == len(other) == 103
        assert all((np.diff(part) == 1).all() for part in given)
        if kind != "milvus":  # the others count on together
            assert sorted(ids.tolist()) == list(range(10, 110))
            other.delete(ids[-1:])
            assert one.add(codes=random_codes(1)).tolist() == [110]  # ids are not used twice


def test_mistakes_are_refused_and_change_nothing(empty):
    stored = random_codes(4)
    empty.add(codes=stored, ids=[1, 2, 3, 4], payload=[{"n": 1}] * 4)
    for mistake, ids, payload in [
        ("5 twice", [5, 6, 5, 7], None),
        ("2\\*\\*63", [-1, 6, 5, 7], None),
        ("one id per code", [5, 6], None),
        ("one payload per row", None, [{}]),
        ("payload of row 2", None, [{}, {}, {"x": float("nan")}, {}]),
        ("row 1 .*keys must be text", None, [{}, {1: 2}, {}, {}]),
        ("row 3 .*set is not", None, [{}, {}, {}, {"x": {"y": {1, 2}}}]),
        ("NUL", None, [{"x": "a\0b"}, {}, {}, {}]),
        ("surrogate", None, [{"x\ud800": 1}, {}, {}, {}]),
        ("64 bits", None, [{"x": 2**63}, {}, {}, {}]),
    ]:
        with pytest.raises(ValueError, match=mistake):
            empty.add(codes=stored, ids=ids, payload=payload)
    deep = {}
    for _ in range(200):
        deep = {"x": deep}
    with pytest.raises(ValueError, match="deep"):
        empty.add(codes=stored, payload=[deep, {}, {}, {}])
    padded = stored.copy()
    padded[0, -1] |= 1
    for wrong in (padded, random_codes(4, bits=20), stored.astype(float)):
        with pytest.raises(ValueError, match="codes"):
            empty.add(codes=wrong)
    with pytest.raises(CollectionError, match="no hasher"):
        empty.add(np.zeros((2, 3)))
    assert len(empty) == empty.count({"n": 1}) == 4
    for k in (0, 1.5, True):
        with pytest.raises(ValueError, match="k must be"):
            empty.search(codes=stored, k=k)


def test_nearest_equals_brute_force_with_ties(empty):
    rng = np.random.default_rng(2)
    ids = rng.permutation(np.concatenate([rng.choice(10_000, 398, replace=False), [2**63 - 1, 2**40]]))
    stored, queries = random_codes(400, seed=3), random_codes(6, seed=4)
    for part in np.array_split(np.arange(400), 3):
        empty.add(codes=stored[part], ids=ids[part])
    assert empty.get(2**63 - 1).id == 2**63 - 1
    for k in (1, 10, 150, 450):
        assert same_hits(empty.search(codes=queries, k=k), nearest(queries, ids, stored, k))
        later = nearest(queries, ids, stored, k + 7)[:, :, 7:]
        assert same_hits(empty.search(codes=queries, k=k, offset=7), later)
    for radius in (0, 3, 12, 99):
        ball = empty.within(codes=queries, radius=radius)
        for number, distances in enumerate(codes.hamming_distances(queries, stored).astype(int)):
            expected = sorted((d, i) for d, i in zip(distances.tolist(), ids.tolist(), strict=True) if d <= radius)
            part = slice(ball.offsets[number], ball.offsets[number + 1])
            assert list(zip(ball.distances[part].tolist(), ball.ids[part].tolist(), strict=True)) == expected


PAYLOADS = [
    {"colour": "red", "year": 2020, "price": 9.5, "tags": ["new", "sale"], "size": {"width": 3}},
    {"colour": "blue", "year": 2021, "price": 10, "tags": [], "sold": True},
    {"colour": "red", "year": 2019.0, "price": -1, "tags": [1, None, True], "sold": False},
    {"colour": None, "year": "2020", "size": {"width": 3.5, "a.b": 1}},
    {"colour": "Rot ü 紅 🌹", "year": 2**53 + 1, "price": 0.1},
    {"colour": "", "year": 0, "price": 0.30000000000000004, "size": 7, "tags": "new"},
    {"colour": ["red"], "year": True, "tags": [[1], {"a": 1}, 1.5], "sold": 1},
    {},
    {'it\'s "quoted"\\': 1, "a b": 2, "ключ": {"$x": 3}, "price": 1e300},
]

FILTERS = [
    {"colour": "red"},
    {"colour": "red", "year": {">=": 2020}},
    {"year": {">": 2019}},
    {"year": {"<": 2020.5, ">=": 0}},
    {"year": {"<=": 2019}},
    {"year": {">": 2**53}},
    {"year": 2019},
    {"year": True},
    {"year": {"!=": 2020}},
    {"sold": False},
    {"sold": {"in": [True, 0]}},
    {"colour": None},
    {"colour": {"in": ["red", "", None, 3]}},
    {"colour": {"in": []}},
    {"colour": {"not in": ["red", "blue"]}},
    {"colour": {">": "blue"}},
    {"colour": {"<=": "red"}},
    {"colour": "Rot ü 紅 🌹"},
    {"tags": {"contains": "new"}},
    {"tags": {"contains": 1}},
    {"tags": {"contains": True}},
    {"tags": {"contains": None}},
    {"tags": {"contains": 1.5}},
    {"tags": {"exists": True}},
    {"size": {"exists": False}},
    {"size.width": {">=": 3}},
    {"size.width": 3},
    {"size.a\\.b": 1},
    {"price": 0.3},
    {"price": {">": 0.3}},
    {"price": 0.1},
    {"price": {">=": 1e300}},
    {"price": {"in": [9.5, 10.0]}},
    {"$or": [{"colour": "red"}, {"price": {"<": 1}}]},
    {"$not": {"colour": "red"}},
    {"$and": [{"$not": {"sold": {"exists": True}}}, {"$not": {"tags": {"contains": "new"}}}]},
    {'it\'s "quoted"\\\\': 1},
    {"a b": {"<": 5}},
    {"ключ.$x": 3},
    {},
]


def test_filters_mean_the_same_everywhere(empty):
    stored = random_codes(len(PAYLOADS) * 4)
    ids = empty.add(codes=stored, payload=PAYLOADS * 4)
    query = stored[:1]
    for where in FILTERS:
        condition = parse(where)
        keep = np.array([matches(condition, payload) for payload in PAYLOADS * 4])
        assert empty.count(where) == keep.sum(), where
        assert same_hits(empty.search(codes=query, k=9, where=where), nearest(query, ids[keep], stored[keep], 9)), where
    where = {"$or": [{"year": {">=": 2020}}, {"sold": True}]}
    keep = np.array([matches(parse(where), payload) for payload in PAYLOADS * 4])
    ball = empty.within(codes=query, radius=5, where=where)
    near = codes.hamming_distances(query, stored)[0] <= 5
    assert sorted(ball.ids.tolist()) == ids[keep & near].tolist()
    assert [number for rows in empty.scan(3, where) for number in rows.ids.tolist()] == ids[keep].tolist()
    assert empty.delete(where=where) == keep.sum()
    assert empty.count(where) == 0
    assert len(empty) == (~keep).sum()
    with pytest.raises(ValueError, match="every row"):
        empty.delete(where={})
    for wrong in ({"a": {"~": 1}}, {"$where": "1"}, {"": 1}, {"a": float("nan")}, {"a": "\0"}, [1]):
        with pytest.raises(WhereError):
            empty.count(wrong)


def test_long_lists_of_values_are_looked_up(empty):
    """The time of a list grows with its length, not with length times rows; too long a list is one sentence."""
    empty.add(codes=random_codes(2000), payload=[{"n": n, "half": n + 0.5, "name": f"n{n}"} for n in range(2000)])
    even = range(0, 200_000, 2)
    started = time.perf_counter()
    assert empty.count({"n": {"in": even}}) == 1000
    assert empty.count({"name": {"in": [f"n{n}" for n in even]}}) == 1000
    assert empty.count({"half": {"in": [n + 0.5 for n in even]}}) == 1000
    assert empty.count({"n": {"not in": even}}) == 1000
    assert time.perf_counter() - started < 15  # comparing every row with every value took minutes
    for where in ({"n": {"in": range(260_000)}}, {"$not": {"n": {"in": range(260_000)}}}):
        with pytest.raises(WhereError, match=r"at most 1,000 comparisons and 100,000 values in lists"):
            empty.search(codes=random_codes(1), where=where)
    with pytest.raises(WhereError, match="surrogate"):
        empty.count({"name": "\ud800"})


def test_payloads_come_back_as_they_were(empty):
    payloads = [
        *PAYLOADS,
        {"": "empty name", "emoji 🌹": "ünï", "line\nbreak": 'tab\t \u2028 \x7f quote" back\\slash'},
        {"deep": {"er": [{"a": [1, [2, [3]]]}, None, True, -0.5, 1e-300, -(2**63), 2**63 - 1]}},
        {"null": "null", "json": '{"a": 1}', "number": "1"},
    ]
    ids = empty.add(codes=random_codes(len(payloads)), payload=payloads)
    found = [item.payload for item in empty.get(ids)]
    assert found == payloads
    assert [json.dumps(p, sort_keys=True) for p in found] == [json.dumps(p, sort_keys=True) for p in payloads]


ATTACKS = [
    "'; DROP TABLE payload; --",
    '" or 1 == 1 or "" == "',
    '$."a"\') OR 1=1 --',
    "a') OR ('1'='1",
    '"]; delete',
    "%s {0} :v0 ? $1",
    "\\",
    "\\\\'",
    "json_extract(json, '$')",
]


def test_text_is_never_a_command(empty):
    payloads = [{attack: attack, "n": number} for number, attack in enumerate(ATTACKS)]
    ids = empty.add(codes=random_codes(len(ATTACKS)), payload=payloads)
    for number, attack in enumerate(ATTACKS):
        name = attack.replace("\\", "\\\\").replace(".", "\\.")
        for where in ({name: attack}, {name: {"exists": True}}, {name: {"in": [attack, "x"]}}):
            if not name.startswith("$"):
                hits = empty.search(codes=random_codes(1), k=20, where=where)
                assert hits.ids[hits.ids >= 0].tolist() == [ids[number]], where
        for where in ({"n": attack}, {"n": {">": attack}}, {"tags": {"contains": attack}}, {f"n.{name}": 1}):
            assert empty.count(where) == 0
            assert empty.delete(where=where) == 0
    assert len(empty) == len(ATTACKS)


def test_delete(empty):
    stored = random_codes(30)
    ids = empty.add(codes=stored, ids=range(30), payload={"even": [number % 2 == 0 for number in range(30)]})
    assert empty.delete([3, 5, 99, 3]) == 2
    assert empty.delete(4) == 1
    assert empty.delete([3, 4, 5]) == empty.delete([]) == 0
    assert empty.delete(where={"even": True}) == 14
    left = np.array([n for n in range(30) if n % 2 and n not in (3, 5)])
    assert len(empty) == len(left)
    assert same_hits(empty.search(codes=stored[:4], k=30), nearest(stored[:4], ids[left], stored[left], 30))
    with pytest.raises(ValueError, match="not both"):
        empty.delete()
    with pytest.raises(ValueError, match="not both"):
        empty.delete([1], where={"even": True})
    with pytest.raises(ValueError, match="ids"):
        empty.delete([-1])


def test_scan_is_ordered_and_whole(empty):
    ids, stored = np.array([40, 2, 33, 7, 1]), random_codes(5)
    empty.add(codes=stored, ids=ids, payload={"id": ids})
    batches = list(empty.scan(2))
    assert [len(batch.ids) for batch in batches] == [2, 2, 1]
    order = np.argsort(ids)
    assert np.concatenate([batch.ids for batch in batches]).tolist() == ids[order].tolist()
    np.testing.assert_array_equal(np.concatenate([batch.codes for batch in batches]), stored[order])
    assert [p["id"] for batch in batches for p in batch.payloads] == ids[order].tolist()
    assert batches[0].vectors is None


def test_a_hasher_encodes_and_is_kept(uri, kind, rows, hasher):
    with Collection.create(uri, hasher) as shop:
        ids = shop.add(rows, ids=np.arange(1000, 1200))
        assert same_hits(shop.search(rows[:5], k=7), nearest(hasher.encode(rows[:5]), ids, hasher.encode(rows), 7))
        hits = shop.search(rows[:3], k=5, asymmetric=True)
        scores = -hasher.expected_bits(rows[:3]) @ codes.unpack_signs(hasher.encode(rows), 8).T.astype(float)
        if kind != "embedded":
            # Servers rank the rows that are nearest by Hamming distance, with all that are as near as the last.
            bits = np.bitwise_count(hasher.encode(rows[:3])[:, None] ^ hasher.encode(rows)).sum(axis=2)
            scores = np.where(bits <= np.sort(bits, axis=1)[:, 49:50], scores, np.inf)
        np.testing.assert_allclose(hits.distances, np.sort(scores, axis=1)[:, :5], rtol=1e-5)
        found = np.take_along_axis(scores, hits.ids - 1000, axis=1)
        np.testing.assert_allclose(hits.distances, found, rtol=1e-5)
        with pytest.raises(CollectionError, match="already"):
            Collection.create(uri, hasher)
    with Collection.open(uri) as again:
        assert again.n_bits == 8
        np.testing.assert_array_equal(again.hasher.encode(rows), hasher.encode(rows))
        assert same_hits(again.search(rows[:5], k=7), nearest(hasher.encode(rows[:5]), ids, hasher.encode(rows), 7))
        assert again.info()["rows"] == 200
        assert again.info()["hasher"] == "ITQ"
    refitted = ITQ(n_bits=8, random_state=0, n_jobs=1).fit(rows)
    Collection.open(uri, refitted).close()  # computes the same
    with pytest.raises(CollectionError, match="another hasher"):
        Collection.open(uri, ITQ(n_bits=8, random_state=0).fit(rows[:100]))
    with Collection.open(uri, read_only=True) as reader:
        assert len(reader) == 200
        for change in (
            lambda: reader.add(rows[:1]),
            lambda: reader.delete([1000]),
            lambda: reader.delete(where={"a": 1}),
        ):
            with pytest.raises(CollectionError, match="read"):
                change()
    Collection.drop(uri)
    with pytest.raises(CollectionError):
        Collection.open(uri)
    with pytest.raises(CollectionError):
        Collection.drop(uri)
    Collection.create(uri, n_bits=3).close()  # the name is free again


def test_rescoring_ranks_by_the_vectors(uri, rows, hasher):
    with Collection.create(uri, hasher, store_vectors=True) as shop:
        ids = shop.add(rows, ids=range(200), payload={"odd": [bool(n % 2) for n in range(200)]})
        query = rows[:4] + 0.1
        exact = {
            "euclidean": np.linalg.norm(query[:, None] - rows[None], axis=2),
            "dot": -query @ rows.T,
            "cosine": 1
            - (query / np.linalg.norm(query, axis=1)[:, None]) @ (rows / np.linalg.norm(rows, axis=1)[:, None]).T,
        }
        for metric, distances in exact.items():
            hits = shop.search(query, k=5, rescore=40, metric=metric)  # looks at every row
            np.testing.assert_array_equal(hits.ids, ids[np.argsort(distances, axis=1)[:, :5]])
            np.testing.assert_allclose(hits.distances, np.sort(distances, axis=1)[:, :5], rtol=1e-4, atol=1e-5)
            assert hits.distances.dtype == np.float64
        near = shop.search(query, k=200)
        hits = shop.search(query, k=5, rescore=2, metric="dot")
        for number in range(4):  # the ten nearest, and all that tie with the tenth
            looked_at = near.ids[number][near.distances[number] <= near.distances[number, 9]]
            expected = looked_at[np.argsort(exact["dot"][number][looked_at])][:5]
            np.testing.assert_array_equal(hits.ids[number], expected)
        odd = shop.search(query, k=120, rescore=True, where={"odd": True})
        assert (odd.ids[:, :100] % 2 == 1).all()
        assert (odd.ids[:, 100:] == -1).all()
        assert np.isinf(odd.distances[:, 100:]).all()
        np.testing.assert_array_equal(shop.get(3).vector, rows[3])
        assert shop.get([3], vectors=False)[0].vector is None
        np.testing.assert_array_equal(np.concatenate([batch.vectors for batch in shop.scan(70, vectors=True)]), rows)
        shop.add(rows[:1] * 2, ids=[3])
        np.testing.assert_array_equal(shop.get(3).vector, rows[0] * 2)
        for mistake in ({"rescore": 0.5}, {"rescore": True, "metric": "l1"}):
            with pytest.raises(ValueError, match=r"rescore|metric"):
                shop.search(query, **mistake)
        with pytest.raises(ValueError, match="needs X"):
            shop.search(codes=hasher.encode(query), rescore=True)
    Collection.drop(uri)
    with Collection.create(uri, hasher) as bare:
        bare.add(rows)
        with pytest.raises(CollectionError, match="keeps no vectors"):
            bare.search(rows[:1], rescore=True)


def test_rescoring_takes_whole_ties_so_a_stored_row_finds_itself(uri, rows):
    """Two hundred rows have three codes: which of a tie are looked at may not depend on their ids."""
    stored = codes.pack((np.arange(200) % 3)[:, None] == [0, 1, 2, 0, 1, 2, 0, 0])
    with Collection.create(uri, ITQ(n_bits=8, random_state=0).fit(rows), store_vectors=True) as shop:
        own = lambda X: stored[[np.flatnonzero((rows == row).all(axis=1))[0] for row in X]]  # noqa: E731
        shop.hasher.encode = shop.hasher.encode_queries = own
        # The largest ids belong to the first rows, so ids alone would never choose them.
        ids = np.arange(200)[::-1].copy()
        shop.add(rows, ids=ids)
        for metric in ("cosine", "euclidean"):
            hits = shop.search(rows, k=2, rescore=True, metric=metric)
            np.testing.assert_array_equal(hits.ids[:, 0], ids)
        assert (shop.search(rows, k=2).ids[:, 0] != ids).any()
        # A multiple of a row has the same cosine; the row itself is still the nearest.
        shop.hasher.encode = shop.hasher.encode_queries = lambda X: stored[: len(X)]
        shop.add(2 * rows[:1], ids=[0])
        assert shop.search(rows[:1], k=1, rescore=True).ids[0, 0] == ids[0]
        with pytest.warns(UserWarning, match=r"1 of 1 queries 30 rows or more .*max_candidates"):
            cut = shop.search(rows[:1], k=2, rescore=True, max_candidates=30)
        assert ids[0] not in cut.ids  # the sentence is true: the row has one of the largest ids
        with pytest.raises(ValueError, match="max_candidates"):
            shop.search(rows[:1], rescore=True, max_candidates=0)


def test_codes_made_elsewhere_in_the_other_bit_order(empty):
    stored = random_codes(20)
    empty.add(codes=codes.swap_bit_order(stored), ids=range(20), bit_order="little")
    np.testing.assert_array_equal([item.code for item in empty.get(range(20))], stored)
    swapped = codes.swap_bit_order(stored[:3])
    assert same_hits(empty.search(codes=swapped, k=4, bit_order="little"), empty.search(codes=stored[:3], k=4))
    with pytest.raises(ValueError, match="zero bits"):
        empty.add(codes=codes.swap_bit_order(stored) | 128, bit_order="little")


def test_export(empty, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    ids, stored = np.array([7, 3, 2**63 - 1, 5]), random_codes(4)
    empty.add(codes=stored, ids=ids, payload=[{"é": [1]}, None, {"b": 2.5}, {}])
    order = np.argsort(ids)
    for name in ("c.npy", "c.parquet", "c.faiss"):
        assert empty.export(tmp_path / name) == 4
    np.testing.assert_array_equal(read_codes(tmp_path / "c.npy").codes, stored[order])
    assert read_codes(tmp_path / "c.npy").info.bits == BITS
    np.testing.assert_array_equal(np.load(tmp_path / "c.ids.npy"), ids[order])
    table = parquet.read_table(tmp_path / "c.parquet").to_pylist()
    assert [row["id"] for row in table] == ids[order].tolist()
    assert [row["code"] for row in table] == [code.tobytes() for code in stored[order]]
    assert [json.loads(row["payload"] or "{}") for row in table] == [{}, {}, {"é": [1]}, {"b": 2.5}]
    assert empty.export(tmp_path / "l.npy", bit_order="little") == 4
    np.testing.assert_array_equal(np.load(tmp_path / "l.npy"), codes.swap_bit_order(stored[order]))
    for wrong in ("c.txt", "nowhere/c.npy"):
        with pytest.raises(ValueError, match=r"must end|does not exist"):
            empty.export(tmp_path / wrong)


def test_faiss_reads_an_export_and_finds_the_same_distances(empty, tmp_path):
    faiss = pytest.importorskip("faiss")
    rng = np.random.default_rng(3)
    bits = rng.integers(0, 2, (30, BITS), dtype=np.uint8)
    ids = rng.permutation(10**6)[:30]
    empty.add(codes=codes.pack(bits), ids=ids)
    for order, options in (("little", {}), ("little", {"bit_order": "little"}), ("big", {"bit_order": "big"})):
        assert empty.export(tmp_path / "c.faiss", **options) == 30
        index = faiss.read_index_binary(str(tmp_path / "c.faiss"))
        # NumPy's own packing: the order that the facts beside the file name is what the queries need.
        facts = json.loads((tmp_path / "c.faiss.json").read_text())
        assert (facts["bit_order"], facts["bits"], facts["rows"], facts["padding"]) == (order, BITS, 30, -BITS % 8)
        asked = rng.integers(0, 2, (5, BITS), dtype=np.uint8)
        distances, found = index.search(np.packbits(asked, axis=1, bitorder=order), 30)
        expected = (asked[:, None, :] != bits[None, :, :]).sum(axis=2)
        np.testing.assert_array_equal(distances, np.sort(expected, axis=1))
        places = {number: place for place, number in enumerate(ids.tolist())}
        for query, row in enumerate(found):
            np.testing.assert_array_equal(distances[query], [expected[query, places[number]] for number in row])
        ours = empty.search(codes=codes.pack(asked), k=30)
        np.testing.assert_array_equal(distances, ours.distances)


def test_a_bit_order_that_a_file_cannot_have_is_refused(empty, tmp_path):
    empty.add(codes=random_codes(2))
    with pytest.raises(ValueError, match="can only have bit_order 'big'"):
        empty.export(tmp_path / "c.parquet", bit_order="little")
    with pytest.raises(ValueError, match=r"bit_order must be 'big', 'little' or None. Got 'middle' instead"):
        empty.export(tmp_path / "c.faiss", bit_order="middle")
    assert not list(tmp_path.glob("c.*"))


def test_another_reader_sees_every_change_at_once(uri):
    stored = random_codes(60)
    with Collection.create(uri, n_bits=BITS) as writer, Collection.open(uri, read_only=True) as reader:
        for start in range(0, 60, 15):
            writer.add(
                codes=stored[start : start + 15], ids=np.arange(start, start + 15), payload=[{"part": start}] * 15
            )
            assert len(reader) == start + 15
            assert reader.count({"part": start}) == 15
            assert same_hits(
                reader.search(codes=stored[:2], k=60),
                nearest(stored[:2], np.arange(start + 15), stored[: start + 15], 60),
            )
        writer.delete(where={"part": 15})
        assert len(reader) == reader.count({"part": {"!=": 15}}) == 45
        assert reader.get(15) is None
        assert 15 not in reader.search(codes=stored[:1], k=60).ids


def test_threads_search_while_one_adds(empty):
    """A batch of 5 rows has one code: a search sees all five of it or none."""
    failures, done = [], threading.Event()
    shared = np.repeat(random_codes(1), 5, axis=0)

    def look():
        while not done.is_set():
            try:
                found = empty.within(codes=shared[:1], radius=0).ids
                if len(found) % 5 or sorted(found.tolist()) != list(range(len(found))):
                    failures.append(found)
            except Exception as error:
                failures.append(error)

    threads = [threading.Thread(target=look) for _ in range(3)]
    for thread in threads:
        thread.start()
    for start in range(0, 50, 5):
        empty.add(codes=shared, ids=np.arange(start, start + 5))
    done.set()
    for thread in threads:
        thread.join()
    assert not failures
    assert len(empty) == 50


@pytest.mark.parametrize("name", ["ftp://host/x", "sqlite://x", "", " ", "a\0b"])
def test_uris_that_mean_nothing(name):
    with pytest.raises((CollectionError, ValueError), match="folder"):
        Collection.create(name, n_bits=8)
