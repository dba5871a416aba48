"""The codes of an embedded collection in memory: an Index that is kept up to date with the blocks in the file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from hashlearn.codes import n_bytes
from hashlearn.collection.embedded.blocks import Block, BlockRow, DamagedBlockError, from_row, merged
from hashlearn.collection.embedded.column_table import ColumnTable
from hashlearn.collection.embedded.database import Database, Transaction
from hashlearn.collection.embedded.locks import SharedLock
from hashlearn.collection.embedded.schema import block_sum
from hashlearn.collection.embedded.state import CollectionState, damaged
from hashlearn.collection.store import CollectionError
from hashlearn.collection.where import split_path
from hashlearn.index import Index

_QUERY = "SELECT seq, size, checksum, ids, codes, gone, {columns} FROM block WHERE seq > ? ORDER BY seq"


@dataclass(frozen=True)
class Snapshot:
    """A transaction, and the index and indexed fields as that transaction sees the collection."""

    transaction: Transaction
    index: Index
    columns: ColumnTable | None


class FollowingIndex:
    """An index, the indexed fields, and the last block applied to both: (generation of the file, block number)."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._spec = database.spec
        self._paths = [split_path(name) for name in self._spec.indexed]
        self._lock = SharedLock()
        self._applied: tuple[int, int] = (-1, 0)
        self._forget()

    @contextmanager
    def reading(self) -> Iterator[Snapshot]:
        """A transaction and the index of the same moment; the index does not change meanwhile."""
        while True:
            with self._database.reading() as transaction, self.snapshot_of(transaction) as snapshot:
                if snapshot is not None:
                    yield snapshot
                    return

    @contextmanager
    def snapshot_of(self, transaction: Transaction) -> Iterator[Snapshot | None]:
        """The index at the moment of a transaction; None if another thread has already applied later blocks to it.

        The caller then begins a new transaction.
        """
        self.follow(transaction)
        with self._lock.shared():
            same = self._applied == (transaction.generation, transaction.state.seq)
            yield Snapshot(transaction, self._index, self._columns) if same else None

    def follow(self, transaction: Transaction) -> None:
        """Apply the blocks that are in the file and not yet in the index."""
        wanted = (transaction.generation, transaction.state.seq)
        if self._applied < wanted:
            with self._lock.alone():
                if self._applied < wanted:
                    try:
                        self._catch_up(transaction)
                    except BaseException:
                        # Only some of the blocks may have been applied, so the next call starts from an empty index.
                        self._forget()
                        raise

    def writing(self, transaction: Transaction) -> Snapshot:
        """The index for the one writer. No other process can commit a block while its transaction is open."""
        self.check_blocks(transaction)
        self.follow(transaction)
        if self._applied != (transaction.generation, transaction.state.seq):
            raise CollectionError(f"{self._database.path} is behind what was read from it: open it again.")
        return Snapshot(transaction, self._index, self._columns)

    def apply_committed(self, block: Block, before: CollectionState, transaction: Transaction) -> None:
        """Apply a block that was just committed, without reading it from the file."""
        with self._lock.alone():
            if self._applied == (transaction.generation, before.seq):
                try:
                    self._apply_block(block)
                    self._applied = (transaction.generation, transaction.state.seq)
                except BaseException:
                    self._forget()
                    raise

    def renumbered(self, before: CollectionState, transaction: Transaction) -> None:
        """Take over the new numbers after the blocks were rewritten; their content is the same."""
        with self._lock.alone():
            if self._applied == (transaction.generation, before.seq):
                self._applied = (transaction.generation, transaction.state.seq)

    def blocks(self, transaction: Transaction, after: int) -> list[Block]:
        """The blocks with larger numbers, in order."""
        version = transaction.state.version
        query = _QUERY.format(columns="columns" if version > 1 else "x''")
        width = n_bytes(self._spec.n_bits)
        try:
            rows = transaction.db.execute(query, (after,))
            return [from_row(BlockRow(*row), width, len(self._paths), version) for row in rows]
        except DamagedBlockError as error:
            raise damaged(self._database.path, str(error)) from error

    def check_blocks(self, transaction: Transaction) -> None:
        """Notice blocks that are missing, or that are there although they were removed."""
        if transaction.state.version > 1 and block_sum(transaction.db) != transaction.state.block_sum:
            raise damaged(self._database.path, "blocks of codes are missing")

    def _forget(self) -> None:
        self._index = Index(self._spec.n_bits, self._spec.kind, **self._spec.settings)  # type: ignore[arg-type]
        self._columns = ColumnTable(self._paths) if self._paths else None
        self._applied = (-1, 0)

    def _catch_up(self, transaction: Transaction) -> None:
        generation, seq = self._applied
        if generation != transaction.generation or seq < transaction.state.base:
            self._forget()
            seq = 0
        self.check_blocks(transaction)
        blocks = self.blocks(transaction, seq)
        if seq == 0:
            self._apply_block(merged(blocks, n_bytes(self._spec.n_bits), keep_gone=False))
        else:
            for block in blocks:
                self._apply_block(block)
        if len(self._index) != transaction.state.rows:
            raise damaged(
                self._database.path, f"its blocks hold {len(self._index)} rows and not {transaction.state.rows}"
            )
        self._applied = (transaction.generation, transaction.state.seq)

    def _apply_block(self, block: Block) -> None:
        if len(block.gone):
            self._index.remove(block.gone)
            if self._columns is not None:
                self._columns.remove(block.gone)
        if len(block.ids):
            self._index.add(block.codes, block.ids)
            if self._columns is not None and block.columns is not None:
                self._columns.put(block.ids, block.columns)
