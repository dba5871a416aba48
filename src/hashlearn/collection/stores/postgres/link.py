"""A connection to PostgreSQL: its URI, errors as one sentence, repeated work, and the two tables of a collection.

The tables are created in one transaction, and checked when the collection is opened.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from hashlearn.collection.store import (
    OPEN_OR_DROP,
    CollectionError,
    CollectionExistsError,
    CollectionSpec,
    NoCollectionError,
)
from hashlearn.collection.stores.postgres.sql import indexed_fields
from hashlearn.collection.stores.remote import first_sentence
from hashlearn.collection.uri import shown
from hashlearn.collection.where import split_path

if TYPE_CHECKING:
    import psycopg
    import psycopg.sql

META_SUFFIX = "__hashlearn"
MAX_NAME_BYTES = 63 - len(META_SUFFIX)  # PostgreSQL silently cuts longer names
OLDEST_PGVECTOR = (0, 7)
_RECONNECT_SECONDS = 10.0
_FORM = "postgresql://user:password@host:port/database?collection=name"
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class PostgresAddress:
    """The parts of a URI: the part for libpq, and the part for hashlearn."""

    conninfo: str
    collection: str
    schema: str | None
    shown: str
    password: str | None


def read_uri(uri: str) -> PostgresAddress:
    """Read ``postgresql://…/database?collection=name``, optionally with ``&schema=``; the rest is for libpq."""
    place = shown(uri)
    try:
        parts = urlsplit(uri)
        password = parts.password
    except ValueError:
        raise CollectionError(f"{place} is no PostgreSQL URI: write {_FORM}.") from None
    options = parse_qsl(parts.query, keep_blank_values=True)
    ours = {name: value for name, value in options if name in ("collection", "schema")}
    name = ours.get("collection", "")
    if not name:
        raise CollectionError(f"{place} names no collection: write {_FORM}.")
    for what, text in (("collection", name), ("schema", ours.get("schema", "public"))):
        # psycopg reads a percent sign in a statement as a place for a value.
        if not text or "\0" in text or "%" in text or len(text.encode()) > MAX_NAME_BYTES:
            raise CollectionError(
                f"The name of a {what} on PostgreSQL has 1 to {MAX_NAME_BYTES} bytes and no percent sign. "
                f"Got {text[:80]!r} instead."
            )
    theirs = [(key, value) for key, value in options if key not in ("collection", "schema")]
    conninfo = urlunsplit(("postgresql", parts.netloc, parts.path, urlencode(theirs), ""))
    password = password or dict(theirs).get("password")
    return PostgresAddress(conninfo, name, ours.get("schema"), place, password)


class PostgresLink:
    """One connection, used by one thread at a time, made again when it was lost."""

    def __init__(self, address: PostgresAddress, read_only: bool = False) -> None:
        self.address = address
        self.read_only = read_only
        self._lock = threading.RLock()
        self._inside = False  # whether this thread, which holds the lock, does the work of ``at_one_moment``
        self._connection: psycopg.Connection[Any] | None = self.connect()

    def connect(self) -> psycopg.Connection[Any]:
        driver = _psycopg()
        try:
            connection = driver.connect(
                self.address.conninfo, autocommit=True, connect_timeout=10, client_encoding="utf8"
            )
        except driver.Error as error:
            raise self.sentence("Cannot connect to", error) from error
        connection.read_only = self.read_only
        return connection

    def sentence(self, start: str, error: Exception) -> CollectionError:
        from psycopg import Error

        message = error.diag.message_primary if isinstance(error, Error) else None
        return CollectionError(
            f"{start} {self.address.shown}: {first_sentence(message or error, self.address.password)}."
        )

    def run(self, work: Callable[[psycopg.Connection[Any]], Answer]) -> Answer:
        """Do ``work`` in one transaction; once more from its beginning when the connection is lost.

        Repeating is safe because every change states the rows that must exist afterwards, not a difference.
        """
        driver = _psycopg()
        with self._lock:
            if self._inside:
                assert self._connection is not None
                return work(self._connection)
            for last in (False, True):
                if self._connection is None:
                    raise CollectionError(f"The collection {self.address.shown} is closed.")
                try:
                    with self._connection.transaction():
                        return work(self._connection)
                except driver.Error as error:
                    if not self._connection.closed:
                        raise self.sentence("PostgreSQL refuses at", error) from error
                    if last:
                        raise self.sentence("Lost the connection twice to", error) from error
                    self._connection = self._connect_again()
        raise AssertionError("unreachable")

    def at_one_moment(self, work: Callable[[], Answer]) -> Answer:
        """Do ``work``, whose calls of ``run`` all see the rows as they are at its first one."""

        def inside(connection: psycopg.Connection[Any]) -> Answer:
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            self._inside = True
            try:
                return work()
            finally:
                self._inside = False

        return self.run(inside)

    def run_alone(self, statement: Any) -> None:
        """Run a statement that PostgreSQL refuses inside a transaction."""
        driver = _psycopg()
        with self._lock:
            if self._connection is None:
                raise CollectionError(f"The collection {self.address.shown} is closed.")
            try:
                self._connection.execute(statement)
            except driver.Error as error:
                raise self.sentence("PostgreSQL refuses at", error) from error

    def _connect_again(self) -> psycopg.Connection[Any]:
        # A server that restarts needs some seconds.
        end, wait = time.monotonic() + _RECONNECT_SECONDS, 0.1
        while True:
            try:
                return self.connect()
            except CollectionError:
                if time.monotonic() + wait > end:
                    raise
                time.sleep(wait)
                wait = min(2 * wait, 1.0)

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
            self._connection = None


