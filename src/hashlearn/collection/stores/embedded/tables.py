"""The payloads and float vectors of an embedded collection: rows of JSON text and of bytes, with checksums."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from hashlearn.collection.store import Payload, Vectors, vectors_were_dropped
from hashlearn.collection.stores.embedded.database import Transaction
from hashlearn.collection.stores.embedded.schema import PAYLOAD_CHECKSUM, damaged, payload_checksum, vector_checksum
from hashlearn.typing import Ids

OF_IDS = "id IN (SELECT value FROM json_each(?))"
_LISTED_IDS = 2**20  # ids in one JSON text, which SQLite limits to a billion bytes


def payload_of(text: bytes | str) -> Payload | None:
    """Return the payload in a JSON text; None if it is not one that a collection could have written."""
    try:
        payload = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return payload if isinstance(payload, dict) else None


def listed(ids: Ids) -> tuple[str]:
    """Return ids as the parameter of OF_IDS: one JSON text, because SQLite limits the number of parameters."""
    return (json.dumps(ids.tolist()),)


def removed(transaction: Transaction, table: str, ids: Ids) -> tuple[int, int]:
    """Remove the rows with these ids from a table; return minus their number and minus the sum of their checksums."""
    count = checksums = 0
    for start in range(0, len(ids), _LISTED_IDS):
        some = listed(ids[start : start + _LISTED_IDS])
        query = f"SELECT count(*), COALESCE(sum(checksum), 0) FROM {table} WHERE {OF_IDS}"
        found = transaction.db.execute(query, some).fetchone()
        transaction.db.execute(f"DELETE FROM {table} WHERE {OF_IDS}", some)
        count, checksums = count - found[0], checksums - found[1]
    return count, checksums


class PayloadTable:
    """The table ``payload``: id, JSON text, checksum. Rows without a payload are not in it.

    Every payload is checked when it is read. A payload that is not found may be lost or may never have existed, and a
    filter in SQL reads payloads without checking them. So the table is checked as a whole before either of them is
    trusted, once per process.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._structure_checked = self._content_checked = -1

    def put(self, transaction: Transaction, ids: Ids, texts: Sequence[str]) -> None:
        """Add payloads to rows that have none. The empty payload "{}" is not stored."""
        rows = [
            (number, text, payload_checksum(number, text.encode()))
            for number, text in zip(ids.tolist(), texts, strict=True)
            if text != "{}"
        ]
        transaction.db.executemany("INSERT INTO payload VALUES (?, ?, ?)", rows)
        self._count(transaction, len(rows), sum(row[2] for row in rows))

    def remove(self, transaction: Transaction, ids: Ids) -> None:
        if transaction.state.payloads:
            self._count(transaction, *removed(transaction, "payload", ids))

    def read(self, transaction: Transaction, ids: Ids) -> list[Payload]:
        """Return the payloads of rows that exist; their ids must increase."""
        payloads: list[Payload] = [{} for _ in range(len(ids))]
        query = f"SELECT id, CAST(json AS BLOB), checksum FROM payload WHERE {OF_IDS}"
        found = transaction.db.execute(query, listed(ids)).fetchall()
        places = np.searchsorted(ids, [row[0] for row in found]).tolist()
        for place, (number, text, stored) in zip(places, found, strict=True):
            if not isinstance(text, bytes) or payload_checksum(number, text) != stored:
                raise damaged(self._path, f"the payload of row {number} does not match its checksum")
            payload = payload_of(text)
            if payload is None:
                raise damaged(self._path, f"the payload of row {number} is no JSON object, or is nested too deeply")
            payloads[place] = payload
        if len(found) < len(ids):
            self._check_missing(transaction)
        return payloads

    def check_all(self, transaction: Transaction) -> None:
        """Check all payloads before a filter in SQL reads them; done once per process."""
        if self._content_checked == transaction.generation:
            return
        query = f"SELECT count(*), COALESCE(sum(checksum), 0), COALESCE(sum({PAYLOAD_CHECKSUM} IS NOT checksum), 0)"
        count, checksums, wrong = transaction.db.execute(f"{query} FROM payload").fetchone()
        if wrong:
            raise damaged(self._path, f"{wrong} payloads do not match their checksums")
        self._check_sums(transaction, count, checksums)
        self._content_checked = transaction.generation

    def _check_missing(self, transaction: Transaction) -> None:
        """Check that no payload is lost, where a row without a payload was found."""
        state = transaction.state
        if not state.payloads or self._structure_checked == transaction.generation:
            return
        if state.payloads == state.rows:
            raise damaged(self._path, "payloads are missing")
        (told,) = transaction.db.execute("PRAGMA quick_check(payload)").fetchone()
        if told != "ok":
            raise damaged(self._path, f"the table of payloads is broken ({told})")
        query = "SELECT count(*), COALESCE(sum(checksum), 0) FROM payload"
        self._check_sums(transaction, *transaction.db.execute(query).fetchone())
        self._structure_checked = transaction.generation

    def _check_sums(self, transaction: Transaction, count: int, checksums: int) -> None:
        if (count, checksums) != (transaction.state.payloads, transaction.state.payload_sum):
            raise damaged(
                self._path, f"its payloads are not those that were written ({count} of {transaction.state.payloads})"
            )

    def _count(self, transaction: Transaction, count: int, checksums: int) -> None:
        state = transaction.state
        transaction.state = state._replace(payloads=state.payloads + count, payload_sum=state.payload_sum + checksums)


class VectorTable:
    """The table ``vector``: id, float32 bytes, checksum. Every row of a collection that keeps vectors is in it.

    A migration may set the vectors aside: they stay in the table until their rows are replaced or removed.
    """

    def __init__(self, path: Path, size: int) -> None:
        self._path = path
        self._size = size

    def put(self, transaction: Transaction, ids: Ids, vectors: Vectors) -> None:
        """Add the vectors of rows that have none."""
        floats = (row.tobytes() for row in np.asarray(vectors, dtype="<f4"))
        pairs = zip(ids.tolist(), floats, strict=True)
        rows = [(number, row, vector_checksum(number, row)) for number, row in pairs]
        transaction.db.executemany("INSERT INTO vector VALUES (?, ?, ?)", rows)
        self._count(transaction, len(rows), sum(row[2] for row in rows))

    def remove(self, transaction: Transaction, ids: Ids) -> None:
        if transaction.state.vectors:
            self._count(transaction, *removed(transaction, "vector", ids))

    def read(self, transaction: Transaction, ids: Ids) -> Vectors:
        """Return the vectors of rows that exist; their ids must increase."""
        query = f"SELECT id, floats, checksum FROM vector WHERE {OF_IDS} ORDER BY id"
        found = transaction.db.execute(query, listed(ids)).fetchall()
        if len(found) != len(ids):
            if transaction.db.execute("SELECT vector_size FROM spec").fetchone() == (None,):
                raise vectors_were_dropped()
            raise damaged(self._path, f"{len(ids) - len(found)} vectors are missing")
        for number, floats, stored in found:
            if not isinstance(floats, bytes) or len(floats) != 4 * self._size:
                raise damaged(self._path, f"the vector of row {number} is cut short")
            if vector_checksum(number, floats) != stored:
                raise damaged(self._path, f"the vector of row {number} does not match its checksum")
        data = b"".join(row[1] for row in found)
        return np.frombuffer(data, dtype="<f4").astype(np.float32).reshape(len(ids), self._size)

    def _count(self, transaction: Transaction, count: int, checksums: int) -> None:
        state = transaction.state
        transaction.state = state._replace(vectors=state.vectors + count, vector_sum=state.vector_sum + checksums)
