"""The SQLite file of an embedded collection: making it, connections for many threads, errors as sentences.

    state    one row: seq, base, last_id, rows, entries
    spec     one row: what the collection is for, and the model
    block    seq -> ids, codes, gone, checksum (blocks.py)
    payload  id -> JSON text, only for rows with a payload
    vector   id -> float32 little-endian bytes

``seq`` counts changes; a reader that has applied the blocks up to ``seq`` is up to date. Blocks up to ``base`` no
longer say which ids are gone: who has seen less than ``base`` and more than nothing begins anew.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hashlearn.codes import MAX_BITS
from hashlearn.collection.store import OPEN_OR_DROP, CollectionError, Spec
from hashlearn.filekinds import kind_of_file
from hashlearn.wholefile import sync_folder

FILE = "collection.sqlite"
APPLICATION = 0x686C636F  # "hlco", in the header of the file
VERSION = 1
WAIT_SECONDS = 60.0

_TABLES = """
CREATE TABLE spec (n_bits INTEGER, model BLOB, fingerprint TEXT, vector_size INTEGER, kind TEXT, settings TEXT);
CREATE TABLE state (seq INTEGER, base INTEGER, last_id INTEGER, rows INTEGER, entries INTEGER);
CREATE TABLE block (seq INTEGER PRIMARY KEY, size INTEGER, ids BLOB, codes BLOB, gone BLOB, checksum INTEGER);
CREATE TABLE payload (id INTEGER PRIMARY KEY, json TEXT NOT NULL);
CREATE TABLE vector (id INTEGER PRIMARY KEY, floats BLOB NOT NULL);
INSERT INTO state VALUES (0, 0, -1, 0, 0);
"""


def create(folder: Path, spec: Spec) -> None:
    """Make the folder and its file, all at once: nobody finds a half-made collection."""
    path = folder / FILE
    if path.exists():
        raise CollectionError(f"{folder} holds a collection already: {OPEN_OR_DROP}.")
    if Path(f"{path}-wal").exists() and not path.exists():
        raise CollectionError(f"{path}-wal is the log of a collection whose file is gone: remove it first.")
    with sentences(path):
        folder.mkdir(parents=True, exist_ok=True)
        temporary = folder / f".{FILE}.{secrets.token_hex(6)}.tmp"
        try:
            with contextlib.closing(sqlite3.connect(temporary, isolation_level=None)) as db:
                db.execute(f"PRAGMA application_id = {APPLICATION}")
                db.execute(f"PRAGMA user_version = {VERSION}")
                db.execute("PRAGMA journal_mode = WAL")
                db.executescript(f"BEGIN; {_TABLES} COMMIT;")
                values = (spec.n_bits, spec.model, spec.fingerprint, spec.vector_size, spec.kind)
                db.execute("INSERT INTO spec VALUES (?, ?, ?, ?, ?, ?)", (*values, json.dumps(spec.settings)))
            _into_place(temporary, path)
        finally:
            for name in (temporary, Path(f"{temporary}-wal"), Path(f"{temporary}-shm")):
                name.unlink(missing_ok=True)


def _into_place(temporary: Path, path: Path) -> None:
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
    with sentences(path):
        # The log goes first: beside a later file of this name it would be taken for that one's.
        beside = [*folder.glob("adding-*.json"), *folder.glob(f".{FILE}.*.tmp*")]
        for name in (Path(f"{path}-wal"), Path(f"{path}-shm"), path, *beside):
            name.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            folder.rmdir()


class Database:
    """Connections to the file, one a thread at a time. ``writing`` gives one at a time to change things."""

    def __init__(self, folder: Path, read_only: bool) -> None:
        self.path = folder / FILE
        self.read_only = read_only
        self._free: list[sqlite3.Connection] = []
        self._mutex = threading.Lock()
        self._writer = threading.Lock()
        self._closed = False
        self._unshared = False
        if not self.path.is_file():
            raise CollectionError(f"There is no collection in {folder}.")
        try:
            with self.reading() as db:
                self.spec = _spec(db, self.path)
        except BaseException:
            self.close()
            raise

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A connection in a transaction that sees one moment."""
        with sentences(self.path), self._connection() as db:
            db.execute("BEGIN")
            try:
                yield db
            finally:
                if db.in_transaction:
                    db.execute("ROLLBACK")

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """A connection in the only changing transaction of all processes; committed at the end, or rolled back."""
        if self.read_only:
            raise CollectionError(f"{self.path.parent} was opened to be read only.")
        with self._writer, sentences(self.path), self._connection() as db:
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
                db.execute("COMMIT")
            except BaseException:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                raise

    def close(self) -> None:
        with self._mutex:
            self._closed = True
            free, self._free = self._free, []
        for db in free:
            with contextlib.suppress(sqlite3.Error):
                db.close()

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        with self._mutex:
            if self._closed:
                raise CollectionError(f"The collection {self.path.parent} is closed.")
            if self._unshared and self._logged():
                raise CollectionError(f"{self.path.parent} is being changed since it was opened: open it again.")
            db = self._free.pop() if self._free else None
        db = db or self._connect()
        try:
            yield db
        finally:
            with self._mutex:
                if not self._closed:
                    self._free.append(db)
                    db = None
            if db is not None:
                db.close()

    def _logged(self) -> bool:
        """Whether some changes are in the log of SQLite only."""
        log = Path(f"{self.path}-wal")
        return log.exists() and log.stat().st_size > 0

    def _connect(self) -> sqlite3.Connection:
        mode = "rw"
        if self.read_only:
            # SQLite shares the state of its log through a file beside it, which cannot be made in a folder that may
            # not be written. Without a log there is nothing to share.
            self._unshared = not os.access(self.path.parent, os.W_OK) and not self._logged()
            mode = "ro&immutable=1" if self._unshared else "ro"
        # A path may hold characters that mean something in a URI.
        uri = f"{self.path.absolute().as_uri()}?mode={mode}"
        db = sqlite3.connect(uri, WAIT_SECONDS, isolation_level=None, check_same_thread=False, uri=True)
        if not self.read_only:
            # A commit returns when its bytes are on the disk: acknowledged means durable.
            db.execute("PRAGMA synchronous = FULL")
        return db


