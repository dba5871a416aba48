"""What is special to Milvus: its limits, its filters, ties beyond its limit and lost connections."""

import contextlib
import os
import re
import socket
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pymilvus import DataType, MilvusClient

from collection.milvus_box import carry
from collection.payload_strategies import conditions, payloads, same, targeted
from collection.servers import fresh_name
from hashlearn.collection import Collection, CollectionError, UnsupportedByStoreError
from hashlearn.collection.store import CollectionSpec, Query
from hashlearn.collection.stores.milvus import near as milvus_near
from hashlearn.collection.stores.milvus.link import row_schema
from hashlearn.collection.stores.milvus.store import MilvusStore, _requests
from hashlearn.collection.stores.milvus.where import split, to_expression
from hashlearn.collection.where import All, Compare, matches, parse


def search(store, codes, k, where=None):
    return store.search(Query(codes, where=where), k).hits


def within(store, codes, radius, where=None):
    return store.within(Query(codes, where=where), radius).hits


def random_codes(count, seed=0, n_bytes=2):
    return np.random.default_rng(seed).integers(0, 256, (count, n_bytes), dtype=np.uint8)


@pytest.fixture
def store(milvus_uri):
    made = MilvusStore.create(milvus_uri, CollectionSpec(16))
    yield made
    made.close()


def refused(action, *arguments):
    with pytest.raises(CollectionError) as caught:
        action(*arguments)
    message = str(caught.value)
    assert "\n" not in message
    assert message.endswith(".")
    return message


def listening(pid):
    """(address, port) of the sockets on which a process waits, in this network."""
    owned = set()
    for handle in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):
            owned.add(os.readlink(f"/proc/{pid}/fd/{handle}"))
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/self/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in owned:
                address, port = fields[1].split(":")
                yield address, int(port, 16)


def test_the_server_is_reached_through_the_loopback_only(milvus_server):
    assert list(listening(milvus_server.box.pid)) == [("0100007F", milvus_server.port)]
    assert os.readlink(f"/proc/{milvus_server.pid}/ns/net") != os.readlink("/proc/self/ns/net")


def test_rows_in_several_segments_are_all_read(store, milvus_server):
    """A server that asks its segments for the rows of smallest id stops where the first of them ends."""
    client = MilvusClient(f"http://127.0.0.1:{milvus_server.port}")
    codes = random_codes(60)
    for part in np.split(np.arange(60), 3):
        store.add(part, codes[part], None, None)
        client.flush(store._name)
    np.testing.assert_array_equal(store.get(np.arange(0, 60, 7)).ids, np.arange(0, 60, 7))
    for batch_rows in (7, 1000):
        scanned = np.concatenate([rows.ids for rows in store.scan(batch_rows)])
        np.testing.assert_array_equal(scanned, np.arange(60))


@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(payloads, min_size=8, max_size=40), filters=st.lists(conditions, min_size=5, max_size=12))
def test_filters_and_payloads_are_exact(store, rows, filters):
    ids = np.arange(len(rows))
    store.delete(np.arange(40))
    store.add(ids, random_codes(len(rows)), rows, None)
    assert all(map(same, store.get(ids).payloads, rows))
    for condition in [*filters, *targeted(rows)[:25]]:
        expected = [number for number, row in enumerate(rows) if matches(condition, row)]
        assert sorted(within(store, random_codes(1), 16, condition).ids.tolist()) == expected, condition


