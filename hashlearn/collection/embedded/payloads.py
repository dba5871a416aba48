"""The payloads of an embedded collection: rows of JSON text, each with its checksum."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from hashlearn.collection.embedded.database import Moment
from hashlearn.collection.embedded.schema import PAYLOAD_CHECKSUM, payload_checksum
from hashlearn.collection.embedded.state import damaged
from hashlearn.collection.store import Payload
from hashlearn.typing import Ids

OF_IDS = "id IN (SELECT value FROM json_each(?))"


def listed(ids: Ids) -> tuple[str]:
    """Ids as the value of OF_IDS: one text, however many they are."""
    return (json.dumps(ids.tolist()),)


class PayloadTable:
    """The table ``payload``: id, JSON text, checksum. Rows without a payload are not in it.

    A payload that is read is checked. A payload that is not found may never have been there, or be lost; and a filter
    in SQL looks at all of them. Both are trusted only after the table was checked as a whole, once in a process.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._structure_checked = self._content_checked = -1

    def put(self, moment: Moment, ids: Ids, texts: Sequence[str]) -> None:
        """Add payloads to rows that have none; "{}" is none."""
        rows = [
            (number, text, payload_checksum(number, text.encode()))
            for number, text in zip(ids.tolist(), texts, strict=True)
            if text != "{}"
        ]
        moment.db.executemany("INSERT INTO payload VALUES (?, ?, ?)", rows)
        self._count(moment, len(rows), sum(row[2] for row in rows))

    def remove(self, moment: Moment, ids: Ids) -> None:
        if not len(ids) or not moment.state.payloads:
            return
        query = f"SELECT count(*), COALESCE(sum(checksum), 0) FROM payload WHERE {OF_IDS}"
        count, checksums = moment.db.execute(query, listed(ids)).fetchone()
        moment.db.execute(f"DELETE FROM payload WHERE {OF_IDS}", listed(ids))
        self._count(moment, -count, -checksums)

    def read(self, moment: Moment, ids: Ids) -> list[Payload]:
        """The payloads of rows that exist, in the order of their increasing ids."""
        payloads: list[Payload] = [{} for _ in range(len(ids))]
        checksum = "checksum" if moment.state.version > 1 else "NULL"
        query = f"SELECT id, CAST(json AS BLOB), {checksum} FROM payload WHERE {OF_IDS}"
        found = moment.db.execute(query, listed(ids)).fetchall()
        places = np.searchsorted(ids, [row[0] for row in found]).tolist()
        for place, (number, text, stored) in zip(places, found, strict=True):
            try:
                if moment.state.version > 1 and payload_checksum(number, text) != stored:
                    raise damaged(self._path, f"the payload of row {number} does not match its checksum")
                payloads[place] = json.loads(text)
            except (ValueError, TypeError):
                raise damaged(self._path, f"the payload of row {number} is no JSON text") from None
        if len(found) < len(ids):
            self._check_missing(moment)
        return payloads

    def check_all(self, moment: Moment) -> None:
        """Check all payloads, once in a process: before a filter in SQL looks at them."""
        if moment.state.version == 1 or self._content_checked == moment.generation:
            return
        query = f"SELECT count(*), COALESCE(sum(checksum), 0), COALESCE(sum({PAYLOAD_CHECKSUM} IS NOT checksum), 0)"
        count, checksums, wrong = moment.db.execute(f"{query} FROM payload").fetchone()
        if wrong:
            raise damaged(self._path, f"{wrong} payloads do not match their checksums")
        self._check_sums(moment, count, checksums)
        self._content_checked = moment.generation

    def _check_missing(self, moment: Moment) -> None:
        """Notice lost payloads where some rows have one and others none, and it is not known which."""
        state = moment.state
        if state.version == 1 or not state.payloads or self._structure_checked == moment.generation:
            return
        if state.payloads == state.rows:
            raise damaged(self._path, "payloads are missing")
        (told,) = moment.db.execute("PRAGMA quick_check(payload)").fetchone()
        if told != "ok":
            raise damaged(self._path, f"the table of payloads is broken ({told})")
        query = "SELECT count(*), COALESCE(sum(checksum), 0) FROM payload"
        self._check_sums(moment, *moment.db.execute(query).fetchone())
        self._structure_checked = moment.generation

    def _check_sums(self, moment: Moment, count: int, checksums: int) -> None:
        if (count, checksums) != (moment.state.payloads, moment.state.payload_sum):
            raise damaged(
                self._path, f"its payloads are not those that were written ({count} of {moment.state.payloads})"
            )

    def _count(self, moment: Moment, count: int, checksums: int) -> None:
        state = moment.state
        moment.state = state._replace(payloads=state.payloads + count, payload_sum=state.payload_sum + checksums)
