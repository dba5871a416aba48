"""What is special to PostgreSQL: SQL, transactions, lost connections and other people's tables."""

import contextlib
import os
import re
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from collection.payload_strategies import conditions, payloads, same, targeted
from collection.servers import fresh_name
from hashlearn.collection import CollectionError
from hashlearn.collection.store import CollectionSpec, Query
from hashlearn.collection.stores.postgres import link as postgres_link
from hashlearn.collection.stores.postgres.store import PostgresStore
from hashlearn.collection.where import matches, parse


def search(store, codes, k, where=None):
    return store.search(Query(codes, where=where), k).hits


def within(store, codes, radius, where=None):
    return store.within(Query(codes, where=where), radius).hits


def random_codes(count, seed=0, n_bytes=2):
    return np.random.default_rng(seed).integers(0, 256, (count, n_bytes), dtype=np.uint8)


@pytest.fixture
def store(postgres_uri):
    made = PostgresStore.create(postgres_uri, CollectionSpec(16))
    yield made
    made.close()


def fill(store, count, first=0, payload=None):
    ids = np.arange(first, first + count)
    store.add(ids, random_codes(count), [payload or {"n": int(i)} for i in ids], None)
    return ids


def refused(uri, action=PostgresStore.open):
    with pytest.raises(CollectionError) as caught:
        action(uri)
    message = str(caught.value)
    assert "\n" not in message
    assert message.endswith(".")
    return message


def test_the_server_is_no_root_and_listens_on_its_socket_only(postgres_server):
    assert os.stat(f"/proc/{postgres_server.process.pid}").st_uid != 0
    with postgres_server.connect() as connection:
        assert connection.execute("SHOW listen_addresses").fetchone() == ("",)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(payloads, min_size=1, max_size=12), filters=st.lists(conditions, min_size=1, max_size=6))
def test_filters_and_payloads_are_exact(store, rows, filters):
    ids = np.arange(len(rows))
    store.delete(np.arange(12))
    store.add(ids, random_codes(len(rows)), rows, None)
    assert all(map(same, store.get(ids).payloads, rows))
    for condition in [*filters, *targeted(rows)[:30]]:
        expected = [number for number, row in enumerate(rows) if matches(condition, row)]
        found = within(store, random_codes(1), 16, condition).ids
        assert sorted(found.tolist()) == expected, condition


def test_every_digit_of_a_float_counts(store):
    held = [2.0**60, 2**60, 2**60 + 1, 1e23, 10**18 + 1, float(10**18), 5e-324, -0.0, 0.1]
    store.add(np.arange(len(held)), random_codes(len(held)), [{"x": value} for value in held], None)
    assert store.count(parse({"x": 2**60})) == 2
    assert store.count(parse({"x": 2.0**60})) == 2
    assert store.count(parse({"x": {">": 2.0**60, "<": 1e20}})) == 1
    assert store.count(parse({"x": {"=": 1e23}})) == 1
    assert store.count(parse({"x": {">": 0, "<": 1e-300}})) == 1
    found = [payload["x"] for payload in store.get(np.arange(len(held))).payloads]
    assert found == held
    assert [type(value) for value in found] == [type(value) for value in held]


@pytest.mark.parametrize("name", ['"; DROP TABLE x; --', "a'b", "日本", "With Space", "x" * 52, "{rows}"])
def test_any_name_is_a_name(postgres_server, name):
    uri = postgres_server.uri(name)
    store = PostgresStore.create(uri, CollectionSpec(13, vector_size=2))
    code = np.array([[0xFF, 0xF8]], np.uint8)
    store.add(np.array([7]), code, [{name: name}], np.array([[1.5, -2]], np.float32))
    store.close()
    again = PostgresStore.open(uri)
    found = again.get(np.array([7]), vectors=True)
    assert (found.codes.tolist(), found.payloads, found.vectors.tolist()) == (
        code.tolist(),
        [{name: name}],
        [[1.5, -2]],
    )
    assert search(again, code, 1).ids.tolist() == [[7]]
    assert again.info()["rows"] == 1
    again.close()
    PostgresStore.drop(uri)
    assert "no collection" in refused(uri)