def _psycopg() -> Any:
    try:
        import psycopg
    except ImportError as error:
        raise ImportError(
            "Collections on PostgreSQL need psycopg: install it with pip install '.[postgres]'."
        ) from error
    return psycopg


def extension(connection: psycopg.Connection[Any], place: str, make: bool) -> tuple[str, str]:
    """Return (schema, version) of pgvector in this database; install it if ``make``, or say how to."""
    import psycopg

    query = "SELECT extnamespace::regnamespace::text, extversion FROM pg_extension WHERE extname = 'vector'"
    found = connection.execute(query).fetchone()
    if found is None and make:
        try:
            with connection.transaction():
                connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        except psycopg.errors.InsufficientPrivilege as error:
            raise CollectionError(
                f"This user may not switch on pgvector at {place}: ask the owner of the database to run "
                "CREATE EXTENSION vector."
            ) from error
        except (psycopg.errors.FeatureNotSupported, psycopg.errors.UndefinedFile) as error:
            raise CollectionError(
                f"The PostgreSQL server of {place} has no pgvector: install it there (package postgresql-NN-pgvector, "
                "or https://github.com/pgvector/pgvector), then run CREATE EXTENSION vector."
            ) from error
        found = connection.execute(query).fetchone()
    if found is None:
        raise CollectionError(f"pgvector is not switched on at {place}: run CREATE EXTENSION vector in that database.")
    version = tuple(int(number) for number in found[1].split(".")[:2])
    if version < OLDEST_PGVECTOR:
        raise CollectionError(
            f"pgvector at {place} has version {found[1]}, codes need 0.7 or newer: install it and run "
            "ALTER EXTENSION vector UPDATE."
        )
    return found[0], found[1]


FORMAT = 1
_META_COLUMNS = {"format", "spec", "model", "last_id"}
_OF_TABLE = "FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"


@dataclass(frozen=True)
class PostgresTables:
    """Where the tables are. ``vector_schema`` is that of pgvector, quoted by the server itself.

    ``has_vectors`` says whether rows have a column of vectors, in use or set aside by a migration.
    """

    schema: str
    collection: str
    vector_schema: str
    server: str
    has_vectors: bool

    def sql(self, text: str, **names: Any) -> psycopg.sql.Composed:
        """Return SQL with quoted names for {rows}, {meta} and {vectors}. ``text`` is hashlearn's, never a user's."""
        from psycopg.sql import SQL, Identifier

        return SQL(text).format(
            rows=Identifier(self.schema, self.collection),
            meta=Identifier(self.schema, self.collection + META_SUFFIX),
            vectors=SQL(self.vector_schema),
            **names,
        )


def make_tables(connection: psycopg.Connection[Any], address: PostgresAddress, spec: CollectionSpec) -> None:
    from psycopg.types.json import Jsonb

    schema = _schema(connection, address)
    # If two processes create at the same time, the second waits here and then finds the tables of the first.
    connection.execute("SELECT pg_advisory_xact_lock(hashtext('hashlearn create'))")
    names = (address.collection, address.collection + META_SUFFIX)
    if all(_columns(connection, schema, name) for name in names):
        raise CollectionExistsError(f"There is a collection at {address.shown} already: {OPEN_OR_DROP}.")
    for name in names:
        if _exists(connection, schema, name):
            raise CollectionError(
                f"There is a table {name!r} already in the schema {schema!r} of {address.shown}, which is no "
                "collection: choose another name."
            )
    tables = _tables(connection, address, schema, make=True, has_vectors=spec.vector_size is not None)
    vector = f", vector {{vectors}}.vector({int(spec.vector_size)}) NOT NULL" if spec.vector_size else ""
    connection.execute(
        tables.sql(
            f"CREATE TABLE {{rows}} (id bigint PRIMARY KEY CHECK (id >= 0), code bit({int(spec.n_bits)}) NOT NULL, "
            f"payload jsonb NOT NULL{vector})"
        )
    )
    if spec.kind == "hnsw":
        links, width = spec.settings.get("n_links") or 16, spec.settings.get("ef_construction") or 64
        connection.execute(
            tables.sql(
                "CREATE INDEX ON {rows} USING hnsw (code {vectors}.bit_hamming_ops) "
                f"WITH (m = {int(links)}, ef_construction = {int(width)})"
            )
        )
    for expression in indexed_fields([split_path(name) for name in spec.indexed]):
        connection.execute(tables.sql("CREATE INDEX ON {rows} ({field})", field=expression))
    connection.execute(
        tables.sql(
            "CREATE TABLE {meta} (format integer NOT NULL, spec jsonb NOT NULL, model bytea NOT NULL, "
            "last_id bigint NOT NULL)"
        )
    )
    facts = {name: getattr(spec, name) for name in ("n_bits", "fingerprint", "vector_size", "kind", "settings")}
    # Older versions know neither indexed fields nor kinds of ids, but can read a collection without them.
    facts |= {"indexed": spec.indexed} if spec.indexed else {}
    facts |= {"ids": spec.ids} if spec.ids != "int" else {}
    connection.execute(tables.sql("INSERT INTO {meta} VALUES (%s, %s, %s, -1)"), (FORMAT, Jsonb(facts), spec.model))


