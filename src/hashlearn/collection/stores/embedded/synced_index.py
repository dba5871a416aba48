"""The codes of an embedded collection in memory: an Index that is kept up to date with the blocks in the file."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from hashlearn.codes import n_bytes
from hashlearn.collection.store import CollectionError
from hashlearn.collection.stores.embedded.blocks import Block, BlockRow, DamagedBlockError, from_row, merged
from hashlearn.collection.stores.embedded.columns import ColumnTable
from hashlearn.collection.stores.embedded.database import Database, Transaction
from hashlearn.collection.stores.embedded.locks import SharedLock
from hashlearn.collection.stores.embedded.schema import CollectionState, block_sum, damaged
from hashlearn.collection.where import split_path
from hashlearn.index import Index

_QUERY = "SELECT seq, size, checksum, ids, codes, gone, columns FROM block WHERE seq > ? ORDER BY seq"
_BATCH_ROWS = 2**24
"""Rows whose blocks are merged before they are applied: removing rows from the index copies all that it has."""
_NOTHING = (-1, 0)  # less than every (generation, block number)


@dataclass(frozen=True)
class Snapshot:
    """A transaction, and the index and indexed fields as that transaction sees the collection."""

    transaction: Transaction
    index: Index
    columns: ColumnTable | None


class SyncedIndex:
    """An index, the indexed fields, and the last block applied to both: (generation of the file, block number)."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._spec = database.spec
        self._paths = [split_path(name) for name in self._spec.indexed]
        self._lock = SharedLock()
        self._applied = _NOTHING
        self._index, self._columns = self._new_index(), self._new_columns()

    @contextmanager
    def reading(self) -> Iterator[Snapshot]:
        """Yield a transaction and the index of the same moment; the index does not change meanwhile."""
        while True:
            with self._database.reading() as transaction, self.snapshot_of(transaction) as snapshot:
                if snapshot is not None:
                    yield snapshot
                    return

    @contextmanager
    def snapshot_of(self, transaction: Transaction) -> Iterator[Snapshot | None]:
        """Yield the index at the moment of a transaction.

        None if another thread has already applied later blocks to it.

        The caller then begins a new transaction.
        """
        self.follow(transaction)
        with self._lock.shared():
            try:
                same = self._applied == (transaction.generation, transaction.state.seq)
                if same:
                    self._check_rows(transaction)
                yield Snapshot(transaction, self._index, self._columns) if same else None
            except (CollectionError, ValueError):
                raise
            except BaseException:
                # Reading merges the parts of tables. The next call reads the file again instead of trusting them.
                self._applied = _NOTHING
                raise

    def follow(self, transaction: Transaction) -> None:
        """Apply the blocks that are in the file and not yet in the index."""
        wanted = (transaction.generation, transaction.state.seq)
        if self._applied < wanted:
            with self._lock.alone():
                if self._applied < wanted:
                    self._catch_up(transaction)

    def writing(self, transaction: Transaction) -> Snapshot:
        """Return the index for the one writer. No other process can commit a block while its transaction is open."""
        self.check_blocks(transaction)
        self.follow(transaction)
        if self._applied != (transaction.generation, transaction.state.seq):
            raise CollectionError(f"{self._database.path} is behind what was read from it: open it again.")
        self._check_rows(transaction)
        return Snapshot(transaction, self._index, self._columns)

    def apply_committed(self, block: Block, before: CollectionState, transaction: Transaction) -> None:
        """Apply a block that was just committed, without reading it from the file."""
        # The change is durable, so it must not fail because of a reader that takes long: the next call reads the block.
        with contextlib.suppress(TimeoutError), self._lock.alone():
            if self._applied == (transaction.generation, before.seq):
                self._applied = _NOTHING
                self._apply_block(block)
                self._applied = (transaction.generation, transaction.state.seq)

    def renumbered(self, before: CollectionState, transaction: Transaction) -> None:
        """Take over the new numbers after the blocks were rewritten; their content is the same."""
        with contextlib.suppress(TimeoutError), self._lock.alone():
            if self._applied == (transaction.generation, before.seq):
                self._applied = (transaction.generation, transaction.state.seq)

    def blocks(self, transaction: Transaction, after: int) -> Iterator[Block]:
        """Read the blocks with larger numbers, in order."""
        width = n_bytes(self._spec.n_bits)
        try:
            for row in transaction.db.execute(_QUERY, (after,)):
                yield from_row(BlockRow(*row), width, len(self._paths))
        except DamagedBlockError as error:
            raise damaged(self._database.path, str(error)) from error

    def all_rows(self, transaction: Transaction) -> Block:
        """Return all rows as one block, read from the file and checked."""
        self.check_blocks(transaction)
        whole = merged(list(self.blocks(transaction, 0)), n_bytes(self._spec.n_bits), keep_gone=False)
        if len(whole) != transaction.state.rows:
            raise damaged(self._database.path, f"its blocks hold {len(whole)} rows and not {transaction.state.rows}")
        return whole

    def check_blocks(self, transaction: Transaction) -> None:
        """Notice blocks that are missing, or that are there although they were removed."""
        if block_sum(transaction.db) != transaction.state.block_sum:
            raise damaged(self._database.path, "blocks of codes are missing")

    def _check_rows(self, transaction: Transaction) -> None:
        """Refuse to answer or to write from memory if it does not hold as many rows as the file."""
        rows = transaction.state.rows
        if len(self._index) != rows or (self._columns is not None and not self._columns.holds(rows)):
            self._applied = _NOTHING
            raise CollectionError(
                f"The rows of {self._database.path} in memory are not those of the file ({len(self._index)} and "
                f"{rows}): nothing was changed, and the next call reads them again, so repeat this one."
            )

    def _catch_up(self, transaction: Transaction) -> None:
        # If an exception comes before the end, what is in memory counts as nothing.
        (generation, seq), self._applied = self._applied, _NOTHING
        if generation != transaction.generation or seq < transaction.state.base:
            self._index, self._columns, seq = self._new_index(), self._new_columns(), 0
        self.check_blocks(transaction)
        batch: list[Block] = []
        for block in self.blocks(transaction, seq):
            batch.append(block)
            if sum(map(len, batch)) >= _BATCH_ROWS:
                self._apply_block(merged(batch, n_bytes(self._spec.n_bits)))
                batch = []
        if batch:
            self._apply_block(merged(batch, n_bytes(self._spec.n_bits)))
        if len(self._index) != transaction.state.rows:
            raise damaged(
                self._database.path, f"its blocks hold {len(self._index)} rows and not {transaction.state.rows}"
            )
        self._applied = (transaction.generation, transaction.state.seq)

    def _new_index(self) -> Index:
        return Index(self._spec.n_bits, self._spec.kind, **self._spec.settings)  # type: ignore[arg-type]

    def _new_columns(self) -> ColumnTable | None:
        return ColumnTable(self._paths) if self._paths else None

    def _apply_block(self, block: Block) -> None:
        if len(block.gone):
            self._index.remove(block.gone)
            if self._columns is not None:
                self._columns.remove(block.gone)
        if len(block.ids):
            self._index.add(block.codes, block.ids)
            if self._columns is not None and block.columns is not None:
                self._columns.put(block.ids, block.columns)