def test_what_milvus_cannot_say_is_kept_back():
    plain = parse({"colour": 'a "red" \\ one', "size.width": {">=": 2.5, "<": 7}, "tags": {"contains": 3}})
    assert split(plain) == (
        '(payload["colour"] == "a \\"red\\" \\\\ one") and (payload["size"]["width"] >= 2.5) and '
        '(payload["size"]["width"] < 7) and (json_contains(payload["tags"], 3.0))',
        None,
    )
    for hard in ({"x": None}, {"x": 2**53}, {"x": {"in": [1, None]}}, {'a"]': 1}, {"a.0": 1}, {"x": "\n"}, {"[": 1}):
        text, rest = split(parse({"colour": "red", **hard}))
        assert text == '(payload["colour"] == "red")'
        assert matches(rest, {}) == matches(parse(hard), {})
        assert isinstance(rest, All)
    assert to_expression(Compare(("x",), "in", (1, 2.5, "a", True))) == (
        '(payload["x"] in [1] or payload["x"] in [2.5] or payload["x"] in ["a"] or payload["x"] == true)'
    )


def naive(queries, codes, ids, k):
    distances = np.bitwise_count(queries[:, None] ^ codes[None]).sum(axis=2, dtype=np.int64)
    order = [np.lexsort((ids, row))[:k] for row in distances]
    return distances, np.array([ids[places] for places in order])


def test_ties_and_balls_beyond_the_limit_by_windows(store, monkeypatch):
    """A small limit makes many windows; the server is the same."""
    monkeypatch.setattr(milvus_near, "MAX_HITS", 40)
    ids = np.random.default_rng(1).permutation(5000)[:600]
    ids[0] = 2**63 - 1
    codes, queries = random_codes(600) & np.uint8(0x11), random_codes(3, seed=5) & np.uint8(0x11)
    store.add(ids, codes, [{"even": bool(i % 2 == 0)} for i in ids], None)
    distances, nearest = naive(queries, codes, ids, 40)
    for k in (1, 20, 40):
        np.testing.assert_array_equal(search(store, queries, k).ids, nearest[:, :k])
    even = ids % 2 == 0
    np.testing.assert_array_equal(
        search(store, queries, 15, parse({"even": True})).ids, naive(queries, codes[even], ids[even], 15)[1]
    )
    ball = within(store, queries, 2)
    for place in range(3):
        expected = sorted((int(d), int(i)) for d, i in zip(distances[place], ids, strict=True) if d <= 2)
        part = slice(ball.offsets[place], ball.offsets[place + 1])
        assert list(zip(ball.distances[part].tolist(), ball.ids[part].tolist(), strict=True)) == expected


def test_more_equal_codes_than_milvus_returns(store, capsys):
    count = 20_000
    ids = np.random.default_rng(2).permutation(count)
    start = time.perf_counter()
    store.add(ids, np.full((count, 2), 7, np.uint8), None, None)
    rate = count / (time.perf_counter() - start)
    with capsys.disabled():
        print(f"\nMilvus: {rate:,.0f} new rows/s")
    query = np.full((1, 2), 7, np.uint8)
    np.testing.assert_array_equal(search(store, query, 10).ids, [np.arange(10)])
    np.testing.assert_array_equal(search(store, query, 16_384).ids, [np.arange(16_384)])
    np.testing.assert_array_equal(within(store, query, 0).ids, np.arange(count))
    assert "at most 16384 rows per query. Got k=16385" in refused(search, store, query, 16_385)
    assert store.count() == count
    np.testing.assert_array_equal(np.concatenate([rows.ids for rows in store.scan(3000)]), np.arange(count))
    assert store.delete(np.arange(0, 2 * count, 2)) == count // 2
    assert store.count() == count // 2
    np.testing.assert_array_equal(search(store, query, 3).ids, [[1, 3, 5]])


def test_lists_of_codes(milvus_server):
    uri = milvus_server.uri(fresh_name())
    store = MilvusStore.create(uri, CollectionSpec(16, kind="ivf", settings={"n_lists": 8, "n_probes": 2}))
    codes, ids = random_codes(500), np.arange(500)
    store.add(ids, codes, [{"n": int(i)} for i in ids], None)
    nearest = naive(codes[:5], codes[:100], ids[:100], 7)[1]
    np.testing.assert_array_equal(search(store, codes[:5], 7, parse({"n": {"<": 100}})).ids, nearest)
    assert search(store, codes[:5], 1).distances.tolist() == [[0]] * 5
    assert within(store, codes[:5], 3).offsets[-1] == (naive(codes[:5], codes, ids, 1)[0] <= 3).sum()
    assert store.info()["index"] == "BIN_IVF_FLAT"
    store.close()
    MilvusStore.drop(uri)


