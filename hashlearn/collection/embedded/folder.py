"""The files of an embedded collection: made all at once, and removed while nobody writes to them."""

from __future__ import annotations

import contextlib
import os
import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hashlearn.collection.embedded import commits, connection, schema
from hashlearn.collection.embedded.connection import FILE, error_code, sentences
from hashlearn.collection.embedded.state import new_state
from hashlearn.collection.store import OPEN_OR_DROP, CollectionError, Spec
from hashlearn.wholefile import sync_folder


def create(folder: Path, spec: Spec) -> None:
    """Make the folder and its file, all at once: nobody finds a half-made collection."""
    path = folder / FILE
    if path.exists():
        raise CollectionError(f"{folder} holds a collection already: {OPEN_OR_DROP}.")
    if Path(f"{path}-wal").exists() and not path.exists():
        raise CollectionError(f"{path}-wal is the log of a collection whose file is gone: remove it first.")
    with sentences(path):
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
    """A name for a database under construction; it and what SQLite leaves beside it are gone at the end."""
    temporary = folder / f".{FILE}.{secrets.token_hex(6)}.tmp"
    try:
        yield temporary
    finally:
        for end in ("", "-wal", "-shm", "-journal"):
            Path(f"{temporary}{end}").unlink(missing_ok=True)


def put_into_place(temporary: Path, path: Path) -> None:
    """Give a finished database its name, which must be free."""
    with open(temporary, "rb") as file:
        os.fsync(file.fileno())
    try:
        os.link(temporary, path)  # unlike a rename, fails when somebody else was faster
    except FileExistsError:
        raise CollectionError(f"{path.parent} holds a collection already: {OPEN_OR_DROP}.") from None
    except OSError:  # a file system without links
        os.replace(temporary, path)
    for folder in (path.parent, path.parent.absolute().parent):
        sync_folder(folder)


def drop(folder: Path) -> None:
    """Remove the file of a collection, and the folder when nothing else is in it."""
    path = folder / FILE
    if not path.exists():
        raise CollectionError(f"There is no collection in {folder}.")
    with sentences(path), locked(path):
        remove_database(folder)
        for name in (*folder.glob("adding-*.json"), *folder.glob(f".{FILE}.*.tmp*")):
            name.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            folder.rmdir()


def remove_database(folder: Path) -> None:
    """Remove a collection's file and what belongs to it. The caller keeps writers out."""
    path = folder / FILE
    # The log goes first: beside a later file of this name it would be taken for that one's.
    for name in (Path(f"{path}-wal"), Path(f"{path}-shm"), path, folder / commits.FILE):
        name.unlink(missing_ok=True)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keep writers out while a file is removed; who waits for it then finds that it has gone.

    What is too damaged to be locked can be removed all the same: nobody can write to it.
    """
    with contextlib.closing(sqlite3.connect(path, connection.WAIT_SECONDS, isolation_level=None)) as db:
        try:
            db.execute("BEGIN IMMEDIATE")
        except sqlite3.DatabaseError as error:
            if error_code(error) not in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
                raise
        yield
        if db.in_transaction:
            db.execute("ROLLBACK")
