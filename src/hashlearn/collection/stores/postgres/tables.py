"""The two tables of a collection: created in one transaction, and checked when the collection is opened."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hashlearn.collection.store import (
    OPEN_OR_DROP,
    CollectionError,
    CollectionExistsError,
    CollectionSpec,
    NoCollectionError,
)
from hashlearn.collection.stores.postgres.link import META_SUFFIX, PostgresAddress, extension
from hashlearn.collection.stores.postgres.sql import indexed_fields
from hashlearn.collection.where import split_path

if TYPE_CHECKING:
    from psycopg import Connection
    from psycopg.sql import Composed

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

    def sql(self, text: str, **names: Any) -> Composed:
        """Return SQL with quoted names for {rows}, {meta} and {vectors}. ``text`` is hashlearn's, never a user's."""
        from psycopg.sql import SQL, Identifier

        return SQL(text).format(
            rows=Identifier(self.schema, self.collection),
            meta=Identifier(self.schema, self.collection + META_SUFFIX),
            vectors=SQL(self.vector_schema),
            **names,
        )


def make_tables(connection: Connection[Any], address: PostgresAddress, spec: CollectionSpec) -> None:
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


def read_tables(connection: Connection[Any], address: PostgresAddress) -> tuple[PostgresTables, CollectionSpec]:
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
    connection: Connection[Any], address: PostgresAddress, schema: str, make: bool, has_vectors: bool
) -> PostgresTables:
    vector_schema, version = extension(connection, address.shown, make)
    server = f"PostgreSQL {connection.info.parameter_status('server_version')}, pgvector {version}"
    return PostgresTables(schema, address.collection, vector_schema, server, has_vectors)


def _schema(connection: Connection[Any], address: PostgresAddress) -> str:
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


def _exists(connection: Connection[Any], schema: str, name: str) -> bool:
    query = f"SELECT 1 {_OF_TABLE} WHERE n.nspname = %s AND c.relname = %s"
    return connection.execute(query, (schema, name)).fetchone() is not None


def _columns(connection: Connection[Any], schema: str, table: str) -> dict[str, str]:
    """Columns and their types of a table; empty when there is none."""
    query = (
        f"SELECT a.attname, format_type(a.atttypid, a.atttypmod) {_OF_TABLE} JOIN pg_attribute a ON a.attrelid = c.oid "
        "WHERE n.nspname = %s AND c.relname = %s AND c.relkind IN ('r', 'p') AND a.attnum > 0 AND NOT a.attisdropped"
    )
    return dict(connection.execute(query, (schema, table)).fetchall())