def test_what_a_uri_lacks_is_said(postgres_server, tmp_path):
    secret = postgres_server.password
    assert "names no collection" in refused(postgres_server.uri(""))
    for name in ("é" * 30, "50%", "a\0b"):
        assert "1 to 52 bytes" in refused(postgres_server.uri(name))
    assert "no schema 'nowhere'" in refused(postgres_server.uri("x", schema="nowhere"))
    assert "does not exist" in refused(postgres_server.uri("x", database="nowhere"))
    wrong = refused(postgres_server.uri("x", password="wr0ng-pass"))
    assert "password authentication failed" in wrong
    assert "wr0ng-pass" not in wrong
    for uri in (
        "postgresql://me:s3cret-pass@host.invalid/db?collection=x",
        f"postgresql://me:s3cret-pass@/db?host={tmp_path}&collection=x",
        "postgresql://me:s3cret-pass@/db?port=abc&collection=x",
        "postgresql://me:s3cret-pass@/db?nonsense=1&collection=x",
        "postgresql://me:s3cret-pass@[/db?collection=x",
    ):
        message = refused(uri)
        assert "s3cret-pass" not in message
        assert secret not in message


def test_other_peoples_tables_are_left_alone(postgres_server):
    name = fresh_name()
    uri = postgres_server.uri(name)
    with postgres_server.connect() as connection:
        connection.execute(f"CREATE TABLE {name} (a text)")
        assert "no collection of hashlearn" in refused(uri)
        assert "no collection of hashlearn" in refused(uri, PostgresStore.drop)
        assert "choose another name" in refused(uri, lambda uri: PostgresStore.create(uri, CollectionSpec(8)))
        assert connection.execute(f"SELECT count(*) FROM {name}").fetchone() == (0,)
        connection.execute(f"DROP TABLE {name}")
        PostgresStore.create(uri, CollectionSpec(8)).close()
        assert "already: open it" in refused(uri, lambda uri: PostgresStore.create(uri, CollectionSpec(8)))
        connection.execute(f"ALTER TABLE {name} ALTER code TYPE bit(9) USING code::bit(9)")
        assert "somebody changed it" in refused(uri)
        connection.execute(f"DROP TABLE {name}, {name}__hashlearn")


def test_without_pgvector_it_says_how_to_get_it(postgres_server):
    database, role = fresh_name(), fresh_name()
    uri = postgres_server.uri("shop", database=database)
    control = next(postgres_server.folder.rglob("vector.control"))
    hidden = control.with_suffix(".hidden")
    with postgres_server.connect() as connection:
        connection.execute(f"CREATE DATABASE {database}")
        connection.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'x'")
        guest = uri.replace(f"postgres:{postgres_server.password}", f"{role}:x")
        try:
            assert "ask the owner" in refused(guest, lambda uri: PostgresStore.create(uri, CollectionSpec(8)))
            control.rename(hidden)
            assert "has no pgvector: install it" in refused(
                uri, lambda uri: PostgresStore.create(uri, CollectionSpec(8))
            )
        finally:
            hidden.rename(control)
            connection.execute(f"DROP DATABASE {database} WITH (FORCE)")
            connection.execute(f"DROP ROLE {role}")


def test_pgvector_in_a_schema_of_its_own_and_other_encodings(postgres_server):
    odd, plain = fresh_name(), fresh_name()
    with postgres_server.connect() as connection:
        connection.execute(f"CREATE DATABASE {odd}")
        connection.execute(f"CREATE DATABASE {plain} ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0")
        try:
            uri = postgres_server.uri("shop", database=plain)
            assert "SQL_ASCII: collections need UTF8" in refused(
                uri, lambda uri: PostgresStore.create(uri, CollectionSpec(8))
            )
            with postgres_server.connect(odd) as other:
                other.execute('CREATE SCHEMA "Exten sions"')
                other.execute('CREATE EXTENSION vector SCHEMA "Exten sions"')
            uri = postgres_server.uri("shop", database=odd)
            store = PostgresStore.create(uri, CollectionSpec(16, vector_size=3, kind="hnsw"))
            codes = random_codes(50)
            store.add(np.arange(50), codes, None, np.ones((50, 3), np.float32))
            store.close()
            store = PostgresStore.open(uri)
            assert search(store, codes[:5], 1).distances.tolist() == [[0]] * 5
            assert store.get(np.array([3]), vectors=True).vectors.tolist() == [[1, 1, 1]]
            store.close()
        finally:
            connection.execute(f"DROP DATABASE {odd} WITH (FORCE)")
            connection.execute(f"DROP DATABASE {plain} WITH (FORCE)")