def test_the_model_is_kept_in_parts_and_checked(milvus_server):
    uri = milvus_server.uri(fresh_name())
    spec = CollectionSpec(13, model=os.urandom(200_000), fingerprint="ab" * 32, vector_size=3, settings={})
    MilvusStore.create(uri, spec).close()
    again = MilvusStore.open(uri, read_only=True)
    assert again.spec == spec
    for change in (lambda: again.add(np.arange(1), random_codes(1), None, None), lambda: again.delete(np.arange(1))):
        assert "reading only" in refused(change)
    again._link.call("delete", uri.rpartition("/")[2] + "__hashlearn", filter="part in [2]")
    assert refused(MilvusStore.open, uri).startswith(f"The model of the collection at {uri} is damaged:")
    again.close()
    again.close()
    assert "is closed" in refused(again.count)
    drop_raw(milvus_server, *(uri.rpartition("/")[2] + end for end in ("", "__hashlearn")))


def client(server):
    return MilvusClient(uri=f"http://127.0.0.1:{server.port}")


def foreign(raw, name):
    """A collection that is not ours."""
    schema = raw.create_schema(auto_id=True)
    schema.add_field("key", DataType.INT64, is_primary=True)
    schema.add_field("floats", DataType.FLOAT_VECTOR, dim=4)
    raw.create_collection(name, schema=schema)


def drop_raw(server, *names):
    raw = client(server)
    for name in names:
        raw.drop_collection(name)
    raw.close()


def test_other_peoples_collections_are_left_alone(milvus_server):
    name = fresh_name()
    uri = milvus_server.uri(name)
    raw = client(milvus_server)
    foreign(raw, name)
    assert "not made by hashlearn" in refused(MilvusStore.open, uri)
    assert "not made by hashlearn" in refused(MilvusStore.drop, uri)
    assert "not made by hashlearn" in refused(MilvusStore.create, uri, CollectionSpec(8))
    assert raw.has_collection(name)
    raw.drop_collection(name)
    # What a creation that broke off leaves behind is no collection, and does not stand in the way.
    foreign(raw, name + "__hashlearn")
    assert "no collection at" in refused(MilvusStore.open, uri)
    MilvusStore.create(uri, CollectionSpec(8)).close()
    assert "already: open it" in refused(MilvusStore.create, uri, CollectionSpec(8))
    raw.drop_collection(name)
    foreign(raw, name)
    assert "not made by hashlearn" in refused(MilvusStore.open, uri)
    raw.drop_collection(name)
    # Of 16 bits where 8 were agreed.
    raw.create_collection(name, schema=row_schema(CollectionSpec(16)))
    raw.create_index(name, raw.prepare_index_params("code", index_type="BIN_FLAT", metric_type="HAMMING"))
    assert "made by something else" in refused(MilvusStore.open, uri)
    MilvusStore.drop(uri)
    assert not raw.has_collection(name + "__hashlearn")
    raw.close()


@pytest.mark.parametrize(
    "place", ["a b", "a;drop", "1a", "a'", "é", "a" * 300, "", "x__hashlearn", "a/b", "a?nonsense=1", "a?timeout=soon"]
)
def test_names_and_options_are_checked_before_asking(place):
    message = refused(MilvusStore.open, f"milvus://me:s3cret-pass@127.0.0.1:1/{place}")
    assert "s3cret-pass" not in message


def test_nobody_there_is_one_sentence():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    message = refused(MilvusStore.open, f"milvus://me:s3cret-pass@127.0.0.1:{port}/shop?timeout=2")
    assert "Cannot connect" in message
    assert "s3cret-pass" not in message


