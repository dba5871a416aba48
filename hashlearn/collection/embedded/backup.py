"""Backup of an embedded collection to one file while it is in use, and restoring it.

Both use SQLite's own backup. The copy shows one moment. A collection that is restored over another one changes in one
transaction, and the processes that have it open follow.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

from hashlearn.collection.embedded import commits, folder, schema
from hashlearn.collection.embedded.connection import FILE, connect, error_code, errors_as_sentences, file_size
from hashlearn.collection.embedded.database import Transaction
from hashlearn.collection.embedded.state import new_identity, read_state, update_state
from hashlearn.collection.embedded.verify import verify
from hashlearn.collection.store import OPEN_OR_DROP, CollectionError
from hashlearn.progress import report
from hashlearn.wholefile import sync_folder

_PAGES = 1000  # copied between two reports of progress
_BACKUP, _COLLECTION = b"\x01\x01", b"\x02\x02"  # the versions for writing and reading in the header of SQLite


def backup(transaction: Transaction, target: Path) -> None:
    """Write the collection, as a transaction sees it, to one file. It gets its name once it is whole and checked."""
    with errors_as_sentences(target):
        if target.exists() and _header(target) != _BACKUP:
            what = "the file of a collection" if _header(target) == _COLLECTION else "no backup of a collection"
            raise CollectionError(f"{target} exists already and is {what}: give the backup another name.")
        if not target.parent.is_dir():
            raise CollectionError(f"There is no folder {target.parent} for the backup: make it first.")
        with folder.temporary_file(target.parent) as temporary:
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
        with folder.temporary_file(target) as temporary:
            with contextlib.closing(connect(source, "ro")) as db, contextlib.closing(connect(temporary, "rwc")) as copy:
                db.backup(copy, pages=_PAGES, progress=_progress("restoring"))
                _renew(copy, temporary)
                if path.exists() and _restored_into(copy, path):
                    return
            if path.exists():
                # SQLite cannot write to the damaged file, so its files are removed.
                with folder.locked(path):
                    folder.remove_database(target)
            folder.put_into_place(temporary, path)


def _renew(copy: sqlite3.Connection, path: Path) -> None:
    """Give the restored file an identity of its own, so that it is not mistaken for the file that was backed up."""
    copy.execute("PRAGMA journal_mode = WAL")
    copy.execute("BEGIN IMMEDIATE")
    state = read_state(copy, path)
    if state.version == schema.VERSION:
        update_state(copy, state._replace(identity=new_identity(), commits=state.commits + 1))
    else:
        # Format 1 has no identity: processes that have the collection open would not notice that it was restored.
        schema.upgrade(copy, path, schema.read_spec(copy, path), state)
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
            commits.write_commits(path.parent, state.identity, state.commits)
            # Readers of the former state keep the log in use, perhaps for long. The next checkpoint empties it then.
            live.execute("PRAGMA busy_timeout = 0")
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
        spec, state = schema.read_spec(db, path), read_state(db, path)
        problems = verify(Transaction(db, state, 0), spec, path).problems
    if problems:
        raise CollectionError(f"{sentence} ({len(problems)} problems; {problems[0].rstrip('.')}).")


def _header(path: Path) -> bytes | None:
    """What the header of a file says: _BACKUP, _COLLECTION (in WAL mode, as collections in use are), or None."""
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
