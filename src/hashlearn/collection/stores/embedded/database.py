"""Transactions on the SQLite file of an embedded collection, for many threads and beside other processes.

A small file beside the database counts its commits, so that a lost end of SQLite's log is noticed. SQLite silently
ignores everything after the first damaged page of its log, because that is how a commit looks that a crash interrupted.
Commits that were acknowledged must not be lost in this way, so this file says how many there were. It is written after
each commit without waiting for the disk: after a power cut it may count too few, never too many.

A process may have a collection open while its file is dropped, restored or replaced by another. Every transaction
therefore checks that the file in the folder and SQLite's log are still those it was opened with, and begins by reading
the state row, which shows a restored file (another identity) and lost commits (a lower count).
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import struct
import threading
import time
import weakref
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from hashlearn.collection.store import CollectionError, CollectionSpec, NoCollectionError
from hashlearn.collection.stores.embedded import schema
from hashlearn.collection.stores.embedded.locks import SharedLock
from hashlearn.collection.stores.embedded.schema import CollectionState, read_state, update_state
from hashlearn.messages import kind_of_file
from hashlearn.wholefile import OpenConnection, in_use_here, log_is_gone, opened

COMMITS_FILE = "collection.commits"
_FORM = struct.Struct("<qq")
_CHECKSUM = struct.Struct("<I")


def write_commits(folder: Path, identity: int, commits: int) -> None:
    """Write how many commits there are. The commit itself is done, so an error here must not make it fail."""
    data = _FORM.pack(identity, commits)
    with contextlib.suppress(OSError):
        # The file is not truncated first, so that a reader finds either the old numbers or the new ones.
        handle = os.open(folder / COMMITS_FILE, os.O_WRONLY | os.O_CREAT, 0o644)
        try:
            os.write(handle, data + _CHECKSUM.pack(zlib.crc32(data)))
        finally:
            os.close(handle)


def read_commits(folder: Path) -> tuple[int, int] | None:
    """Return identity and number of commits of the database; None without a file that can be trusted."""
    try:
        data = (folder / COMMITS_FILE).read_bytes()
    except OSError:
        return None
    if len(data) != _FORM.size + _CHECKSUM.size:
        return None
    if _CHECKSUM.unpack(data[_FORM.size :])[0] != zlib.crc32(data[: _FORM.size]):
        return None
    identity, commits = _FORM.unpack(data[: _FORM.size])
    return identity, commits


FILE = "collection.sqlite"
WAIT_SECONDS = 60.0
_ATTEMPTS, _PAUSE = 5, 0.01
_RESTORE = "restore it from a backup ('hashlearn index restore')"


def connect(path: Path, mode: str) -> OpenConnection:
    """Open a connection; ``mode`` is that of SQLite's URIs, such as "ro" or "rw"."""
    for _ in range(_ATTEMPTS):
        db = _connection(path, mode)
        try:
            if "immutable" in mode:
                return db
            # With its first read SQLite takes the lock that keeps others from removing the log.
            db.execute("SELECT count(*) FROM sqlite_master").fetchone()
            if opened(db, path):
                return db
        except BaseException:
            db.close()
            raise
        db.close()
        time.sleep(_PAUSE)  # another thread may be closing the last connection that uses the old log
    raise CollectionError(
        f"The log of {path} was removed while this process had it open, so it is not used any more. This happens after "
        "the process opened and closed one of its files itself, for example to copy it, or was forked: close the "
        "collection wherever this process has it open, and open it again. 'backup' copies a collection in use."
    )


def _connection(path: Path, mode: str) -> OpenConnection:
    # A path may hold characters that have a meaning in a URI.
    uri = f"{path.absolute().as_uri()}?mode={mode}"
    db = sqlite3.connect(
        uri, WAIT_SECONDS, isolation_level=None, check_same_thread=False, factory=OpenConnection, uri=True
    )
    # Checksums find damaged text; decoding it must not raise an error of Python before that.
    db.text_factory = _as_text
    schema.add_functions(db)
    if mode.startswith("rw"):
        # A commit returns when its bytes are on the disk: acknowledged means durable.
        db.execute("PRAGMA synchronous = FULL")
    return db


