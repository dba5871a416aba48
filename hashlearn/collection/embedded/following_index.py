"""The codes of an embedded collection in memory: an Index that follows the blocks in the file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from hashlearn.codes import n_bytes
from hashlearn.collection.embedded.blocks import Block, DamagedBlockError, Stored, from_stored, merged
from hashlearn.collection.embedded.column_table import ColumnTable
from hashlearn.collection.embedded.database import Database, Moment
from hashlearn.collection.embedded.locks import SharedLock
from hashlearn.collection.embedded.schema import block_sum
from hashlearn.collection.embedded.state import State, damaged
from hashlearn.collection.store import CollectionError
from hashlearn.collection.where import split_path
from hashlearn.index import Index

_QUERY = "SELECT seq, size, checksum, ids, codes, gone, {columns} FROM block WHERE seq > ? ORDER BY seq"


@dataclass(frozen=True)
class View:
    """A transaction, and the index and indexed fields of the same moment."""

    moment: Moment
    index: Index
    columns: ColumnTable | None


class FollowingIndex:
    """An index, the indexed fields, and the last block that they have seen: (generation of the file, its number)."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._spec = database.spec
        self._paths = [split_path(name) for name in self._spec.indexed]
        self._lock = SharedLock()
        self._seen: tuple[int, int] = (-1, 0)
        self._forget()

    @contextmanager
    def reading(self) -> Iterator[View]:
        """A transaction and the index of the same moment; nobody changes the index meanwhile."""
        while True:
            with self._database.reading() as moment, self.at_moment_of(moment) as view:
                if view is not None:
                    yield view
                    return

    @contextmanager
    def at_moment_of(self, moment: Moment) -> Iterator[View | None]:
        """The index at the moment of a transaction; None when another thread has moved it on: take a new one."""
        self.follow(moment)
        with self._lock.shared():
            same = self._seen == (moment.generation, moment.state.seq)
            yield View(moment, self._index, self._columns) if same else None

    def follow(self, moment: Moment) -> None:
        """Apply what the file has and the index has not."""
        wanted = (moment.generation, moment.state.seq)
        if self._seen < wanted:
            with self._lock.alone():
                if self._seen < wanted:
                    try:
                        self._apply(moment)
                    except BaseException:
                        # Half of the blocks may have been applied: begin anew next time.
                        self._forget()
                        raise

    def writing(self, moment: Moment) -> View:
        """The index for the one writer, whose transaction keeps it where it is."""
        self.check_blocks(moment)
        self.follow(moment)
        if self._seen != (moment.generation, moment.state.seq):
            raise CollectionError(f"{self._database.path} is behind what was read from it: open it again.")
        return View(moment, self._index, self._columns)

    def applied(self, block: Block, before: State, moment: Moment) -> None:
        """Apply a block that has just been committed, without reading it again."""
        with self._lock.alone():
            if self._seen == (moment.generation, before.seq):
                try:
                    self._change(block)
                    self._seen = (moment.generation, moment.state.seq)
                except BaseException:
                    self._forget()
                    raise

    def renumbered(self, before: State, moment: Moment) -> None:
        """The blocks were written anew with other numbers, and say the same."""
        with self._lock.alone():
            if self._seen == (moment.generation, before.seq):
                self._seen = (moment.generation, moment.state.seq)

    def blocks(self, moment: Moment, after: int) -> list[Block]:
        """The blocks with larger numbers, in order."""
        version = moment.state.version
        query = _QUERY.format(columns="columns" if version > 1 else "x''")
        width = n_bytes(self._spec.n_bits)
        try:
            rows = moment.db.execute(query, (after,))
            return [from_stored(Stored(*row), width, len(self._paths), version) for row in rows]
        except DamagedBlockError as error:
            raise damaged(self._database.path, str(error)) from error

    def check_blocks(self, moment: Moment) -> None:
        """Notice blocks that are missing, or that are there although they were removed."""
        if moment.state.version > 1 and block_sum(moment.db) != moment.state.block_sum:
            raise damaged(self._database.path, "blocks of codes are missing")

    def _forget(self) -> None:
        self._index = Index(self._spec.n_bits, self._spec.kind, **self._spec.settings)  # type: ignore[arg-type]
        self._columns = ColumnTable(self._paths) if self._paths else None
        self._seen = (-1, 0)

    def _apply(self, moment: Moment) -> None:
        generation, seq = self._seen
        if generation != moment.generation or seq < moment.state.base:
            self._forget()
            seq = 0
        self.check_blocks(moment)
        blocks = self.blocks(moment, seq)
        if seq == 0:
            self._change(merged(blocks, n_bytes(self._spec.n_bits), keep_gone=False))
        else:
            for block in blocks:
                self._change(block)
        if len(self._index) != moment.state.rows:
            raise damaged(self._database.path, f"its blocks hold {len(self._index)} rows and not {moment.state.rows}")
        self._seen = (moment.generation, moment.state.seq)

    def _change(self, block: Block) -> None:
        if len(block.gone):
            self._index.remove(block.gone)
            if self._columns is not None:
                self._columns.remove(block.gone)
        if len(block.ids):
            self._index.add(block.codes, block.ids)
            if self._columns is not None and block.columns is not None:
                self._columns.put(block.ids, block.columns)