def test_limits_are_said_before_anything_is_written(milvus_uri, store):
    large = {"text": "é" * 33_000}
    message = refused(store.add, np.arange(2), random_codes(2), [{}, large], None)
    assert "at most 65536 bytes" in message
    assert "id 1 has 66011" in message
    assert store.count() == 0
    fitting = {"text": "é" * 32_700}
    store.add(np.arange(1), random_codes(1), [fitting], None)
    assert store.get(np.arange(1)).payloads == [fitting]
    for spec in (CollectionSpec(8, kind="hnsw"), CollectionSpec(8, vector_size=5000)):
        with pytest.raises(UnsupportedByStoreError, match="folder"):
            MilvusStore.create(milvus_uri, spec)


def test_requests_stay_below_the_message_limit():
    sizes = np.full(25_000, 100)
    assert [part.stop - part.start for part in _requests(sizes)] == [10_000, 10_000, 5000]
    sizes = np.full(1000, 60_000)
    parts = list(_requests(sizes))
    assert [part.start for part in parts[1:]] == [part.stop for part in parts[:-1]]
    assert max(part.stop - part.start for part in parts) * 60_000 <= 2**24
    assert list(_requests(np.array([2**25, 1]))) == [slice(0, 1), slice(1, 2)]


class Wire:
    """A way to the server that can be cut."""

    def __init__(self, port):
        self.target, self.open = port, True
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.ends = []
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        with contextlib.suppress(OSError):
            while True:
                near, _ = self.listener.accept()
                if not self.open:
                    near.close()
                    continue
                far = socket.create_connection(("127.0.0.1", self.target))
                self.ends += [near, far]
                for pair in ((near, far), (far, near)):
                    threading.Thread(target=carry, args=pair, daemon=True).start()

    def cut(self):
        self.open = False
        for end in self.ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def mend(self):
        self.open = True

    def close(self):
        self.cut()
        self.listener.close()


def test_a_lost_connection_is_waited_for_and_an_end_is_said(milvus_server):
    wire = Wire(milvus_server.port)
    uri = milvus_server.uri(fresh_name(), wire.port) + "?timeout=20"
    store = MilvusStore.create(uri, CollectionSpec(16))
    try:
        codes = random_codes(10)
        store.add(np.arange(10), codes, None, None)
        wire.cut()
        threading.Timer(1.5, wire.mend).start()
        store.add(np.arange(10, 20), codes, None, None)
        wire.cut()
        threading.Timer(0.5, wire.mend).start()
        assert search(store, codes[:1], 2).ids.tolist() == [[0, 10]]
        impatient = MilvusStore.open(uri.replace("timeout=20", "timeout=2"))
        wire.cut()
        start = time.monotonic()
        assert "No answer for 2 s" in refused(impatient.count)
        assert time.monotonic() - start < 15
        wire.mend()
        impatient.close()
        assert store.count() == 20
        MilvusStore.drop(uri)
    finally:
        store.close()
        wire.close()


def test_two_writers_work_side_by_side(milvus_uri, store):
    other = MilvusStore.open(milvus_uri)
    errors = []

    def write(own, first):
        try:
            for turn in range(6):
                own.add(np.arange(first + 10 * turn, first + 10 * turn + 10), random_codes(10), None, None)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=write, args=pair) for pair in ((store, 0), (other, 1000))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert store.count() == 120
    other.close()


def test_the_page_runs(milvus_uri):
    page = (Path(__file__).parents[2] / "docs" / "stores.md").read_text()
    block = next(one for one in re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL) if "milvus://" in one)
    space = {"Collection": Collection, "codes": random_codes(100, n_bytes=8)}
    exec(block.replace("milvus://localhost:19530/shoes", milvus_uri), space)
    assert space["ids"].shape == (3, 5)
    assert space["ids"].min() >= 20
