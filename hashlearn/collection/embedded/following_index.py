"""The codes of an embedded collection in memory: an Index that follows the blocks in the file."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hashlearn.codes import n_bytes
from hashlearn.collection.embedded.blocks import Block, DamagedBlockError, Stored, from_stored, merged
from hashlearn.collection.embedded.database import Database
from hashlearn.collection.embedded.locks import SharedLock
from hashlearn.collection.store import CollectionError
from hashlearn.index import Index


class Held:
    """An index and the sequence number of the last block that it has seen."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._spec = database.spec
        self._lock = SharedLock()
        self._index = self._empty()
        self._seq = 0

    @contextmanager
    def reading(self) -> Iterator[tuple[sqlite3.Connection, Index, int]]:
        """A transaction and the index of the same moment; nobody changes the index meanwhile."""
        while True:
            with self._database.reading() as db, self.at_moment_of(db) as found:
                if found is not None:
                    yield db, *found
                    return

    @contextmanager
    def at_moment_of(self, db: sqlite3.Connection) -> Iterator[tuple[Index, int] | None]:
        """The index at the moment of a transaction; None when another thread has moved it on: take a new one."""
        seq = self.follow(db)
        with self._lock.shared():
            yield (self._index, seq) if self._seq == seq else None

    def follow(self, db: sqlite3.Connection) -> int:
        """Apply what the file has and the index has not; the sequence number of the file at this moment."""
        seq, base = db.execute("SELECT seq, base FROM state").fetchone()
        if self._seq < seq:
            with self._lock.alone():
                if self._seq < seq:
                    try:
                        self._apply(db, seq, base)
                    except BaseException:
                        # Half of the blocks may have been applied: begin anew next time.
                        self._index, self._seq = self._empty(), 0
                        raise
        return seq

    def index(self, seq: int) -> Index:
        """The index, for the one writer, whose transaction keeps it at this number."""
        if self._seq != seq:
            raise RuntimeError(f"The index is at {self._seq} and not at {seq}.")
        return self._index

    def apply(self, block: Block, before: int, after: int) -> None:
        """Apply a block that has just been committed, without reading it again."""
        with self._lock.alone():
            if self._seq == before:
                try:
                    self._change(block)
                    self._seq = after
                except BaseException:
                    self._index, self._seq = self._empty(), 0
                    raise

    def renumber(self, before: int, after: int) -> None:
        """The blocks were written anew with other numbers, and say the same."""
        with self._lock.alone():
            if self._seq == before:
                self._seq = after

    def _empty(self) -> Index:
        return Index(self._spec.n_bits, self._spec.kind, **self._spec.settings)  # type: ignore[arg-type]

    def _apply(self, db: sqlite3.Connection, seq: int, base: int) -> None:
        if self._seq < base:
            self._index, self._seq = self._empty(), 0
        blocks = self.blocks(db, self._seq)
        if self._seq == 0:
            self._change(merged(blocks, n_bytes(self._spec.n_bits), keep_gone=False))
        else:
            for block in blocks:
                self._change(block)
        self._seq = seq

    def blocks(self, db: sqlite3.Connection, after: int) -> list[Block]:
        """The blocks with larger numbers, in order."""
        rows: Any = db.execute("SELECT ids, codes, gone, checksum FROM block WHERE seq > ? ORDER BY seq", (after,))
        width = n_bytes(self._spec.n_bits)
        try:
            return [from_stored(Stored(*row), width) for row in rows]
        except DamagedBlockError as error:
            raise CollectionError(f"{self._database.path} is damaged: {error}. Restore it from a copy.") from error

    def _change(self, block: Block) -> None:
        if len(block.gone):
            self._index.remove(block.gone)
        if len(block.ids):
            self._index.add(block.codes, block.ids)
