"""Transactions on the SQLite file of an embedded collection, for many threads and beside other processes.

A process may hold a collection open while its file is dropped, restored or replaced by another. Every transaction
therefore looks whether the file in the folder is still the one it was opened with, and begins with the checked state
row, which tells a restored file (another identity) and lost commits (a lower count).
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
from hashlearn.collection.embedded.connection import FILE, close_all, connect, sentences
from hashlearn.collection.embedded.state import State, read_state, update_state
from hashlearn.collection.store import CollectionError, Spec

_ATTEMPTS = 5


class Moment:
    """A transaction: its connection, and where the collection stands in it.

    ``generation`` counts the files that this process has seen under the collection's name. Who changes something sets
    ``state``, and the end of the transaction writes it.
    """

    def __init__(self, db: sqlite3.Connection, state: State, generation: int) -> None:
        self.db = db
        self.state = state
        self.generation = generation


class Database:
    """Connections to the file, each for one thread at a time. ``writing`` gives one at a time to change things."""

    def __init__(self, folder: Path, read_only: bool) -> None:
        self.path = folder / FILE
        self.read_only = read_only
        self._free: list[sqlite3.Connection] = []
        self._mutex = threading.Lock()
        self._writer = threading.Lock()
        self._closed = False
        self._unshared = False
        self._generation = 0
        self._identity = 0
        self._known_commits = 0
        if not self.path.is_file():
            raise CollectionError(f"There is no collection in {folder}.")
        if not read_only and not (os.access(self.path, os.W_OK) and os.access(folder, os.W_OK)):
            raise CollectionError(
                f"{folder} may not be written: open it with read_only=True, or change its permissions."
            )
        with sentences(self.path):
            self._file = self._found()
            self.spec = self._look()

    @contextmanager
    def reading(self) -> Iterator[Moment]:
        """A transaction that sees one moment."""
        with self._transaction("BEGIN") as moment:
            yield moment

    @contextmanager
    def writing(self) -> Iterator[Moment]:
        """The only changing transaction of all processes; committed at the end, or rolled back."""
        if self.read_only:
            raise CollectionError(f"{self.path.parent} was opened to be read only.")
        with self._writer, self._transaction("BEGIN IMMEDIATE") as moment:
            if moment.state.version < schema.VERSION:
                moment.state = schema.upgrade(moment.db, self.path, self.spec, moment.state)
            before = moment.state
            yield moment
            if moment.state != before:
                moment.state = moment.state._replace(commits=before.commits + 1)
                update_state(moment.db, moment.state)
            moment.db.execute("COMMIT")
            self._acknowledge(moment.state)

    def vacuum(self) -> None:
        """Have SQLite write the file anew, without pages of no use, and empty its log."""
        if self.read_only:
            raise CollectionError(f"{self.path.parent} was opened to be read only.")
        with self._writer, sentences(self.path), contextlib.closing(self._take()[0]) as db:
            db.execute("VACUUM")
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        with self._mutex:
            self._closed = True
            free, self._free = self._free, []
        close_all(free)

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[Moment]:
        with sentences(self.path):
            moment = self._begin(begin)
            try:
                yield moment
            finally:
                self._end(moment)

    def _begin(self, begin: str) -> Moment:
        for _ in range(_ATTEMPTS):
            db, generation = self._take()
            known = self._known_commits  # what was committed before this transaction must be in it
            moment = None
            try:
                db.execute(begin)
                # A writer may have waited for one who dropped or replaced the file.
                if self._found() == self._file:
                    moment = self._settled(db, generation, known)
            except sqlite3.OperationalError:
                self._found()  # of a file that has gone, this says so
                raise
            finally:
                if moment is None:
                    db.close()
            if moment is not None:
                return moment
        raise CollectionError(f"{self.path} is being replaced again and again: try again when that has ended.")

    def _settled(self, db: sqlite3.Connection, generation: int, known: int) -> Moment | None:
        """The transaction with its state; None when another thread has found another file meanwhile."""
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
            return Moment(db, state, self._generation)

    def _accept(self, spec: Spec) -> None:
        """Go on with another file of this name, if it is a collection for the same things."""
        # Two fits may differ in their model files, and compute the same: then their fingerprints are equal.
        if replace(spec, model=b"") != replace(self.spec, model=b""):
            raise CollectionError(
                f"{self.path.parent} was replaced by another collection ({spec.n_bits} bits, kind {spec.kind!r}) while "
                "it was open: open it again."
            )
        self._generation += 1

    def _take(self) -> tuple[sqlite3.Connection, int]:
        with self._mutex:
            if self._closed:
                raise CollectionError(f"The collection {self.path.parent} is closed.")
            file = self._found()
            if file != self._file:
                close_all(self._free)
                self._free = []
                self._accept(self._look())
                self._file = file
            if self._unshared and self._logged():
                raise CollectionError(f"{self.path.parent} is being changed since it was opened: open it again.")
            db = self._free.pop() if self._free else None
            generation = self._generation
        return db or self._connect(), generation

    def _end(self, moment: Moment) -> None:
        """Take back what was not committed, and keep the connection for the next transaction."""
        with contextlib.suppress(sqlite3.Error):
            if moment.db.in_transaction:
                moment.db.execute("ROLLBACK")
        with self._mutex:
            if not moment.db.in_transaction and not self._closed and moment.generation == self._generation:
                self._free.append(moment.db)
                return
        moment.db.close()

    def _acknowledge(self, state: State) -> None:
        if self._found() != self._file:
            raise CollectionError(
                f"{self.path} was replaced while rows were written to it, and these are lost: repeat the change."
            )
        with self._mutex:
            self._identity, self._known_commits = state.identity, max(self._known_commits, state.commits)
        commits.write_commits(self.path.parent, state.identity, state.commits)

    def _look(self) -> Spec:
        """What the file in the folder is for, once it is clear that it has all commits that were counted."""
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

    def _found(self) -> tuple[int, int]:
        """Which file has the collection's name now."""
        try:
            facts = os.stat(self.path)
        except FileNotFoundError:
            raise CollectionError(
                f"There is no collection in {self.path.parent} any more: it was dropped or moved while it was open."
            ) from None
        return facts.st_dev, facts.st_ino

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
        return connect(self.path, mode)
