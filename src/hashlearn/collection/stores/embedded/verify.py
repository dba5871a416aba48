"""Verify: read all of an embedded collection's file and list everything that is wrong with it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from hashlearn.codes import n_bytes
from hashlearn.collection.store import CollectionError, CollectionSpec, VerifyReport
from hashlearn.collection.stores.embedded import columns
from hashlearn.collection.stores.embedded.blocks import Block, BlockRow, DamagedBlockError, from_row, merged
from hashlearn.collection.stores.embedded.database import Transaction
from hashlearn.collection.stores.embedded.schema import block_sum, payload_checksum, read_spec, vector_checksum
from hashlearn.collection.stores.embedded.tables import payload_of
from hashlearn.collection.where import split_path
from hashlearn.progress import report
from hashlearn.typing import Ids

_LISTED = 5  # problems of one kind that are listed one by one
_BATCH_ROWS = 10_000


def verify(transaction: Transaction, spec: CollectionSpec, path: Path) -> VerifyReport:
    """Check SQLite's own structure, then every row of every table, as of the moment of a transaction.

    ``spec`` is used only if that of the file is damaged: another process may have replaced the model meanwhile.
    """
    unreadable = []
    try:
        spec = read_spec(transaction.db, path, transaction.state)
    except (CollectionError, sqlite3.DatabaseError) as error:
        unreadable.append(str(error))
    check = _Check(transaction, spec, path)
    check.problems += unreadable
    check.structure()
    # One kind of damage must not hide the others.
    for part in (check.blocks, check.payloads, check.vectors):
        try:
            part()
        except sqlite3.DatabaseError as error:
            check.problems.append(f"{path} cannot be read: {error}.")
    return VerifyReport(transaction.state.rows, check.n_payloads, check.n_vectors, tuple(check.problems), ())


class _Check:
    """The problems found so far, and all blocks merged into one."""

    def __init__(self, transaction: Transaction, spec: CollectionSpec, path: Path) -> None:
        self.transaction, self.spec, self.path = transaction, spec, path
        self.problems: list[str] = []
        self.n_payloads = self.n_vectors = 0
        self.paths = [split_path(name) for name in spec.indexed]
        self.block: Block | None = None
        self.step = 0

    def structure(self) -> None:
        try:
            told = [row[0] for row in self.transaction.db.execute(f"PRAGMA integrity_check({_LISTED})")]
        except sqlite3.DatabaseError as error:
            told = [str(error)]
        self.problems += [f"SQLite finds {self.path} broken: {text}." for text in told if text != "ok"]

    def blocks(self) -> None:
        state = self.transaction.state
        query = "SELECT seq, size, checksum, ids, codes, gone, columns FROM block ORDER BY seq"
        good, entries, width = [], 0, n_bytes(self.spec.n_bits)
        for stored in map(BlockRow._make, self.transaction.db.execute(query)):
            try:
                good.append(from_row(stored, width, len(self.paths)))
                entries += len(good[-1])
            except DamagedBlockError as error:
                self.problems.append(f"{self.path}: {error}.")
        whole = merged(good, width, keep_gone=False)
        if block_sum(self.transaction.db) != state.block_sum:
            self.problems.append(f"{self.path}: blocks of codes are missing.")
        elif (len(whole), entries) != (state.rows, state.entries):
            self.problems.append(f"{self.path}: its blocks hold {len(whole)} rows and not {state.rows}.")
        elif len(whole.ids) and whole.ids[-1] > state.last_id:
            self.problems.append(f"{self.path}: it forgot that it has given out the id {whole.ids[-1]}.")
        else:
            self.block = whole

    def payloads(self) -> None:
        wrong, lost, others, total = [], [], [], 0
        for rows in self._batches("SELECT id, CAST(json AS BLOB), checksum FROM payload ORDER BY id", "payloads"):
            self.n_payloads += len(rows)
            total += sum(row[2] for row in rows if isinstance(row[2], int))
            payloads = [self._payload(*row) for row in rows]
            ids = np.array([row[0] for row in rows], dtype=np.int64)
            wrong += ids[[payload is None for payload in payloads]].tolist()
            if self.block is not None:
                known = np.isin(ids, self.block.ids)
                lost += ids[~known].tolist()
                whole = np.array([payload is not None for payload in payloads]) & known
                others += self._other_fields(self.block, ids[whole], [payloads[n] for n in np.flatnonzero(whole)])
        self._tell(wrong, "the payload of row {} does not match its checksum, or is no JSON object")
        self._tell(lost, "there is a payload for row {}, which does not exist")
        self._tell(others, "the indexed fields of row {} are not those of its payload")
        state = self.transaction.state
        self._compare_sums("payloads", (self.n_payloads, total), (state.payloads, state.payload_sum))

    def vectors(self) -> None:
        wrong, seen, total = [], [np.empty(0, dtype=np.int64)], 0
        for rows in self._batches("SELECT id, floats, checksum FROM vector ORDER BY id", "vectors"):
            self.n_vectors += len(rows)
            total += sum(row[2] for row in rows if isinstance(row[2], int))
            seen.append(np.array([row[0] for row in rows], dtype=np.int64))
            wrong += [row[0] for row in rows if not self._vector_is_whole(*row)]
        self._tell(wrong, "the vector of row {} does not match its checksum, or is cut short")
        if self.block is not None:
            found = np.concatenate(seen)
            if self.spec.vector_size is not None:
                self._tell(np.setdiff1d(self.block.ids, found).tolist(), "the vector of row {} is missing")
            lost = np.setdiff1d(found, self.block.ids)
            self._tell(lost.tolist(), "there is a vector for row {}, which does not exist")
        state = self.transaction.state
        self._compare_sums("vectors", (self.n_vectors, total), (state.vectors, state.vector_sum))

    def _payload(self, number: int, text: Any, stored: Any) -> Any:
        """Return the payload, or None when it is not as it was written."""
        if not isinstance(text, bytes) or payload_checksum(number, text) != stored:
            return None
        return payload_of(text)

    def _other_fields(self, block: Block, ids: Ids, payloads: list[Any]) -> list[int]:
        """Return which of these rows have other indexed fields in the blocks than in their payloads."""
        if block.columns is None:
            return []
        kept = block.columns.take(np.searchsorted(block.ids, ids))
        made = columns.of_payloads(payloads, len(payloads), self.paths)
        texts: dict[str, int] = {}
        same = (kept.kinds == made.kinds) & (columns.with_places(kept, texts) == columns.with_places(made, texts))
        return ids[~same.all(axis=1)].tolist()

    def _vector_is_whole(self, number: int, floats: Any, stored: Any) -> bool:
        # Without a size the vectors were set aside by a migration, and their model knows it.
        size = self.spec.vector_size
        if not isinstance(floats, bytes) or (size is not None and len(floats) != 4 * size):
            return False
        return vector_checksum(number, floats) == stored

    def _batches(self, query: str, what: str) -> Iterator[list[Any]]:
        cursor, done, total = self.transaction.db.execute(query), 0, self.transaction.state.rows
        while rows := cursor.fetchmany(_BATCH_ROWS):
            yield rows
            done += len(rows)
            report(f"verifying {what}", done, max(done, total))

    def _compare_sums(self, what: str, found: tuple[int, int], written: tuple[int, int]) -> None:
        """Compare the number of rows of a table and the sum of their checksums with those in the state."""
        if found != written:
            self.problems.append(
                f"{self.path}: its {what} are not those that were written ({found[0]} of {written[0]})."
            )

    def _tell(self, ids: list[int], sentence: str) -> None:
        self.problems += [f"{self.path}: {sentence.format(number)}." for number in ids[:_LISTED]]
        if len(ids) > _LISTED:
            self.problems.append(f"{self.path}: the same holds for {len(ids) - _LISTED} more rows.")