def _spec(db: sqlite3.Connection, path: Path) -> Spec:
    if db.execute("PRAGMA application_id").fetchone()[0] != APPLICATION:
        what = "another SQLite database" if path.stat().st_size else "empty"
        raise CollectionError(f"{path} is not a collection of hashlearn: it is {what}.")
    version = db.execute("PRAGMA user_version").fetchone()[0]
    if version > VERSION:
        raise CollectionError(f"{path} was written by a newer hashlearn (format {version}; this one reads {VERSION}).")
    row = db.execute("SELECT n_bits, model, fingerprint, vector_size, kind, settings FROM spec").fetchone()
    try:
        n_bits, model, fingerprint, vector_size, kind, settings = row
        spec = Spec(n_bits, model, fingerprint, vector_size, kind, json.loads(settings))
        if not 1 <= spec.n_bits <= MAX_BITS or not isinstance(spec.model, bytes):
            raise ValueError
    except (TypeError, ValueError, IndexError):
        raise CollectionError(f"{path} is damaged: it does not say what it was made for.") from None
    return spec


@contextmanager
def sentences(path: Path) -> Iterator[None]:
    """Errors of SQLite and of the file system as one sentence that names the file."""
    try:
        yield
    except sqlite3.Error as error:
        raise CollectionError(_sentence(error, path)) from error
    except OSError as error:
        raise CollectionError(f"Cannot use {path}: {error.strerror or error}.") from error


def _sentence(error: sqlite3.Error, path: Path) -> str:
    code = (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF
    if code == sqlite3.SQLITE_NOTADB and (kind := kind_of_file(path)) is not None:
        return f"{path} is not a collection of hashlearn: it is {kind}."
    known: dict[int, str] = {
        sqlite3.SQLITE_BUSY: f"{path.parent} is being written by somebody else; gave up after {WAIT_SECONDS:.0f} s.",
        sqlite3.SQLITE_FULL: f"The disk is full: nothing of this was written to {path.parent}, and nothing was lost.",
        sqlite3.SQLITE_READONLY: f"{path} may not be written: change its permissions, or open it read_only.",
        sqlite3.SQLITE_CORRUPT: f"{path} is damaged: restore it from a copy ({error}).",
        sqlite3.SQLITE_NOTADB: f"{path} is not a collection of hashlearn, or its beginning is damaged.",
        sqlite3.SQLITE_CANTOPEN: f"{path} cannot be opened: check that it is there and may be read.",
        sqlite3.SQLITE_IOERR: f"Reading or writing {path} failed: check the disk ({error}).",
        sqlite3.SQLITE_ERROR: f"{path} is damaged or of another kind: {error}.",
    }
    return known.get(code, f"Cannot use {path}: {error}.")