def clustered(count, seed):
    """16-byte codes around 50 centres, a tenth of the bits flipped."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(9).integers(0, 2, (50, 128), dtype=np.uint8)
    return np.packbits(centres[rng.integers(0, 50, count)] ^ (rng.random((count, 128)) < 0.1), axis=1)


def test_the_graph_finds_nearly_everything_and_filters_stay_exact(postgres_server):
    uri = postgres_server.uri(fresh_name())
    store = PostgresStore.create(uri, CollectionSpec(128, kind="hnsw", settings={"n_links": 8, "ef_construction": 32}))
    codes, queries = clustered(1500, 0), clustered(20, 1)
    store.add(np.arange(1500), codes, [{"even": i % 2 == 0} for i in range(1500)], None)
    with postgres_server.connect() as connection:
        query = "SELECT indexdef FROM pg_indexes WHERE tablename = %s AND indexdef LIKE '%%hnsw%%'"
        made = connection.execute(query, [uri.rpartition("=")[2]]).fetchall()
    assert len(made) == 1
    assert "m='8'" in made[0][0]
    distances = np.bitwise_count(queries[:, None] ^ codes[None]).sum(axis=2, dtype=np.int64)
    kth = np.sort(distances, axis=1)[:, 9]
    hits = search(store, queries, 10)
    assert (hits.distances <= kth[:, None]).mean() >= 0.9
    assert (np.take_along_axis(distances, hits.ids, axis=1) == hits.distances).all()
    expected = np.argsort(distances[:, ::2], axis=1, kind="stable")[:, :10] * 2
    np.testing.assert_array_equal(search(store, queries, 10, parse({"even": True})).ids, expected)
    np.testing.assert_array_equal(search(store, queries, 1500).ids, np.argsort(distances, axis=1, kind="stable"))
    assert within(store, queries, 30).offsets[-1] == (distances <= 30).sum()
    assert store.delete(np.arange(700)) == 700
    assert search(store, queries, 10).ids.min() >= 700
    store.close()
    PostgresStore.drop(uri)


def test_a_killed_connection_is_made_again(postgres_server, store):
    fill(store, 10)
    with postgres_server.connect() as connection:
        for how in ("pg_terminate_backend(pid)", "pid"):
            found = connection.execute(
                f"SELECT {how} FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
            ).fetchall()
            if how == "pid":
                # The server then restarts itself and drops every connection.
                os.kill(found[0][0], signal.SIGKILL)
            assert store.count() == 10
            assert search(store, random_codes(1), 1).ids.tolist() == [[0]]


@contextlib.contextmanager
def second_reader(uri):
    store = PostgresStore.open(uri, read_only=True)
    try:
        yield store
    finally:
        store.close()


def test_rows_are_all_there_or_none_while_connections_die(postgres_server, postgres_uri, store):
    acknowledged, failed, stop = [], [], threading.Event()
    ids = np.arange(300)

    def write():
        number = 0
        while not stop.is_set():
            number += 1
            try:
                fill(store, len(ids), payload={"batch": number})
                acknowledged.append(number)
            except CollectionError as error:
                failed.append(error)

    writer = threading.Thread(target=write)
    writer.start()
    with postgres_server.connect() as killer, second_reader(postgres_uri) as reader:
        mine = reader._link.run(lambda connection: connection.info.backend_pid)
        for _ in range(15):
            killer.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'client backend' "
                "AND pid <> pg_backend_pid() AND pid <> %s",
                [mine],
            )
            before = acknowledged[-1] if acknowledged else 0
            batches = {payload["batch"] for payload in reader.get(ids).payloads}
            assert len(batches) <= 1
            assert not before or min(batches) >= before
            time.sleep(0.02)
        stop.set()
        writer.join()
        assert acknowledged
        assert {payload["batch"] for payload in reader.get(ids).payloads} >= {acknowledged[-1]}
    for error in failed:
        assert "Lost the connection twice" in str(error)


def test_a_restart_is_waited_for_and_an_end_is_said(postgres_server, store, monkeypatch):
    fill(store, 10)
    counted = []
    reader = threading.Thread(target=lambda: counted.append(store.count()))
    try:
        postgres_server.stop(signal.SIGQUIT)
        reader.start()
        time.sleep(0.5)
        assert not counted
        postgres_server.start()
        reader.join()
        assert counted == [10]
        postgres_server.stop()
        monkeypatch.setattr(postgres_link, "_RECONNECT_SECONDS", 0.3)
        message = refused(None, lambda _: store.count())
        assert "Cannot connect" in message
        assert postgres_server.password not in message
    finally:
        if postgres_server.process.poll() is not None:
            postgres_server.start()
    assert store.count() == 10


def test_two_writers_take_turns(postgres_uri, store):
    other = PostgresStore.open(postgres_uri)
    taken, errors = [], []

    def write(own, mark):
        try:
            for turn in range(15):
                fill(own, 50, payload={"by": mark, "turn": turn})
                taken.append((own.take_ids(3), 3))
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=write, args=pair) for pair in ((store, "a"), (other, "b"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert len({(p["by"], p["turn"]) for p in store.get(np.arange(50)).payloads}) == 1
    given_out = [i for first, count in taken for i in range(first, first + count)]
    assert len(set(given_out)) == len(given_out) == 90
    assert store.take_ids(0) == max(given_out) + 1
    other.close()


def test_scan_shows_one_moment(store):
    fill(store, 100)
    scan = store.scan(batch_rows=30)
    first = next(scan)
    store.delete(np.arange(50, 60))
    fill(store, 10, first=100)
    assert [len(first.ids), *(len(rows.ids) for rows in scan)] == [30, 30, 30, 10]
    assert store.count() == 100


def test_reading_only_and_closed(postgres_uri, store):
    fill(store, 3)
    reader = PostgresStore.open(postgres_uri, read_only=True)
    for change in (
        lambda: fill(reader, 1),
        lambda: reader.delete(np.array([1])),
        lambda: reader.delete(parse({"n": 1})),
        lambda: reader.take_ids(1),
    ):
        assert "reading only" in refused(None, lambda _, change=change: change())
    assert reader.count() == 3
    reader.close()
    reader.close()
    assert "is closed" in refused(None, lambda _: reader.count())


def test_what_it_cannot_do_names_what_can(postgres_uri, store):
    for spec in (CollectionSpec(8, kind="ivf"), CollectionSpec(8, vector_size=20_000)):
        with pytest.raises(CollectionError, match="folder"):
            PostgresStore.create(postgres_uri, spec)


def test_a_hundred_thousand_rows_in_bulk(store, capsys):
    count = 100_000
    ids, codes = np.arange(count), random_codes(count)
    rates = {}
    for how, rows in (("new", None), ("replaced", [{"n": i} for i in range(count)])):
        start = time.perf_counter()
        store.add(ids, codes, rows, None)
        rates[how] = count / (time.perf_counter() - start)
    with capsys.disabled():
        print(f"\nPostgreSQL: {rates['new']:,.0f} new rows/s, {rates['replaced']:,.0f} replaced rows with payload/s")
    assert store.count() == count
    assert store.count(parse({"n": {"<": 10}})) == 10


def test_the_page_runs(postgres_uri):
    page = (Path(__file__).parents[2] / "docs" / "stores.md").read_text()
    block = next(one for one in re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL) if "postgresql://" in one)
    space = {}
    exec(block.replace("postgresql://me:secret@localhost/shop?collection=shoes", postgres_uri), space)
    assert space["ids"].shape == (3, 5)
    assert space["ids"].min() >= 20
