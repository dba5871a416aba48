"""Embedded storage: one SQLite file in a folder, and the codes in memory for searching.

docs/collections.md describes the file and its guarantees.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from hashlearn.codes import n_bytes
from hashlearn.collection.embedded import columns
from hashlearn.collection.embedded import folder as files
from hashlearn.collection.embedded.backup import backup, restore
from hashlearn.collection.embedded.blocks import Block, merged, to_merge, to_row
from hashlearn.collection.embedded.connection import file_size
from hashlearn.collection.embedded.database import Database, Transaction
from hashlearn.collection.embedded.following_index import FollowingIndex
from hashlearn.collection.embedded.kept_filters import KeptFilters
from hashlearn.collection.embedded.payloads import PayloadTable
from hashlearn.collection.embedded.schema import block_sum, read_spec, replace_spec
from hashlearn.collection.embedded.vectors import VectorTable
from hashlearn.collection.embedded.verify import verify
from hashlearn.collection.store import (
    CollectionError,
    CollectionSpec,
    Payload,
    PayloadChange,
    Store,
    StoredRows,
    UnsupportedByStoreError,
    Vectors,
    VerifyReport,
    model_was_replaced,
    rows_without_vectors,
    update_blocks,
)
from hashlearn.collection.where import Condition, split_path
from hashlearn.index import Ball, Hits, Index
from hashlearn.index.inputs import sorted_ball
from hashlearn.index.kinds import KINDS
from hashlearn.typing import Ids, PackedCodes

_FAN, _FULL_ROWS = 16, 65536  # this many similar blocks are merged; blocks of this many rows stay as they are
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
        self._following = FollowingIndex(self._database)
        self._payloads = PayloadTable(self._database.path)
        self._vectors = VectorTable(self._database.path, self.spec.vector_size or 0)
        self._filters = KeptFilters(self._following, self._payloads)

    @classmethod
    def create(cls, uri: str, spec: CollectionSpec) -> EmbeddedStore:
        Index(spec.n_bits, spec.kind, **spec.settings)  # type: ignore[arg-type]  # checks kind and settings
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
            self._check_kind(index, block, known)
            self._append(transaction, block, rows=int(len(ids) - known.sum()))
            self._payloads.remove(transaction, block.ids[known])
            if texts is not None:
                self._payloads.put(transaction, ids, texts)
            if vectors is None:
                # Vectors that were set aside are of the rows as they were.
                self._vectors.remove(transaction, block.ids[known])
            else:
                self._vectors.put(transaction, ids, vectors)
        self._following.apply_committed(block, before, transaction)
        self._tidy(transaction)

    def update_payloads(self, wanted: Ids | Condition | None, change: PayloadChange) -> int:
        updated = 0
        with self._database.writing() as transaction:
            snapshot = self._following.writing(transaction)
            if wanted is not None and not isinstance(wanted, np.ndarray):
                wanted = self._filters.evaluate(snapshot, wanted)
            ids = snapshot.index.rows(wanted)[0]
            blocks = (self._rows(transaction, *snapshot.index.rows(part), False) for part in update_blocks(ids))
            for rows in change(blocks):
                # Indexed fields are kept in blocks, and remembered filters look for changed rows there.
                fields = columns.of_payloads(rows.payloads, len(rows.ids), self._paths) if self._paths else None
                self._append(transaction, Block(rows.ids, rows.codes, rows.ids[:0], fields), rows=0)
                self._payloads.remove(transaction, rows.ids)
                self._payloads.put(transaction, rows.ids, [_JSON.encode(payload) for payload in rows.payloads])
                updated += len(rows.ids)
        # The next call applies these blocks to the index, from the file; codes are the same until then.
        self._tidy(transaction)
        return updated

    def delete(self, ids: Ids) -> int:
        return self._delete(np.unique(ids))

    def delete_where(self, where: Condition) -> int:
        return self._delete(where)

    def _delete(self, wanted: Ids | Condition) -> int:
        with self._database.writing() as transaction:
            snapshot = self._following.writing(transaction)
            ids = wanted if isinstance(wanted, np.ndarray) else self._filters.evaluate(snapshot, wanted)
            ids = ids[snapshot.index.known(ids)]
            if not len(ids):
                return 0
            fields = columns.of_payloads(None, 0, self._paths) if self._paths else None
            block = Block(ids[:0], np.empty((0, n_bytes(self.spec.n_bits)), dtype=np.uint8), ids, fields)
            self._check_kind(snapshot.index, block, np.zeros(0, dtype=bool))
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

    def vectors(self, ids: Ids) -> tuple[Ids, Vectors]:
        with self._following.reading() as snapshot:
            known = snapshot.index.rows(ids)[0]
            return known, self._vectors.read(snapshot.transaction, known)

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

    def search(self, queries: PackedCodes, k: int, where: Condition | None = None, n_jobs: int | None = None) -> Hits:
        return self._search(queries, k, where, n_jobs)

    def search_projections(
        self, queries: NDArray[np.floating], k: int, where: Condition | None = None, n_jobs: int | None = None
    ) -> Hits:
        return self._search(queries, k, where, n_jobs)

    def _search(self, queries: NDArray[Any], k: int, where: Condition | None, n_jobs: int | None) -> Hits:
        with self._following.reading() as snapshot:
            ids = None if where is None else self._filters.ids(snapshot, where)
            return snapshot.index.search(queries, k, ids=ids, n_jobs=n_jobs)

    def within(
        self, queries: PackedCodes, radius: int, where: Condition | None = None, n_jobs: int | None = None
    ) -> Ball:
        with self._following.reading() as snapshot:
            ball = snapshot.index.within(queries, radius, n_jobs)
            if where is None or not len(ball.ids):
                return ball
            keep = np.isin(ball.ids, self._filters.ids(snapshot, where))
        ends = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(keep)])
        return sorted_ball([(ends[ball.lims], ball.distances[keep], ball.ids[keep])])

    def scan(
        self, batch_rows: int = 10_000, where: Condition | None = None, vectors: bool = False
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
                for start in range(0, len(ids), batch_rows):
                    block = slice(start, start + batch_rows)
                    yield self._rows(transaction, ids[block], codes[block], vectors)
                return

    def replace_model(self, model: bytes, fingerprint: str, vector_size: int | None) -> None:
        with self._database.writing() as moment:
            if read_spec(moment.db, self._database.path).fingerprint != self.spec.fingerprint:
                raise model_was_replaced(self._folder)
            missing = 0 if vector_size is None else moment.state.rows - self._vectors.count(moment)
            if missing:
                raise rows_without_vectors(self._folder, missing)
            spec = replace(self.spec, model=model, fingerprint=fingerprint, vector_size=vector_size)
            replace_spec(moment.db, spec)
            # A change of the count makes this a commit whose loss would be noticed.
            moment.state = moment.state._replace(commits=moment.state.commits + 1)
        self.spec = self._database.spec = spec
        self._vectors = VectorTable(self._database.path, vector_size or 0)

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
            "format": transaction.state.version,
            "version": f"{transaction.state.identity:x}.{transaction.state.commits}",
            "sqlite": sqlite3.sqlite_version,
        }

    def _append(self, transaction: Transaction, block: Block, rows: int) -> None:
        """Write a block after the last one, and merge small blocks at the end."""
        db, state = transaction.db, transaction.state
        seq, grown = state.seq + 1, len(block)
        self._insert(db, seq, block)
        if len(block) < _FULL_ROWS:
            tail = db.execute("SELECT seq, size FROM block ORDER BY seq DESC LIMIT 80").fetchall()[::-1]
            count = to_merge([size for _, size in tail], _FAN, _FULL_ROWS)
            if count:
                first = tail[-count][0]
                whole = merged(self._following.blocks(transaction, first - 1), n_bytes(self.spec.n_bits))
                db.execute("DELETE FROM block WHERE seq >= ?", (first,))
                self._insert(db, seq, whole)
                grown += len(whole) - sum(size for _, size in tail[-count:])
        last = int(block.ids[-1]) if len(block.ids) else -1
        transaction.state = state._replace(
            seq=seq,
            rows=state.rows + rows,
            entries=state.entries + grown,
            last_id=max(state.last_id, last),
            block_sum=block_sum(db),
        )

    def _insert(self, db: sqlite3.Connection, seq: int, block: Block) -> None:
        db.execute("INSERT INTO block VALUES (?, ?, ?, ?, ?, ?, ?)", to_row(seq, block))

    def _tidy(self, transaction: Transaction) -> None:
        """Rewrite the blocks if more than half of their entries are outdated."""
        if transaction.state.entries - 2 * transaction.state.rows >= _WASTE_ROWS:
            # The change itself is durable, so an error while tidying up (such as a full disk) must not make it fail.
            with contextlib.suppress(CollectionError):
                self._rewrite()

    def _rewrite(self) -> None:
        """Rewrite all blocks without outdated entries."""
        with self._database.writing() as transaction:
            before, snapshot = transaction.state, self._following.writing(transaction)
            ids, codes = snapshot.index.rows()
            transaction.db.execute("DELETE FROM block")
            seq = before.seq
            for start in range(0, len(ids), _REWRITTEN_ROWS):
                part, seq = slice(start, start + _REWRITTEN_ROWS), seq + 1
                fields = None if snapshot.columns is None else snapshot.columns.part(part)
                self._insert(transaction.db, seq, Block(ids[part], codes[part], ids[:0], fields))
            seq = max(seq, before.seq + 1)
            transaction.state = before._replace(
                seq=seq, base=seq, entries=before.rows, block_sum=block_sum(transaction.db)
            )
        self._following.renumbered(before, transaction)

    def _check_kind(self, index: Index, block: Block, known: NDArray[np.bool_]) -> None:
        """Refuse what this kind of index cannot do before anything is written."""
        if self.spec.kind not in KINDS or KINDS[self.spec.kind].removes:
            return
        changed = (index.rows(block.ids[known])[1] != block.codes[known]).any(axis=1)
        if len(block.gone) or changed.any():
            what = "remove" if len(block.gone) else "replace"
            number = block.gone[0] if len(block.gone) else block.ids[known][changed][0]
            raise UnsupportedByStoreError(
                f"A collection of kind {self.spec.kind!r} cannot {what} rows (id {number}): "
                "use the kind 'flat', 'ivf' or 'multihash', or a new collection."
            )

    def _rows(self, transaction: Transaction, ids: Ids, codes: PackedCodes, vectors: bool) -> StoredRows:
        """Payloads and vectors of rows that exist."""
        kept = self._vectors.read(transaction, ids) if vectors and self.spec.vector_size is not None else None
        return StoredRows(ids, codes, self._payloads.read(transaction, ids), kept)
