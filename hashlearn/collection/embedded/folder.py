"""The files of an embedded collection: created as a whole, and removed while nobody writes to them."""

from __future__ import annotations

import contextlib
import os
import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hashlearn.collection.embedded import commits, connection, schema
from hashlearn.collection.embedded.connection import FILE, error_code, errors_as_sentences
from hashlearn.collection.embedded.state import new_state
from hashlearn.collection.store import OPEN_OR_DROP, CollectionError, CollectionExistsError, CollectionSpec
from hashlearn.wholefile import sync_folder


def create(folder: Path, spec: CollectionSpec) -> None:
    """Make the folder and its file. The file gets its name when it is complete, so nobody opens a half-made one."""
    path = folder / FILE
    with errors_as_sentences(path):
        if path.exists():
            raise CollectionExistsError(f"{folder} holds a collection already: {OPEN_OR_DROP}.")
        if Path(f"{path}-wal").exists():
            raise CollectionError(f"{path}-wal is the log of a collection whose file is gone: remove it first.")
        folder.mkdir(parents=True, exist_ok=True)
        with temporary_file(folder) as temporary:
            with contextlib.closing(sqlite3.connect(temporary, isolation_level=None)) as db:
                db.execute("PRAGMA journal_mode = WAL")
                db.execute("BEGIN")
                schema.make_tables(db, spec, new_state())
                db.execute("COMMIT")
            put_into_place(temporary, path)


@contextmanager
def temporary_file(folder: Path) -> Iterator[Path]:
    """A name for a database under construction. The file, and what SQLite leaves beside it, is removed at the end."""
    temporary = folder / f".{FILE}.{secrets.token_hex(6)}.tmp"
    try:
        yield temporary
    finally:
        for end in ("", "-wal", "-shm", "-journal"):
            Path(f"{temporary}{end}").unlink(missing_ok=True)


def put_into_place(temporary: Path, path: Path) -> None:
    """Give a finished database its name, which must not be taken."""
    with open(temporary, "rb") as file:
        os.fsync(file.fileno())
    try:
        os.link(temporary, path)  # unlike a rename, this fails if the name was taken meanwhile
    except FileExistsError:
        raise CollectionExistsError(f"{path.parent} holds a collection already: {OPEN_OR_DROP}.") from None
    except OSError:  # a file system without links
        os.replace(temporary, path)
    for folder in (path.parent, path.parent.absolute().parent):
        sync_folder(folder)


def drop(folder: Path) -> None:
    """Remove the file of a collection, and the folder when nothing else is in it."""
    path = folder / FILE
    with errors_as_sentences(path):
        if not path.exists():
            raise CollectionError(f"There is no collection in {folder}.")
        with locked(path):
            remove_database(folder)
            for name in (*folder.glob("adding-*.json"), *folder.glob(f".{FILE}.*.tmp*")):
                name.unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                folder.rmdir()


def remove_database(folder: Path) -> None:
    """Remove a collection's file and the files that belong to it. The caller must hold the write lock."""
    path = folder / FILE
    # The log is removed first: SQLite would take it for the log of a later file of this name.
    for name in (Path(f"{path}-wal"), Path(f"{path}-shm"), path, folder / commits.FILE):
        name.unlink(missing_ok=True)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the write lock while a file is removed. Writers that wait for it then find that the file is gone.

    A file that is too damaged to be locked can be removed without a lock, because nobody can write to it.
    """
    with contextlib.closing(sqlite3.connect(path, connection.WAIT_SECONDS, isolation_level=None)) as db:
        try:
            db.execute("BEGIN IMMEDIATE")
        except UnicodeDecodeError:
            pass  # SQLite's message quotes damaged text of the schema
        except sqlite3.DatabaseError as error:
            if error_code(error) not in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
                raise
        yield
        if db.in_transaction:
            db.execute("ROLLBACK")
