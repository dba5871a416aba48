"""The files of an embedded collection: created as a whole, backed up while in use, restored, removed.

Backup and restoring use SQLite's own backup. The copy shows one moment. A collection that is restored over another one
changes in one transaction, and the processes that have it open follow.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from hashlearn.collection.store import OPEN_OR_DROP, CollectionError, CollectionExistsError, CollectionSpec
from hashlearn.collection.stores.embedded import database, schema
from hashlearn.collection.stores.embedded.database import (
    FILE,
    Transaction,
    connect,
    error_code,
    errors_as_sentences,
    file_size,
)
from hashlearn.collection.stores.embedded.schema import new_identity, new_state, read_state, update_state
from hashlearn.collection.stores.embedded.verify import verify
from hashlearn.progress import report
from hashlearn.wholefile import in_use_here, sync_folder


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
    """Yield a name for a database under construction.

    The file, and what SQLite leaves beside it, is removed at the end.
    """
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
    for name in (Path(f"{path}-wal"), Path(f"{path}-shm"), path, folder / database.COMMITS_FILE):
        name.unlink(missing_ok=True)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the write lock while a file is removed. Writers that wait for it then find that the file is gone.

    A file that is too damaged to be locked can be removed without a lock, because nobody can write to it.
    """
    with contextlib.closing(sqlite3.connect(path, database.WAIT_SECONDS, isolation_level=None)) as db:
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


_PAGES = 1000  # copied between two reports of progress
_BACKUP, _COLLECTION = b"\x01\x01", b"\x02\x02"  # the versions for writing and reading in the header of SQLite


def backup(transaction: Transaction, target: Path) -> None:
    """Write the collection, as a transaction sees it, to one file. It gets its name once it is whole and checked."""
    with errors_as_sentences(target):
        if in_use_here(target):
            raise CollectionError(f"{target} is the file of a collection: give the backup another name.")
        if target.exists() and _header(target) != _BACKUP:
            what = "the file of a collection" if _header(target) == _COLLECTION else "no backup of a collection"
            raise CollectionError(f"{target} exists already and is {what}: give the backup another name.")
        if not target.parent.is_dir():
            raise CollectionError(f"There is no folder {target.parent} for the backup: make it first.")
        with temporary_file(target.parent) as temporary:
            with contextlib.closing(sqlite3.connect(temporary, isolation_level=None)) as copy:
                transaction.db.backup(copy, pages=_PAGES, progress=_progress("copying"))
                copy.execute("PRAGMA journal_mode = DELETE")  # so that reading it leaves no other files
            _check(temporary, "The collection is damaged, so there is no backup of it")
            with open(temporary, "rb") as file:
                os.fsync(file.fileno())
            os.replace(temporary, target)
            sync_folder(target.parent)


def restore(source: Path, target: Path, replace: bool) -> None:
    """Make a collection from a backup, after checking all of it."""
    path = target / FILE
    with errors_as_sentences(source):
        if in_use_here(source):
            raise CollectionError(f"{source} is in use by this process: make a backup of it, and restore that.")
        if not source.is_file() or _header(source) is None:
            raise CollectionError(
                f"{source} is no backup of a collection: give a file that 'hashlearn index backup' wrote."
            )
        log = Path(f"{source}-wal")
        if file_size(log):
            raise CollectionError(f"{source} is in use, as {log} shows: make a backup of it, and restore that.")
        if path.exists() and not replace:
            raise CollectionError(
                f"{target} holds a collection already: {OPEN_OR_DROP}, or restore with replace=True (--replace)."
            )
        _check(source, f"The backup {source} is damaged, so nothing was restored")
    with errors_as_sentences(path):
        target.mkdir(parents=True, exist_ok=True)
        with temporary_file(target) as temporary:
            with contextlib.closing(connect(source, "ro")) as db, contextlib.closing(connect(temporary, "rwc")) as copy:
                db.backup(copy, pages=_PAGES, progress=_progress("restoring"))
                _renew(copy, temporary)
                if path.exists() and _restored_into(copy, path):
                    return
            if path.exists():
                # SQLite cannot write to the damaged file, so its files are removed.
                with locked(path):
                    remove_database(target)
            put_into_place(temporary, path)


def _renew(copy: sqlite3.Connection, path: Path) -> None:
    """Give the restored file a new identity, so that it is not mistaken for the file that was backed up."""
    copy.execute("PRAGMA journal_mode = WAL")
    copy.execute("BEGIN IMMEDIATE")
    state = read_state(copy, path)
    update_state(copy, state._replace(identity=new_identity(), commits=state.commits + 1))
    copy.execute("COMMIT")
    copy.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _restored_into(copy: sqlite3.Connection, path: Path) -> bool:
    """Write a restored collection over one that may be in use; False when that one is too damaged to be written to."""
    try:
        with contextlib.closing(connect(path, "rw")) as live:
            live.execute("BEGIN IMMEDIATE")  # raises an error if somebody else writes for too long
            live.execute("ROLLBACK")
            copy.backup(live)
            state = read_state(live, path)
            database.write_commits(path.parent, state.identity, state.commits)
            # The collection is replaced now. Readers of the former state may keep the log in use for long, and the
            # disk may be too full to copy the log into the file. A later checkpoint does it then.
            live.execute("PRAGMA busy_timeout = 0")
            with contextlib.suppress(sqlite3.OperationalError):
                live.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    except UnicodeDecodeError:  # SQLite's message quotes damaged text of the schema
        return False
    except sqlite3.DatabaseError as error:
        if error_code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
            raise
        return False
    return True


def _check(path: Path, sentence: str) -> None:
    with contextlib.closing(connect(path, "ro&immutable=1")) as db:
        db.execute("BEGIN")
        spec, state = schema.read_collection(db, path)
        problems = verify(Transaction(db, state, 0), spec, path).problems
    if problems:
        raise CollectionError(f"{sentence} ({len(problems)} problems; {problems[0].rstrip('.')}).")


def _header(path: Path) -> bytes | None:
    """Return what the header of a file says: _BACKUP, _COLLECTION (in WAL mode, as collections in use are), or None."""
    try:
        with open(path, "rb") as file:
            head = file.read(72)
    except OSError:
        return None
    if head[:16] != b"SQLite format 3\0" or int.from_bytes(head[68:72], "big") != schema.APPLICATION:
        return None
    return head[18:20]


def _progress(phase: str) -> Callable[[int, int, int], None]:
    return lambda _status, remaining, total: report(phase, total - remaining, total)
