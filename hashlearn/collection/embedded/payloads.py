"""The payloads of an embedded collection: rows of JSON text, each with its checksum."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from hashlearn.collection.embedded.database import Transaction
from hashlearn.collection.embedded.schema import PAYLOAD_CHECKSUM, payload_checksum
from hashlearn.collection.embedded.state import damaged
from hashlearn.collection.store import Payload
from hashlearn.typing import Ids

OF_IDS = "id IN (SELECT value FROM json_each(?))"


def listed(ids: Ids) -> tuple[str]:
    """Ids as the parameter of OF_IDS: one JSON text, because SQLite limits the number of parameters."""
    return (json.dumps(ids.tolist()),)


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
        if not len(ids) or not transaction.state.payloads:
            return
        query = f"SELECT count(*), COALESCE(sum(checksum), 0) FROM payload WHERE {OF_IDS}"
        count, checksums = transaction.db.execute(query, listed(ids)).fetchone()
        transaction.db.execute(f"DELETE FROM payload WHERE {OF_IDS}", listed(ids))
        self._count(transaction, -count, -checksums)

    def read(self, transaction: Transaction, ids: Ids) -> list[Payload]:
        """Return the payloads of rows that exist; their ids must increase."""
        payloads: list[Payload] = [{} for _ in range(len(ids))]
        checksum = "checksum" if transaction.state.version > 1 else "NULL"
        query = f"SELECT id, CAST(json AS BLOB), {checksum} FROM payload WHERE {OF_IDS}"
        found = transaction.db.execute(query, listed(ids)).fetchall()
        places = np.searchsorted(ids, [row[0] for row in found]).tolist()
        for place, (number, text, stored) in zip(places, found, strict=True):
            try:
                if transaction.state.version > 1 and payload_checksum(number, text) != stored:
                    raise damaged(self._path, f"the payload of row {number} does not match its checksum")
                payloads[place] = json.loads(text)
            except (ValueError, TypeError):
                raise damaged(self._path, f"the payload of row {number} is no JSON text") from None
        if len(found) < len(ids):
            self._check_missing(transaction)
        return payloads

    def check_all(self, transaction: Transaction) -> None:
        """Check all payloads before a filter in SQL reads them; done once per process."""
        if transaction.state.version == 1 or self._content_checked == transaction.generation:
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
        if state.version == 1 or not state.payloads or self._structure_checked == transaction.generation:
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