def read_tables(connection: psycopg.Connection[Any], address: PostgresAddress) -> tuple[PostgresTables, CollectionSpec]:
    schema = _schema(connection, address)
    rows, meta = (_columns(connection, schema, address.collection + end) for end in ("", META_SUFFIX))
    if not rows and not meta:
        raise NoCollectionError(f"There is no collection at {address.shown}: create it first.")
    if set(meta) != _META_COLUMNS or not rows:
        raise CollectionError(
            f"The table {address.collection!r} in the schema {schema!r} of {address.shown} is no collection of "
            "hashlearn."
        )
    tables = _tables(connection, address, schema, make=False, has_vectors="vector" in rows)
    found = connection.execute(tables.sql("SELECT format, spec, model FROM {meta}")).fetchone()
    if found is None or found[0] != FORMAT:
        raise CollectionError(
            f"The collection at {address.shown} has the format {found and found[0]}, this hashlearn reads {FORMAT}."
        )
    spec = CollectionSpec(model=bytes(found[2]), **{**found[1], "indexed": tuple(found[1].get("indexed", ()))})
    wanted = {"id": "bigint", "code": f"bit({spec.n_bits})", "payload": "jsonb"}
    found_columns = {name: kind.rsplit(".", 1)[-1] for name, kind in rows.items()}
    if spec.vector_size:
        wanted["vector"] = f"vector({spec.vector_size})"
    elif found_columns.get("vector", "").startswith("vector("):
        wanted["vector"] = found_columns["vector"]  # set aside by a migration
    if found_columns != wanted:
        raise CollectionError(
            f"The table of the collection at {address.shown} has the columns {rows}, expected {wanted}: somebody "
            "changed it."
        )
    return tables, spec


def _tables(
    connection: psycopg.Connection[Any], address: PostgresAddress, schema: str, make: bool, has_vectors: bool
) -> PostgresTables:
    vector_schema, version = extension(connection, address.shown, make)
    server = f"PostgreSQL {connection.info.parameter_status('server_version')}, pgvector {version}"
    return PostgresTables(schema, address.collection, vector_schema, server, has_vectors)


def _schema(connection: psycopg.Connection[Any], address: PostgresAddress) -> str:
    """Return the schema of the collection.

    The database must keep text as UTF-8, or text would not sort by code point.
    """
    found = connection.execute("SELECT current_schema(), current_setting('server_encoding')").fetchone()
    assert found is not None
    if found[1] != "UTF8":
        raise CollectionError(f"The database of {address.shown} is encoded in {found[1]}: collections need UTF8.")
    schema = address.schema or found[0]
    known = connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", [schema]).fetchone()
    if known is None:
        raise CollectionError(f"There is no schema {schema!r} at {address.shown}: create it, or give another &schema=.")
    return str(schema)


def _exists(connection: psycopg.Connection[Any], schema: str, name: str) -> bool:
    query = f"SELECT 1 {_OF_TABLE} WHERE n.nspname = %s AND c.relname = %s"
    return connection.execute(query, (schema, name)).fetchone() is not None


def _columns(connection: psycopg.Connection[Any], schema: str, table: str) -> dict[str, str]:
    """Return the columns of a table with their types; nothing when there is no table."""
    query = (
        f"SELECT a.attname, format_type(a.atttypid, a.atttypmod) {_OF_TABLE} JOIN pg_attribute a ON a.attrelid = c.oid "
        "WHERE n.nspname = %s AND c.relname = %s AND c.relkind IN ('r', 'p') AND a.attnum > 0 AND NOT a.attisdropped"
    )
    return dict(connection.execute(query, (schema, table)).fetchall())
