"""Transactions on the SQLite file of an embedded collection, for many threads and beside other processes.

A process may have a collection open while its file is dropped, restored or replaced by another. Every transaction
therefore checks that the file in the folder is still the one it was opened with, and begins by reading the state row,
which shows a restored file (another identity) and lost commits (a lower count).
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from hashlearn.collection.embedded import commits, schema
from hashlearn.collection.embedded.connection import FILE, close_all, connect, errors_as_sentences, file_size
from hashlearn.collection.embedded.state import CollectionState, read_state, update_state
from hashlearn.collection.store import CollectionError, CollectionSpec

_ATTEMPTS = 5


class Transaction:
    """A transaction: its connection, and the state of the collection that it sees.

    ``generation`` counts the files that this process has seen under the collection's name. Code that changes something
    sets ``state``, and the end of the transaction writes it.
    """

    def __init__(self, db: sqlite3.Connection, state: CollectionState, generation: int) -> None:
        self.db = db
        self.state = state
        self.generation = generation


class Database:
    """A pool of connections to the file, each used by one thread at a time; only one transaction writes at a time."""

    def __init__(self, folder: Path, read_only: bool) -> None:
        self.path = folder / FILE
        self.name = str(folder)  # in messages
        self.read_only = read_only
        self._free: list[sqlite3.Connection] = []
        self._mutex = threading.Lock()
        self._writer = threading.Lock()
        self._closed = False
        self._unshared = False
        self._stamp = (0, 0)
        self._generation = 0
        self._identity = 0
        self._known_commits = 0
        with errors_as_sentences(self.path):
            if not self.path.is_file():
                raise CollectionError(f"There is no collection in {folder}.")
            if not read_only and not (os.access(self.path, os.W_OK) and os.access(folder, os.W_OK)):
                raise CollectionError(
                    f"{folder} may not be written: open it with read_only=True, or change its permissions."
                )
            self._file = self._file_now()
            self.spec = self._read_file()

    @contextmanager
    def reading(self) -> Iterator[Transaction]:
        """A transaction that reads and sees one moment of the collection."""
        with self._transaction("BEGIN") as transaction:
            yield transaction

    @contextmanager
    def writing(self) -> Iterator[Transaction]:
        """The only writing transaction of all processes; committed at the end, or rolled back on an error."""
        if self.read_only:
            raise CollectionError(f"{self.path.parent} was opened to be read only.")
        with self._writer, self._transaction("BEGIN IMMEDIATE") as transaction:
            if transaction.state.version < schema.VERSION:
                transaction.state = schema.upgrade(transaction.db, self.path, self.spec, transaction.state)
            before = transaction.state
            yield transaction
            if transaction.state != before:
                transaction.state = transaction.state._replace(commits=before.commits + 1)
                update_state(transaction.db, transaction.state)
            transaction.db.execute("COMMIT")
            self._acknowledge(transaction.state)

    def vacuum(self) -> None:
        """Have SQLite rewrite the file without unused pages, and empty its log."""
        if self.read_only:
            raise CollectionError(f"{self.path.parent} was opened to be read only.")
        with self._writer, errors_as_sentences(self.path), contextlib.closing(self._take_connection()[0]) as db:
            db.execute("VACUUM")
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        with self._mutex:
            self._closed = True
            free, self._free = self._free, []
        close_all(free)

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[Transaction]:
        with errors_as_sentences(self.path):
            transaction = self._begin(begin)
            try:
                yield transaction
            finally:
                self._end(transaction)

    def _begin(self, begin: str) -> Transaction:
        for _ in range(_ATTEMPTS):
            db, generation = self._take_connection()
            known = self._known_commits  # commits that were known before the transaction must be in it
            transaction = None
            try:
                db.execute(begin)
                # While a writer waited for its turn, another process may have dropped or replaced the file.
                if self._file_now() == self._file:
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

    def _checked(self, db: sqlite3.Connection, generation: int, known: int) -> Transaction | None:
        """Return the transaction with its state; None if another thread has found another file meanwhile."""
        state = read_state(db, self.path)
        with self._mutex:
            if generation != self._generation:
                return None
            if state.identity != self._identity:
                self._accept(schema.read_spec(db, self.path))
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
        if replace(spec, model=b"") != replace(self.spec, model=b""):
            raise CollectionError(
                f"{self.path.parent} was replaced by another collection ({spec.n_bits} bits, kind {spec.kind!r}) while "
                "it was open: open it again."
            )
        self._generation += 1

    def _take_connection(self) -> tuple[sqlite3.Connection, int]:
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
        return db or self._connect(), generation

    def _end(self, transaction: Transaction) -> None:
        """Roll back what was not committed, and keep the connection for the next transaction."""
        with contextlib.suppress(sqlite3.Error):
            if transaction.db.in_transaction:
                transaction.db.execute("ROLLBACK")
        with self._mutex:
            if not transaction.db.in_transaction and not self._closed and transaction.generation == self._generation:
                self._free.append(transaction.db)
                return
        transaction.db.close()

    def _acknowledge(self, state: CollectionState) -> None:
        if self._file_now() != self._file:
            raise CollectionError(
                f"{self.path} was replaced while rows were written to it, and these are lost: repeat the change."
            )
        with self._mutex:
            self._identity, self._known_commits = state.identity, max(self._known_commits, state.commits)
        commits.write_commits(self.path.parent, state.identity, state.commits)

    def _read_file(self) -> CollectionSpec:
        """Read the spec of the file in the folder, after checking that no counted commit is missing."""
        counted = commits.read_commits(self.path.parent)
        with contextlib.closing(self._connect()) as db:
            db.execute("BEGIN")
            spec, state = schema.read_spec(db, self.path), read_state(db, self.path)
        if counted is not None and counted[0] == state.identity and counted[1] > state.commits:
            raise CollectionError(
                f"{self.path} has lost its last {counted[1] - state.commits} commits: its log ({FILE}-wal) is damaged "
                "or missing, or this is an older copy. Restore a backup; or remove the file "
                f"{commits.FILE} beside it to go on without them."
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
        """Whether SQLite's log may hold changes that are not yet in the file."""
        return file_size(Path(f"{self.path}-wal")) > 0

    def _file_stamp(self) -> tuple[int, int]:
        """Size and time of the last change of the file."""
        facts = os.stat(self.path)
        return facts.st_size, facts.st_mtime_ns

    def _connect(self) -> sqlite3.Connection:
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
