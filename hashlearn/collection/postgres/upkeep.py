"""Checking a collection on PostgreSQL, and the commands of PostgreSQL that back it up."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NoReturn

from hashlearn.collection.postgres.link import META_SUFFIX, PostgresAddress, PostgresLink
from hashlearn.collection.postgres.tables import PostgresTables
from hashlearn.collection.remote import report_sentence, verify_rows
from hashlearn.collection.store import StoredRows, UnsupportedByStoreError, VerifyReport

if TYPE_CHECKING:
    from psycopg import Connection


def verify(link: PostgresLink, tables: PostgresTables, batches: Iterator[StoredRows], total: int) -> VerifyReport:
    """Read every row, so that the server checks its pages, and ask it about its indexes."""
    largest = -1

    def look(batch: StoredRows) -> None:
        nonlocal largest
        largest = int(batch.ids[-1])

    found = verify_rows(batches, total, look)
    problems, notes = link.run(lambda connection: _asked(connection, tables, largest))
    return found._replace(problems=tuple(problems), notes=tuple(notes))


def _asked(connection: Connection[Any], tables: PostgresTables, largest: int) -> tuple[list[str], list[str]]:
    problems = []
    found = connection.execute(tables.sql("SELECT last_id FROM {meta}")).fetchall()
    if len(found) != 1 or found[0][0] < largest:
        problems.append(f"The table {tables.collection}{META_SUFFIX} forgot that it has given out the id {largest}.")
    query = "SELECT indexrelid::regclass::text FROM pg_index WHERE indrelid = %s::regclass AND NOT indisvalid"
    broken = connection.execute(query, [tables.sql("{rows}").as_string(connection)]).fetchall()
    problems += [f"The index {name} is not valid: REINDEX it." for (name,) in broken]
    (checksums,) = connection.execute("SHOW data_checksums").fetchone() or ("off",)
    note = "PostgreSQL checks its own pages (data_checksums is on); 'pg_amcheck' also checks its indexes."
    if checksums != "on":
        note = "PostgreSQL keeps no checksums of its pages here: 'pg_checksums --enable' switches them on."
    return problems, [note]


def name_the_tool(address: PostgresAddress, tables: PostgresTables, path: str, found: VerifyReport) -> NoReturn:
    """Say how PostgreSQL backs this collection up."""
    names = (tables.collection, tables.collection + META_SUFFIX)
    parts = [f"--table={_quoted(tables.schema)}.{_quoted(name)}" for name in names]
    raise UnsupportedByStoreError(
        "PostgreSQL makes backups itself: run pg_dump --format=custom "
        f"{' '.join(map(shlex.quote, parts))} --file={shlex.quote(path)} DATABASE, and pg_restore to restore. "
        f"{report_sentence(found, address.shown)}"
    )


def name_the_restorer(address: PostgresAddress, path: str) -> NoReturn:
    raise UnsupportedByStoreError(
        f"PostgreSQL restores its own backups: run pg_restore --dbname=DATABASE {shlex.quote(path)}, then 'hashlearn "
        f"index verify' on {address.shown}. A backup of a folder can be restored to a folder."
    )


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