def _as_text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def file_size(path: Path) -> int:
    """Return the size of a file in bytes; 0 if there is none. SQLite may remove its log at any time."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def close_all(connections: Sequence[sqlite3.Connection]) -> None:
    for db in connections:
        with contextlib.suppress(sqlite3.Error):
            db.close()


@contextmanager
def errors_as_sentences(path: Path) -> Iterator[None]:
    """Raise errors of SQLite and of the file system as a CollectionError with one sentence that names the file."""
    try:
        yield
    except sqlite3.Error as error:
        raise CollectionError(_sentence(error, path)) from error
    except UnicodeDecodeError as error:
        # SQLite quotes damaged text of the schema in its message, which Python then cannot decode.
        raise CollectionError(f"{path} is damaged: {_RESTORE} (its schema cannot be read).") from error
    except OSError as error:
        raise CollectionError(f"Cannot use {path}: {error.strerror or error}.") from error


def error_code(error: sqlite3.Error) -> int:
    return (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF


def _sentence(error: sqlite3.Error, path: Path) -> str:
    if error_code(error) == sqlite3.SQLITE_NOTADB and not in_use_here(path):
        kind = kind_of_file(path)
        if kind is not None:
            return f"{path} is not a collection of hashlearn: it is {kind}."
    known: dict[int, str] = {
        sqlite3.SQLITE_BUSY: f"{path.parent} is being written by somebody else; gave up after {WAIT_SECONDS:.0f} s.",
        sqlite3.SQLITE_FULL: f"The disk is full: nothing of this was written to {path.parent}, and nothing was lost.",
        sqlite3.SQLITE_READONLY: f"{path} may not be written: change its permissions, or open it with read_only=True.",
        sqlite3.SQLITE_CORRUPT: f"{path} is damaged: {_RESTORE} ({error}).",
        sqlite3.SQLITE_NOTADB: f"{path} is not a collection of hashlearn, or its beginning is damaged: {_RESTORE}.",
        sqlite3.SQLITE_CANTOPEN: f"{path} cannot be opened: check that it may be read, and, if a log (-wal) lies "
        "beside it, that the folder may be written.",
        sqlite3.SQLITE_CONSTRAINT: f"{path} is damaged: {_RESTORE} ({error}).",
        sqlite3.SQLITE_TOOBIG: "A payload or an indexed text is more than SQLite can keep in one row (a billion "
        f"bytes): nothing of this was written to {path.parent}.",
        sqlite3.SQLITE_IOERR: f"Reading or writing {path} failed: check the disk ({error}).",
        sqlite3.SQLITE_ERROR: f"{path} is damaged or of another kind: {_RESTORE} ({error}).",
    }
    return known.get(error_code(error), f"Cannot use {path}: {error}.")


_ATTEMPTS = 5
_KEPT_CONNECTIONS = 2  # when no transaction is under way: a service may have hundreds of collections open
_SHRINK_SECONDS = 1.0


@dataclass
class Transaction:
    """A transaction: its connection, and the state of the collection that it sees.

    ``generation`` counts the files that this process has seen under the collection's name. Code that changes something
    sets ``state``, and the end of the transaction writes it.
    """

    db: OpenConnection
    state: CollectionState
    generation: int


class Database:
    """A pool of connections to the file, each used by one thread at a time; only one transaction writes at a time."""

    def __init__(self, folder: Path, read_only: bool) -> None:
        self.path = folder / FILE
        self.name = str(folder)  # in messages
        self.read_only = read_only
        self._free: list[OpenConnection] = []
        self._busy: weakref.WeakSet[OpenConnection] = weakref.WeakSet()
        self._next_shrink = 0.0
        self._mutex = threading.Lock()
        self._writer = SharedLock()
        self._writing: OpenConnection | None = None  # the connection of the writing transaction
        self._closed = False
        self._unshared = False
        self._stamp = (0, 0)
        self._generation = 0
        self.upcoming: CollectionSpec | None = None  # that this process is about to write
        self._identity = 0
        self._known_commits = 0
        with errors_as_sentences(self.path):
            if not self.path.is_file():
                raise NoCollectionError(f"There is no collection in {folder}.")
            if not read_only and not (os.access(self.path, os.W_OK) and os.access(folder, os.W_OK)):
                raise CollectionError(
                    f"{folder} may not be written: open it with read_only=True, or change its permissions."
                )
            self._file = self._file_now()
            self.spec = self._read_file()

    @contextmanager
    def reading(self, begin: str = "BEGIN") -> Iterator[Transaction]:
        """Yield a transaction that sees one moment of the collection; ``begin`` is the statement that begins it."""
        with errors_as_sentences(self.path):
            transaction = None
            try:
                transaction = self._begin(begin)
                yield transaction
            except BaseException:
                if transaction is not None:
                    # Not for another transaction: a statement that was stopped keeps the view that it had of the file.
                    _discard(transaction.db)
                raise
            self._end(transaction)

    @contextmanager
    def writing(self) -> Iterator[Transaction]:
        """Yield the only writing transaction of all processes; committed at the end, or rolled back on an error."""
        if self.read_only:
            raise CollectionError(f"{self.path.parent} was opened to be read only.")
        with errors_as_sentences(self.path), self._writer.alone(), self.reading("BEGIN IMMEDIATE") as transaction:
            before = transaction.state
            yield transaction
            if transaction.state != before:
                transaction.state = transaction.state._replace(commits=before.commits + 1)
                update_state(transaction.db, transaction.state)
            transaction.db.execute("COMMIT")
            self._acknowledge(transaction)

    def vacuum(self) -> None:
        """Have SQLite rewrite the file without unused pages, and empty its log."""
        if self.read_only:
            raise CollectionError(f"{self.path.parent} was opened to be read only.")
        with (
            errors_as_sentences(self.path),
            self._writer.alone(),
            contextlib.closing(self._take_connection()[0]) as db,
        ):
            self._close_left_behind()
            db.execute("VACUUM")
            try:
                db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            except sqlite3.OperationalError as error:
                raise CollectionError(
                    f"{self.path.parent} was rewritten and nothing was lost, but its log could not be emptied, so it "
                    f"gives no space back yet ({error}): make room on the disk and compact it again."
                ) from error

    def close(self) -> None:
        with self._mutex:
            self._closed = True
        self._close_free()

    def _begin(self, begin: str) -> Transaction:
        for _ in range(_ATTEMPTS):
            db, generation = self._take_connection()
            if begin == "BEGIN IMMEDIATE":
                self._close_left_behind()
                self._writing = db
            known = self._known_commits  # commits that were known before the transaction must be in it
            transaction = None
            try:
                db.execute(begin)
                # While a writer waited for its turn, another process may have dropped or replaced the file.
                if self._file_now() == self._file:
                    if log_is_gone(db, self.path):
                        self._close_free()
                    else:
                        transaction = self._checked(db, generation, known)
            except sqlite3.OperationalError:
                self._file_now()  # raises a clearer error if the file is gone
                raise
            finally:
                if transaction is None:
                    db.close()
            if transaction is not None:
                return transaction
        raise CollectionError(f"{self.path} is being replaced again and again: try again when that has ended.")

    def _checked(self, db: OpenConnection, generation: int, known: int) -> Transaction | None:
        """Return the transaction with its state; None if another thread has found another file meanwhile."""
        state = read_state(db, self.path)
        with self._mutex:
            if generation != self._generation:
                return None
            if state.identity != self._identity:
                self._accept(schema.read_collection(db, self.path)[0])
                self._identity, self._known_commits = state.identity, state.commits
            elif state.commits < known:
                raise CollectionError(
                    f"{self.path.parent} went back from change {known} to {state.commits}: the end of its log was "
                    "lost, or an older copy was put in its place. Open it again to use what is there now."
                )
            self._known_commits = max(self._known_commits, state.commits)
            return Transaction(db, state, self._generation)

    def _accept(self, spec: CollectionSpec) -> None:
        """Continue with another file of this name, if it is a collection with the same spec."""
        # Two model files may differ although their hashers compute the same; then their fingerprints are equal.
        wanted = [replace(one, model=b"") for one in (self.spec, self.upcoming) if one is not None]
        if replace(spec, model=b"") not in wanted:
            raise CollectionError(
                f"{self.path.parent} was replaced by another collection ({spec.n_bits} bits, kind {spec.kind!r}) while "
                "it was open: open it again."
            )
        self._generation += 1

    def _close_free(self) -> None:
        """Close the connections that no transaction uses: while one is open, new ones share its view of the log."""
        with self._mutex:
            free, self._free = self._free, []
        close_all(free)

    def _take_connection(self) -> tuple[OpenConnection, int]:
        with self._mutex:
            if self._closed:
                raise CollectionError(f"The collection {self.name} is closed.")
            file = self._file_now()
            if file != self._file:
                close_all(self._free)
                self._free = []
                self._unshared = False
                self._accept(self._read_file())
                self._file = file
            if self._unshared and (self._has_log() or self._stamp != self._file_stamp()):
                raise CollectionError(f"{self.path.parent} is being changed since it was opened: open it again.")
            db = self._free.pop() if self._free else None
            generation = self._generation
        db = db or self._connect()
        with self._mutex:
            self._busy.add(db)
        return db, generation

    def _close_left_behind(self) -> None:
        """Close the connection of a write that an exception ended at a line where nothing rolled it back.

        Only the one writer of this process calls this, so no other write is going on. Without it, a traceback that
        somebody keeps would hold SQLite's write lock.
        """
        if self._writing is not None:
            _discard(self._writing)
            self._writing = None

    def _end(self, transaction: Transaction) -> None:
        """Roll back what was not committed, and keep the connection for the next transaction."""
        with contextlib.suppress(sqlite3.Error):
            if transaction.db.in_transaction:
                transaction.db.execute("ROLLBACK")
        if self._writing is transaction.db:
            self._writing = None  # before another thread can get the connection to read
        with self._mutex:
            self._busy.discard(transaction.db)
            if not transaction.db.in_transaction and not self._closed and transaction.generation == self._generation:
                self._free.append(transaction.db)
                if not self._busy and len(self._free) > _KEPT_CONNECTIONS and time.monotonic() > self._next_shrink:
                    # SQLite closes no file of a connection while another one is open, so all are closed.
                    self._next_shrink = time.monotonic() + _SHRINK_SECONDS
                    close_all(self._free)
                    self._free = []
                return
        transaction.db.close()

    def _acknowledge(self, transaction: Transaction) -> None:
        if self._file_now() != self._file or log_is_gone(transaction.db, self.path):
            raise CollectionError(
                f"{self.path} or its log was replaced while rows were written to it, so these may be lost: look for "
                "them, and repeat the change."
            )
        state = transaction.state
        with self._mutex:
            self._identity, self._known_commits = state.identity, max(self._known_commits, state.commits)
        write_commits(self.path.parent, state.identity, state.commits)

    def _read_file(self) -> CollectionSpec:
        """Read the spec of the file in the folder, after checking that no counted commit is missing."""
        counted = read_commits(self.path.parent)
        with contextlib.closing(self._connect()) as db:
            db.execute("BEGIN")
            spec, state = schema.read_collection(db, self.path)
        if counted is not None and counted[0] == state.identity and counted[1] > state.commits:
            raise CollectionError(
                f"{self.path} has lost its last {counted[1] - state.commits} commits: its log ({FILE}-wal) is damaged "
                "or missing, or this is an older copy. Restore a backup; or remove the file "
                f"{COMMITS_FILE} beside it to go on without them."
            )
        self._identity, self._known_commits = state.identity, state.commits
        return spec

    def _file_now(self) -> tuple[int, int]:
        """Identify the file that has the collection's name now, by device and inode."""
        try:
            facts = os.stat(self.path)
        except FileNotFoundError:
            raise CollectionError(
                f"There is no collection in {self.path.parent} any more: it was dropped or moved while it was open."
            ) from None
        return facts.st_dev, facts.st_ino

    def _has_log(self) -> bool:
        """Return whether SQLite's log may hold changes that are not yet in the file."""
        return file_size(Path(f"{self.path}-wal")) > 0

    def _file_stamp(self) -> tuple[int, int]:
        """Return the size of the file and the time of its last change."""
        facts = os.stat(self.path)
        return facts.st_size, facts.st_mtime_ns

    def _connect(self) -> OpenConnection:
        mode = "rw"
        if self.read_only:
            # SQLite shares the state of its log through a file beside it, which it cannot create in a folder without
            # write permission. Without a log it does not need that file.
            unshared = not os.access(self.path.parent, os.W_OK) and not self._has_log()
            mode = "ro&immutable=1" if unshared else "ro"
            if unshared and not self._unshared:
                # SQLite now assumes that the file never changes, so this class has to notice changes.
                self._stamp = self._file_stamp()
            self._unshared = unshared
        return connect(self.path, mode)


def _discard(db: OpenConnection) -> None:
    """Roll back and close. A cursor that a traceback keeps would hold the locks of a connection that is only closed."""
    with contextlib.suppress(sqlite3.Error):
        if db.in_transaction:
            db.execute("ROLLBACK")
    db.close()
