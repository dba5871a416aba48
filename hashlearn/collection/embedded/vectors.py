"""The float vectors of an embedded collection: rows of bytes, each with its checksum."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from hashlearn.collection.embedded.database import Transaction
from hashlearn.collection.embedded.payloads import OF_IDS, listed
from hashlearn.collection.embedded.schema import vector_checksum
from hashlearn.collection.embedded.state import damaged
from hashlearn.collection.store import Vectors, vectors_were_dropped
from hashlearn.typing import Ids


class VectorTable:
    """The table ``vector``: id, float32 bytes, checksum. Every row of a collection that keeps vectors is in it.

    A migration may set the vectors aside: they stay in the table until their rows are replaced or removed.
    """

    def __init__(self, path: Path, size: int) -> None:
        self._path = path
        self._size = size

    def put(self, transaction: Transaction, ids: Ids, vectors: Vectors) -> None:
        """Add or replace the vectors of rows."""
        floats = (row.tobytes() for row in np.asarray(vectors, dtype="<f4"))
        rows = ((number, row, vector_checksum(number, row)) for number, row in zip(ids.tolist(), floats, strict=True))
        transaction.db.executemany("INSERT OR REPLACE INTO vector VALUES (?, ?, ?)", rows)

    def remove(self, transaction: Transaction, ids: Ids) -> None:
        transaction.db.execute(f"DELETE FROM vector WHERE {OF_IDS}", listed(ids))

    def count(self, transaction: Transaction) -> int:
        return int(transaction.db.execute("SELECT count(*) FROM vector").fetchone()[0])

    def read(self, transaction: Transaction, ids: Ids) -> Vectors:
        """Return the vectors of rows that exist; their ids must increase."""
        checksum = "checksum" if transaction.state.version > 1 else "NULL"
        query = f"SELECT id, floats, {checksum} FROM vector WHERE {OF_IDS} ORDER BY id"
        found = transaction.db.execute(query, listed(ids)).fetchall()
        if len(found) != len(ids):
            if transaction.db.execute("SELECT vector_size FROM spec").fetchone() == (None,):
                raise vectors_were_dropped()
            raise damaged(self._path, f"{len(ids) - len(found)} vectors are missing")
        for number, floats, stored in found:
            if not isinstance(floats, bytes) or len(floats) != 4 * self._size:
                raise damaged(self._path, f"the vector of row {number} is cut short")
            if transaction.state.version > 1 and vector_checksum(number, floats) != stored:
                raise damaged(self._path, f"the vector of row {number} does not match its checksum")
        data = b"".join(row[1] for row in found)
        return np.frombuffer(data, dtype="<f4").astype(np.float32).reshape(len(ids), self._size)
