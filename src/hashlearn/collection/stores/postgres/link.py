"""A connection to PostgreSQL: its URI, errors as one sentence, and work that is repeated after a lost connection."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from hashlearn.collection.store import CollectionError
from hashlearn.collection.stores.remote import first_sentence
from hashlearn.collection.uri import shown

if TYPE_CHECKING:
    import psycopg

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
    """``postgresql://…/database?collection=name``, optionally with ``&schema=``; the rest is for libpq."""
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
