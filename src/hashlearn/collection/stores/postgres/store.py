"""Collections in PostgreSQL with pgvector: a table of rows, and a table of one row with the spec.

    "shop"             id bigint, code bit(n), payload jsonb, vector vector(d) when kept
    "shop__hashlearn"  format, spec, model, last_id (the largest ever given out, -1 before the first)

Every change is one transaction. Writers of one collection take turns by locking the one row; readers never wait.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

import numpy as np

from hashlearn.collection.rescore import as_hits
from hashlearn.collection.store import (
    Answer,
    CollectionError,
    CollectionSpec,
    Payload,
    PayloadUpdate,
    Query,
    StoredRows,
    UnsupportedByStoreError,
    Vectors,
    VerifyReport,
    model_was_replaced,
    rows_without_vectors,
    update_blocks,
)
from hashlearn.collection.stores.postgres.link import (
    META_SUFFIX,
    PostgresLink,
    PostgresTables,
    make_tables,
    read_tables,
    read_uri,
)
from hashlearn.collection.stores.postgres.sql import (
    COPY_HEAD,
    COPY_TAIL,
    bit_texts,
    copy_rows,
    exact_json,
    read_rows,
    to_sql,
)
from hashlearn.collection.stores.remote import QueryHits, RemoteStore, query_blocks, report_sentence, verify_rows
from hashlearn.collection.where import Condition
from hashlearn.index import Hits, RangeHits
from hashlearn.typing import Ids, PackedCodes

if TYPE_CHECKING:
    from psycopg import Connection
    from psycopg.sql import Composable, Composed


MAX_VECTOR_SIZE = 16_000  # of pgvector's type vector
_MAX_BY_GRAPH = 1000  # the largest hnsw.ef_search
_COPY_ROWS = 20_000
_LARGEST_ID = 2**63 - 1


class PostgresStore(RemoteStore):
    """A collection in PostgreSQL. One connection, used by one thread at a time."""

    batch_rows: ClassVar[int] = 100_000
    server: ClassVar[str] = "PostgreSQL"
    kinds: ClassVar[Sequence[str]] = ("flat", "hnsw")

    def __init__(self, link: PostgresLink, tables: PostgresTables, spec: CollectionSpec) -> None:
        self.spec = spec
        self._link = link
        self._tables = tables
        self._place, self._read_only = link.address.shown, link.read_only

    @classmethod
    def check_new(cls, uri: str, spec: CollectionSpec) -> None:
        cls._require_kind(spec.kind)
        if spec.vector_size is not None and spec.vector_size > MAX_VECTOR_SIZE:
            raise CollectionError(
                f"pgvector keeps vectors of at most {MAX_VECTOR_SIZE} numbers. Got {spec.vector_size}: create the "
                "collection without vectors, or keep it in a folder."
            )

    @classmethod
    def create(cls, uri: str, spec: CollectionSpec) -> PostgresStore:
        address = read_uri(uri)
        cls.check_new(uri, spec)
        link = PostgresLink(address)
        try:
            link.run(lambda connection: make_tables(connection, address, spec))
        finally:
            link.close()
        return cls.open(uri)

    @classmethod
    def open(cls, uri: str, read_only: bool = False) -> PostgresStore:
        link = PostgresLink(read_uri(uri), read_only)
        try:
            return cls(link, *link.run(lambda connection: read_tables(connection, link.address)))
        except BaseException:
            link.close()
            raise

    @classmethod
    def drop(cls, uri: str) -> None:
        store = cls.open(uri)
        try:
            store._link.run(lambda connection: connection.execute(store._text("DROP TABLE {rows}, {meta}")))
        finally:
            store.close()

    def add(self, ids: Ids, codes: PackedCodes, payloads: Sequence[Payload] | None, vectors: Vectors | None) -> None:
        self._require_writable()
        if not len(ids):
            return
        vectors = vectors if self.spec.vector_size else None
        columns = ["id", "code", *(["vector"] if vectors is not None else []), "payload"]
        listed = ", ".join(columns)
        changes = [f"{name} = excluded.{name}" for name in columns[1:]]
        if vectors is None and self._tables.has_vectors:
            changes.append("vector = NULL")  # those that were set aside are of the rows as they were

        def put(connection: Connection[Any]) -> None:
            connection.execute(self._text("SELECT 1 FROM {meta} FOR UPDATE"))
            largest = connection.execute(self._text("SELECT max(id) FROM {rows}")).fetchone()
            assert largest is not None
            # Rows with larger ids than all others replace nothing, so they need no temporary table.
            direct = largest[0] is None or largest[0] < int(ids.min())
            if not direct:
                connection.execute(
                    self._text(
                        "CREATE TEMPORARY TABLE IF NOT EXISTS hashlearn_pending (LIKE {rows}) ON COMMIT DELETE ROWS"
                    )
                )
            target = "{rows}" if direct else "pg_temp.hashlearn_pending"
            with (
                connection.cursor() as cursor,
                cursor.copy(self._text(f"COPY {target} ({listed}) FROM STDIN WITH (FORMAT binary)")) as copy,
            ):
                copy.write(COPY_HEAD)
                for start in range(0, len(ids), _COPY_ROWS):
                    part = slice(start, start + _COPY_ROWS)
                    some = payloads[part] if payloads is not None else None
                    floats = vectors[part] if vectors is not None else None
                    copy.write(copy_rows(self.spec.n_bits, ids[part], codes[part], some, floats))
                copy.write(COPY_TAIL)
            if not direct:
                connection.execute(
                    self._text(
                        f"INSERT INTO {{rows}} ({listed}) SELECT {listed} FROM pg_temp.hashlearn_pending "
                        f"ON CONFLICT (id) DO UPDATE SET {', '.join(changes)}"
                    )
                )
            connection.execute(self._text("UPDATE {meta} SET last_id = greatest(last_id, %s)"), (int(ids.max()),))

        self._link.run(put)

    def update_payloads(self, update: PayloadUpdate) -> int:
        self._require_writable()
        wanted = update.wanted
        condition: Composable
        if isinstance(wanted, np.ndarray):
            condition, values = self._text("id = ANY(%s)"), [wanted.tolist()]
        else:
            condition, values = to_sql(wanted)
        # Rows are locked too, because programs that use the table from SQL do not take turns with other writers.
        choose = self._text("SELECT id FROM {rows} WHERE {where} ORDER BY id FOR UPDATE", where=condition)
        write = self._text("UPDATE {rows} SET payload = %s::jsonb WHERE id = %s")

        def put(connection: Connection[Any]) -> int:
            connection.execute(self._text("SELECT 1 FROM {meta} FOR UPDATE"))
            ids = np.array([row[0] for row in connection.execute(choose, values)], dtype=np.int64)
            blocks = (
                read_rows(self._read_by_id(connection, _columns_read(None), part), self.spec.n_bits, None)
                for part in update_blocks(ids)
            )
            updated = 0
            with connection.cursor() as cursor:
                for rows in update.changed(blocks):
                    texts = map(exact_json, rows.payloads)
                    cursor.executemany(write, list(zip(texts, rows.ids.tolist(), strict=True)))
                    updated += len(rows.ids)
            return updated

        return self._link.run(put)

    def delete(self, wanted: Ids | Condition) -> int:
        if isinstance(wanted, np.ndarray):
            return self._delete("id = ANY(%s)", [wanted.tolist()])
        condition, values = to_sql(wanted)
        return self._delete("{where}", values, where=condition)

    def _delete(self, condition: str, values: list[Any], **names: Any) -> int:
        self._require_writable()

        def remove(connection: Connection[Any]) -> int:
            connection.execute(self._text("SELECT 1 FROM {meta} FOR UPDATE"))
            return connection.execute(self._text(f"DELETE FROM {{rows}} WHERE {condition}", **names), values).rowcount

        return self._link.run(remove)

    def get(self, ids: Ids, vectors: bool = False) -> StoredRows:
        size = self.spec.vector_size if vectors else None
        found = self._link.run(lambda connection: self._read_by_id(connection, _columns_read(size), ids))
        return read_rows(found, self.spec.n_bits, size)

    def _read_by_id(self, connection: Connection[Any], columns: str, ids: Ids) -> list[Any]:
        query = self._text(f"SELECT {columns} FROM {{rows}} WHERE id = ANY(%s) ORDER BY id")
        with connection.cursor(binary=True) as cursor:
            return cursor.execute(query, [np.asarray(ids).tolist()]).fetchall()

    def count(self, where: Condition | None = None) -> int:
        condition, values = to_sql(where)
        return self._value(self._text("SELECT count(*) FROM {rows} WHERE {where}", where=condition), values)

    def take_ids(self, count: int) -> int:
        self._require_writable()

        def take(connection: Connection[Any]) -> int:
            found = connection.execute(self._text("SELECT last_id FROM {meta} FOR UPDATE")).fetchone()
            assert found is not None
            # If too few are left, none is taken; the caller checks this and raises an error.
            if found[0] + count <= _LARGEST_ID:
                connection.execute(self._text("UPDATE {meta} SET last_id = %s"), [found[0] + count])
            return int(found[0]) + 1

        return self._link.run(take)

    def _value(self, query: Composed, values: list[Any]) -> int:
        found = self._link.run(lambda connection: connection.execute(query, values).fetchone())
        assert found is not None
        return int(found[0])

    def search(self, query: Query, k: int) -> Answer[Hits]:
        return self._link.at_one_moment(partial(super().search, query, k))

    def within(self, query: Query, radius: float, limit: int | None = None) -> Answer[RangeHits]:
        return self._link.at_one_moment(partial(super().within, query, radius, limit))

    def nearest(self, codes: PackedCodes, k: int, where: Condition | None) -> Hits:
        by_graph = self.spec.kind == "hnsw" and where is None and k <= _MAX_BY_GRAPH
        condition, values = to_sql(where)
        # PostgreSQL uses the HNSW index only if its operator is the one sort key. Other searches must be exact, so they
        # sort by the distance as a whole number, for which there is no index.
        nearest = (
            "SELECT id, ({distance})::int AS bits FROM {rows} ORDER BY {distance} LIMIT %s"
            if by_graph
            else "SELECT id, ({distance})::int AS bits FROM {rows} WHERE {where} ORDER BY bits, id LIMIT %s"
        )
        query = self._per_query(nearest, condition)
        found: list[QueryHits] = []
        for block in query_blocks(codes, k):
            found += self._ask(query, block, [*([] if by_graph else values), k], by_graph)
        return as_hits(found)

    def ball(self, codes: PackedCodes, radius: int, where: Condition | None) -> list[QueryHits]:
        condition, values = to_sql(where)
        statement = self._per_query(
            "SELECT id, ({distance})::int AS bits FROM {rows} WHERE {where} AND ({distance})::int <= %s", condition
        )
        found: list[QueryHits] = []
        for block in query_blocks(codes, 100_000):
            found += self._ask(statement, block, [*values, radius], False)
        return found

    def _per_query(self, nearest: str, condition: Any) -> Composed:
        text = (
            f"SELECT asked.place, near.id, near.bits FROM unnest(%s::bit({int(self.spec.n_bits)})[]) WITH ORDINALITY "
            f"AS asked(code, place), LATERAL ({nearest}) AS near ORDER BY asked.place, near.bits, near.id"
        )
        distance = self._text("{rows}.code OPERATOR({vectors}.<~>) asked.code")
        return self._text(text, distance=distance, where=condition)

    def _ask(self, query: Composed, block: PackedCodes, values: list[Any], by_graph: bool) -> list[QueryHits]:
        def ask(connection: Connection[Any]) -> list[Any]:
            if by_graph:
                width = min(max(values[-1], self.spec.settings.get("ef_search") or 100), _MAX_BY_GRAPH)
                connection.execute("SELECT set_config('hnsw.ef_search', %s, true)", [str(width)])
            with connection.cursor(binary=True) as cursor:
                return cursor.execute(query, [bit_texts(block, self.spec.n_bits), *values]).fetchall()

        table = np.array(self._link.run(ask), dtype=np.int64).reshape(-1, 3)
        places = np.searchsorted(table[:, 0], np.arange(1, len(block) + 2))
        return [(table[a:b, 1], table[a:b, 2]) for a, b in pairwise(places)]

    def scan(
        self, batch_rows: int = 10_000, where: Condition | None = None, vectors: bool = False, after: int = -1
    ) -> Iterator[StoredRows]:
        """Yield all rows as of the moment of the first batch.

        It uses a separate connection, so changes may go on meanwhile.
        """
        import psycopg

        size = self.spec.vector_size if vectors else None
        condition, values = to_sql(where)
        text = f"SELECT {_columns_read(size)} FROM {{rows}} WHERE {{where}} AND id > %s ORDER BY id"
        query = self._text(text, where=condition)
        connection = self._link.connect()
        try:
            with connection.transaction(), connection.cursor(name="hashlearn_scan", binary=True) as cursor:
                cursor.execute(query, [*values, after])
                while found := cursor.fetchmany(batch_rows):
                    yield read_rows(found, self.spec.n_bits, size)
        except psycopg.Error as error:
            raise self._link.sentence("Reading all rows failed at", error) from error
        finally:
            connection.close()

    def replace_model(self, model: bytes, fingerprint: str, vector_size: int | None) -> None:
        from psycopg.types.json import Jsonb

        self._require_writable()

        def put(connection: Connection[Any]) -> None:
            found = connection.execute(self._text("SELECT spec FROM {meta} FOR UPDATE")).fetchone()
            if found is None or found[0]["fingerprint"] != self.spec.fingerprint:
                raise model_was_replaced(self._place)
            if self._tables.has_vectors:
                self._require_vectors(connection, vector_size is not None)
            change = (model, Jsonb({"fingerprint": fingerprint, "vector_size": vector_size}))
            connection.execute(self._text("UPDATE {meta} SET model = %s, spec = spec || %s"), change)

        self._link.run(put)
        self.spec = replace(self.spec, model=model, fingerprint=fingerprint, vector_size=vector_size)

    def _require_vectors(self, connection: Connection[Any], required: bool) -> None:
        """Say that rows must have a vector, or that they need not."""
        if required:
            found = connection.execute(self._text("SELECT count(*) FROM {rows} WHERE vector IS NULL")).fetchone()
            if found is not None and found[0]:
                raise rows_without_vectors(self._place, found[0])
        change = "SET" if required else "DROP"
        connection.execute(self._text(f"ALTER TABLE {{rows}} ALTER COLUMN vector {change} NOT NULL"))

    def verify(self) -> VerifyReport:
        """Read every row, so that the server checks its pages, and ask it about its indexes."""
        largest = -1

        def look(batch: StoredRows) -> None:
            nonlocal largest
            largest = int(batch.ids[-1])

        def ask(connection: Connection[Any]) -> tuple[list[str], str]:
            problems = []
            found = connection.execute(self._text("SELECT last_id FROM {meta}")).fetchall()
            if len(found) != 1 or found[0][0] < largest:
                problems.append(
                    f"The table {self._tables.collection}{META_SUFFIX} forgot that it has given out the id {largest}."
                )
            query = "SELECT indexrelid::regclass::text FROM pg_index WHERE indrelid = %s::regclass AND NOT indisvalid"
            broken = connection.execute(query, [self._text("{rows}").as_string(connection)]).fetchall()
            problems += [f"The index {name} is not valid: REINDEX it." for (name,) in broken]
            return problems, (connection.execute("SHOW data_checksums").fetchone() or ("off",))[0]

        batches = self.scan(10_000, vectors=self.spec.vector_size is not None)
        report = verify_rows(batches, self.count(), look)
        problems, checksums = self._link.run(ask)
        note = "PostgreSQL checks its own pages (data_checksums is on); 'pg_amcheck' also checks its indexes."
        if checksums != "on":
            note = "PostgreSQL keeps no checksums of its pages here: 'pg_checksums --enable' switches them on."
        return report._replace(problems=tuple(problems), notes=(note,))

    def compact(self) -> None:
        self._require_writable()
        self._link.run_alone(self._text("VACUUM (ANALYZE) {rows}"))

    def backup(self, path: str) -> None:
        found, tables = self.verify(), self._tables
        names = [f"{_quoted(tables.schema)}.{_quoted(tables.collection + end)}" for end in ("", META_SUFFIX)]
        options = " ".join(shlex.quote(f"--table={name}") for name in names)
        raise UnsupportedByStoreError(
            f"PostgreSQL makes backups itself: run pg_dump --format=custom {options} --file={shlex.quote(path)} "
            f"DATABASE, and pg_restore to restore. {report_sentence(found, self._place)}"
        )

    @classmethod
    def restore(cls, path: str, uri: str, replace: bool) -> NoReturn:
        raise UnsupportedByStoreError(
            f"PostgreSQL restores its own backups: run pg_restore --dbname=DATABASE {shlex.quote(path)}, then "
            f"'hashlearn index verify' on {read_uri(uri).shown}. A backup of a folder can be restored to a folder."
        )

    def info(self) -> dict[str, Any]:
        size = self._text("SELECT pg_total_relation_size(%s::regclass)")
        table = self._text("{rows}").as_string()
        return {
            "storage": "postgresql",
            "uri": self._place,
            "schema": self._tables.schema,
            "rows": self.count(),
            "bytes": self._value(size, [table]),
            "kind": self.spec.kind,
            "settings": self.spec.settings,
            "server": self._tables.server,
        }

    def close(self) -> None:
        self._link.close()

    def _text(self, text: str, **more: Any) -> Composed:
        return self._tables.sql(text, **more)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _columns_read(vector_size: int | None) -> str:
    return "id, code, payload" + (", vector" if vector_size else "")
