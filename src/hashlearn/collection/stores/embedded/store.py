"""Embedded storage: one SQLite file in a folder, and the codes in memory for searching.

docs/collections.md describes the file and its guarantees.

A collection for trying out is one in a temporary folder that is removed with it. SQLite's own databases in memory would
not do: transactions of several threads need several connections, and a file that stays the same behind them.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sqlite3
import tempfile
import weakref
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NoReturn

import numpy as np

from hashlearn.codes import n_bytes
from hashlearn.collection.rescore import rescored
from hashlearn.collection.store import (
    Answer,
    CollectionError,
    CollectionSpec,
    Include,
    Payload,
    PayloadUpdate,
    Query,
    Store,
    StoredRows,
    Vectors,
    VerifyReport,
    first_of_each,
    model_was_replaced,
    rows_have_changed,
    rows_without_vectors,
    update_blocks,
)
from hashlearn.collection.stores.embedded import columns
from hashlearn.collection.stores.embedded import folder as files
from hashlearn.collection.stores.embedded.blocks import Block, merged, to_merge, to_rows
from hashlearn.collection.stores.embedded.database import Database, Transaction, file_size
from hashlearn.collection.stores.embedded.filters import FilterCache
from hashlearn.collection.stores.embedded.folder import backup, restore
from hashlearn.collection.stores.embedded.schema import VERSION, block_sum, new_identity, read_spec, replace_spec
from hashlearn.collection.stores.embedded.synced_index import Snapshot, SyncedIndex
from hashlearn.collection.stores.embedded.tables import PayloadTable, VectorTable
from hashlearn.collection.stores.embedded.verify import verify
from hashlearn.collection.where import Condition, split_path
from hashlearn.index import Hits, Index, RangeHits
from hashlearn.parallel import row_blocks
from hashlearn.typing import Ids, PackedCodes

_FAN, _FULL_ROWS = 16, 65536  # this many similar blocks are merged; blocks of this many rows stay as they are
_FULL_BYTES = 2**26  # so do blocks of this many bytes
_TAIL = (
    "SELECT seq, size, length(ids) + length(codes) + length(gone) + length(columns) "
    "FROM block ORDER BY seq DESC LIMIT 80"
)
_REWRITTEN_ROWS = 2**20  # rows per block when all blocks are rewritten
_WASTE_ROWS = 200_000  # fewer outdated entries than this are not worth a rewrite
_LARGEST_ID = 2**63 - 1
_JSON = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


class EmbeddedStore(Store):
    """A collection in a folder. Changes are written to the file first and then applied to the index in memory."""

    batch_rows: ClassVar[int] = 64 * 2048

    def __init__(self, folder: Path, read_only: bool) -> None:
        self._folder = folder
        self._database = Database(folder, read_only)
        self.spec = self._database.spec
        self._paths = [split_path(name) for name in self.spec.indexed]
        self._following = SyncedIndex(self._database)
        self._payloads = PayloadTable(self._database.path)
        self._vectors = VectorTable(self._database.path, self.spec.vector_size or 0)
        self._filters = FilterCache(self._following, self._payloads)

    @classmethod
    def check_new(cls, uri: str, spec: CollectionSpec) -> None:
        Index(spec.n_bits, spec.kind, **spec.settings)  # type: ignore[arg-type]  # checks kind and settings

    @classmethod
    def create(cls, uri: str, spec: CollectionSpec) -> EmbeddedStore:
        cls.check_new(uri, spec)
        files.create(Path(uri), spec)
        return cls(Path(uri), read_only=False)

    @classmethod
    def open(cls, uri: str, read_only: bool = False) -> EmbeddedStore:
        return cls(Path(uri), read_only)

    @classmethod
    def drop(cls, uri: str) -> None:
        files.drop(Path(uri))

    def close(self) -> None:
        self._database.close()

    def add(self, ids: Ids, codes: PackedCodes, payloads: Sequence[Payload] | None, vectors: Vectors | None) -> None:
        if not len(ids):
            return
        order = np.argsort(ids, kind="stable")
        fields = columns.of_payloads(payloads, len(ids), self._paths).take(order) if self._paths else None
        block = Block(ids[order], codes[order], np.empty(0, dtype=np.int64), fields)
        texts = None if payloads is None else [_JSON.encode(payload) for payload in payloads]
        with self._database.writing() as transaction:
            before, index = transaction.state, self._following.writing(transaction).index
            known = index.known(block.ids)
            self._append(transaction, block, rows=int(len(ids) - known.sum()))
            self._payloads.remove(transaction, block.ids[known])
            if texts is not None:
                self._payloads.put(transaction, ids, texts)
            # Also vectors that were set aside: they are of the rows as they were.
            self._vectors.remove(transaction, block.ids[known])
            if vectors is not None:
                self._vectors.put(transaction, ids, vectors)
        self._following.apply_committed(block, before, transaction)
        self._tidy(transaction)

    def update_payloads(self, update: PayloadUpdate) -> int:
        updated = 0
        with self._database.writing() as transaction:
            snapshot, wanted = self._following.writing(transaction), update.wanted
            if wanted is not None and not isinstance(wanted, np.ndarray):
                wanted = self._filters.evaluate(snapshot, wanted)
            ids = snapshot.index.rows(wanted)[0]
            blocks = (self._rows(transaction, *snapshot.index.rows(part)) for part in update_blocks(ids))
            for rows in update.changed(blocks):
                # Indexed fields are kept in blocks, and remembered filters look for changed rows there.
                fields = columns.of_payloads(rows.payloads, len(rows.ids), self._paths) if self._paths else None
                self._append(transaction, Block(rows.ids, rows.codes, rows.ids[:0], fields), rows=0)
                self._payloads.remove(transaction, rows.ids)
                self._payloads.put(transaction, rows.ids, [_JSON.encode(payload) for payload in rows.payloads])
                updated += len(rows.ids)
        # The next call applies these blocks to the index, from the file; codes are the same until then.
        self._tidy(transaction)
        return updated

    def delete(self, wanted: Ids | Condition) -> int:
        wanted = np.unique(wanted) if isinstance(wanted, np.ndarray) else wanted
        with self._database.writing() as transaction:
            snapshot = self._following.writing(transaction)
            ids = wanted if isinstance(wanted, np.ndarray) else self._filters.evaluate(snapshot, wanted)
            ids = ids[snapshot.index.known(ids)]
            if not len(ids):
                return 0
            fields = columns.of_payloads(None, 0, self._paths) if self._paths else None
            block = Block(ids[:0], np.empty((0, n_bytes(self.spec.n_bits)), dtype=np.uint8), ids, fields)
            before = transaction.state
            self._append(transaction, block, rows=-len(ids))
            self._payloads.remove(transaction, ids)
            self._vectors.remove(transaction, ids)
        self._following.apply_committed(block, before, transaction)
        self._tidy(transaction)
        return len(ids)

    def get(self, ids: Ids, vectors: bool = False) -> StoredRows:
        with self._following.reading() as snapshot:
            return self._rows(snapshot.transaction, *snapshot.index.rows(ids), vectors)

    def count(self, where: Condition | None = None) -> int:
        if where is None:
            with self._database.reading() as transaction:
                return transaction.state.rows
        with self._following.reading() as snapshot:
            return len(self._filters.ids(snapshot, where))

    def take_ids(self, count: int) -> int:
        with self._database.writing() as transaction:
            last = transaction.state.last_id
            if last + count > _LARGEST_ID:
                raise CollectionError(f"There are no {count} ids after {last} in {self._folder}: give ids.")
            transaction.state = transaction.state._replace(last_id=last + count)
        return last + 1

    def search(self, query: Query, k: int) -> Answer[Hits]:
        cut, plan = 0, query.rescoring
        with self._following.reading() as snapshot:
            ids, index = None if query.where is None else self._filters.ids(snapshot, query.where), snapshot.index
            if plan is None:
                found = index.search(query.values, k, ids, query.n_jobs)
            else:
                ask = partial(index.search, ids=ids, n_jobs=query.n_jobs)
                found, cut = rescored(query.values, plan, k, ask, partial(self._vectors_of, snapshot))
            return Answer(found, self._details(snapshot, found.ids, query.include), cut)

    def within(self, query: Query, radius: float, limit: int | None = None) -> Answer[RangeHits]:
        reach = {"radius": int(radius)} if query.by_bits else {"least_score": -radius}
        with self._following.reading() as snapshot:
            ids = None if query.where is None else self._filters.ids(snapshot, query.where)
            found = snapshot.index.within(query.values, ids=ids, n_jobs=query.n_jobs, **reach)
            found = first_of_each(found, limit)
            return Answer(found, self._details(snapshot, found.ids, query.include))

    def _details(self, snapshot: Snapshot, ids: Ids, include: Collection[Include]) -> StoredRows | None:
        """Return what was asked for of rows that were found; empty places have negative ids."""
        if not include:
            return None
        found = np.unique(ids)
        found = found[np.searchsorted(found, 0) :]
        codes = snapshot.index.rows(found)[1] if "code" in include else np.empty((0, 0), dtype=np.uint8)
        return self._rows(snapshot.transaction, found, codes, "vector" in include, "payload" in include)

    def _vectors_of(self, snapshot: Snapshot, ids: Ids) -> tuple[Ids, Vectors]:
        return ids, self._vectors.read(snapshot.transaction, ids)

    def scan(
        self, batch_rows: int = 10_000, where: Condition | None = None, vectors: bool = False, after: int = -1
    ) -> Iterator[StoredRows]:
        while True:
            with self._database.reading() as transaction:
                with self._following.snapshot_of(transaction) as snapshot:
                    if snapshot is None:
                        continue
                    wanted = None if where is None else self._filters.ids(snapshot, where)
                    ids, codes = snapshot.index.rows(wanted)
                    codes = codes.copy() if where is None else codes  # the index may change its array in place
                # The transaction stays open, so payloads are read as of the same moment, also if the index moves on.
                first = int(np.searchsorted(ids, after, side="right"))
                for start in range(first, len(ids), batch_rows):
                    block = slice(start, start + batch_rows)
                    yield self._rows(transaction, ids[block], codes[block], vectors)
                return

    def replace_model(self, model: bytes, fingerprint: str, vector_size: int | None) -> None:
        def check(moment: Transaction) -> None:
            missing = 0 if vector_size is None else moment.state.rows - moment.state.vectors
            if missing:
                raise rows_without_vectors(self._folder, missing)

        self._replace_spec(replace(self.spec, model=model, fingerprint=fingerprint, vector_size=vector_size), check)

    def replace_codes(self, model: bytes, fingerprint: str, ids: Ids, codes: PackedCodes) -> None:
        def put(moment: Transaction) -> None:
            whole = self._following.all_rows(moment)
            if not np.array_equal(whole.ids, ids):
                raise rows_have_changed(self._folder)
            self._write_all(moment, Block(whole.ids, codes, whole.gone, whole.columns))
            # Processes that know the former identity find another spec behind this one, and say so.
            moment.state = moment.state._replace(identity=new_identity())

        spec = replace(self.spec, model=model, fingerprint=fingerprint)
        self._database.upcoming = spec
        try:
            self._replace_spec(spec, put)
        finally:
            self._database.upcoming = None

    def _replace_spec(self, spec: CollectionSpec, change: Callable[[Transaction], None]) -> None:
        """Replace the spec and change rows in one transaction."""
        try:
            with self._database.writing() as moment:
                if read_spec(moment.db, self._database.path, moment.state).fingerprint != self.spec.fingerprint:
                    raise model_was_replaced(self._folder)
                change(moment)
                # The state changes even if the spec is the same: then the loss of this commit would be noticed.
                state = replace_spec(moment.db, spec, moment.state)
                moment.state = state._replace(commits=state.commits + 1)
            self._use_spec(spec)
        except CollectionError:
            raise
        except BaseException:
            # The exception may have come after the commit.
            with self._database.reading() as moment:
                found = read_spec(moment.db, self._database.path, moment.state)
            if found.model == spec.model:
                self._use_spec(found)
            raise

    def _use_spec(self, spec: CollectionSpec) -> None:
        vectors = VectorTable(self._database.path, spec.vector_size or 0)
        # One statement without a call, so that no interrupt comes between these.
        self.spec, self._database.spec, self._vectors = spec, spec, vectors

    def verify(self) -> VerifyReport:
        with self._database.reading() as transaction:
            return verify(transaction, self.spec, self._database.path)

    def compact(self) -> None:
        with self._database.reading() as transaction:
            outdated = transaction.state.entries > transaction.state.rows
        if outdated:
            self._rewrite()
        self._database.vacuum()

    def backup(self, path: str) -> None:
        with self._database.reading() as transaction:
            backup(transaction, Path(path))

    @classmethod
    def restore(cls, path: str, uri: str, replace: bool) -> None:
        restore(Path(path), Path(uri), replace)

    def info(self) -> dict[str, Any]:
        with self._database.reading() as transaction:
            blocks = transaction.db.execute("SELECT count(*) FROM block").fetchone()[0]
        files = [self._database.path, Path(f"{self._database.path}-wal")]
        return {
            "storage": "embedded",
            "rows": transaction.state.rows,
            "next_id": transaction.state.last_id + 1,
            "bytes": sum(map(file_size, files)),
            "blocks": blocks,
            "format": VERSION,
            "version": f"{transaction.state.identity:x}.{transaction.state.commits}",
            "sqlite": sqlite3.sqlite_version,
        }

    def _append(self, transaction: Transaction, block: Block, rows: int) -> None:
        """Write a block after the last one, and merge small blocks at the end."""
        db, state = transaction.db, transaction.state
        grown, new = len(block), state.seq + 1
        seq = self._insert(db, new, block)
        if len(block) < _FULL_ROWS:
            tail = db.execute(_TAIL).fetchall()[::-1]
            sizes = [max(size, _FULL_ROWS if n > _FULL_BYTES else 0) for _, size, n in tail]
            count = to_merge(sizes, _FAN, _FULL_ROWS)
            if count:
                first = tail[-count][0]
                whole = merged(list(self._following.blocks(transaction, first - 1)), n_bytes(self.spec.n_bits))
                db.execute("DELETE FROM block WHERE seq >= ?", (first,))
                # No reader has applied the new number yet, so every reader will apply all parts of the merged block.
                seq = self._insert(db, new, whole)
                grown += len(whole) - sum(size for _, size, _ in tail[-count:])
        last = int(block.ids[-1]) if len(block.ids) else -1
        transaction.state = state._replace(
            seq=seq,
            rows=state.rows + rows,
            entries=state.entries + grown,
            last_id=max(state.last_id, last),
            block_sum=block_sum(db),
        )

    def _insert(self, db: sqlite3.Connection, seq: int, block: Block) -> int:
        """Write a block with this number, or its parts with this and the following ones; return the last number."""
        rows = to_rows(seq, block)
        db.executemany("INSERT INTO block VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
        return rows[-1].seq

    def _tidy(self, transaction: Transaction) -> None:
        """Rewrite the blocks if more than half of their entries are outdated."""
        if transaction.state.entries - 2 * transaction.state.rows >= _WASTE_ROWS:
            # The change itself is durable, so an error while tidying up (such as a full disk) must not make it fail.
            with contextlib.suppress(CollectionError):
                self._rewrite()

    def _rewrite(self) -> None:
        """Rewrite all blocks without outdated entries."""
        with self._database.writing() as transaction:
            before = transaction.state
            # The new blocks are made from the old ones, because the index in memory has no checksums.
            self._write_all(transaction, self._following.all_rows(transaction))
        self._following.renumbered(before, transaction)

    def _write_all(self, transaction: Transaction, whole: Block) -> None:
        """Write all rows in place of the blocks that are there."""
        before = transaction.state
        transaction.db.execute("DELETE FROM block")
        seq = before.seq
        for rows in row_blocks(len(whole.ids), _REWRITTEN_ROWS):
            fields = None if whole.columns is None else whole.columns.take(np.arange(rows.start, rows.stop))
            seq = self._insert(transaction.db, seq + 1, Block(whole.ids[rows], whole.codes[rows], whole.gone, fields))
        seq = max(seq, before.seq + 1)
        transaction.state = before._replace(seq=seq, base=seq, entries=before.rows, block_sum=block_sum(transaction.db))

    def _rows(
        self, transaction: Transaction, ids: Ids, codes: PackedCodes, vectors: bool = False, payloads: bool = True
    ) -> StoredRows:
        """Return rows that exist."""
        kept = self._vectors.read(transaction, ids) if vectors and self.spec.vector_size is not None else None
        return StoredRows(ids, codes, self._payloads.read(transaction, ids) if payloads else [], kept)


class TemporaryStore(EmbeddedStore):
    """An embedded store whose folder is removed when it is closed or collected as garbage, or when Python ends."""

    def __init__(self, folder: Path, read_only: bool) -> None:
        super().__init__(folder, read_only)
        self._database.name = ":memory:"
        # The finalizer must not hold the store itself, which would then never be garbage. It holds its database.
        self._remove = weakref.finalize(self, _remove, folder, self._database.close, os.getpid())

    @classmethod
    def create(cls, uri: str, spec: CollectionSpec) -> EmbeddedStore:
        try:
            folder = tempfile.mkdtemp(prefix="hashlearn-")
        except OSError as error:
            raise CollectionError(f"Cannot make a temporary folder: {error.strerror or error}.") from error
        try:
            return super().create(folder, spec)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise

    @classmethod
    def open(cls, uri: str, read_only: bool = False) -> NoReturn:
        raise CollectionError(
            f"{uri} cannot be opened, because a collection in memory exists only in the object that Collection.create "
            "returned: use it, or give a folder."
        )

    @classmethod
    def exists(cls, uri: str) -> bool:
        return False  # each one is new

    @classmethod
    def drop(cls, uri: str) -> NoReturn:
        raise CollectionError(f"{uri} cannot be dropped: a collection in memory is removed when it is closed.")

    @classmethod
    def restore(cls, path: str, uri: str, replace: bool) -> NoReturn:
        raise CollectionError(f"A backup cannot be restored to {uri}: give a folder.")

    def close(self) -> None:
        self._remove()


def _remove(folder: Path, close: Callable[[], None], process: int) -> None:
    # A forked child runs finalizers too when it ends, and the folder is still in use in its parent.
    if os.getpid() == process:
        close()
        shutil.rmtree(folder, ignore_errors=True)
