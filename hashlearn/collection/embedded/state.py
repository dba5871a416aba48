"""The one row with the state of a collection: every transaction begins by reading and checking it."""

from __future__ import annotations

import secrets
import sqlite3
import struct
import zlib
from pathlib import Path
from typing import Any, NamedTuple

from hashlearn.collection.store import CollectionError

_STORED = "seq, base, last_id, rows, entries, commits, identity, block_sum, payloads, payload_sum"
_FORM = struct.Struct("<10q")


class CollectionState(NamedTuple):
    """The state of a collection.

    seq : the number of the last block; an index that has applied the blocks up to it is up to date.
    base : blocks up to this number no longer say which ids are gone, so an index that has applied only earlier blocks
        must be rebuilt.
    last_id : the largest id ever given out, -1 before the first.
    rows, entries : how many rows there are, and how many ids all blocks name together.
    commits : how many transactions have changed the file.
    identity : a random number that every new and every restored file gets.
    block_sum : the sum of the checksums of all blocks, so that a missing block is noticed.
    payloads, payload_sum : how many rows have a payload, and the sum of the payloads' checksums.
    version : the format of the file; not stored in the row.
    """

    seq: int
    base: int
    last_id: int
    rows: int
    entries: int
    commits: int
    identity: int = 0
    block_sum: int = 0
    payloads: int = 0
    payload_sum: int = 0
    version: int = 2


def new_state() -> CollectionState:
    """The state of an empty collection."""
    return CollectionState(seq=0, base=0, last_id=-1, rows=0, entries=0, commits=0, identity=new_identity())


def new_identity() -> int:
    return secrets.randbits(62) + 1


def damaged(path: Path, what: str) -> CollectionError:
    """Return the error for bytes that are not those that were written."""
    return CollectionError(
        f"{path} is damaged: {what}. 'hashlearn index verify' tells how much; restore it from a backup "
        "('hashlearn index restore')."
    )


def insert_state(db: sqlite3.Connection, state: CollectionState) -> None:
    db.execute(f"INSERT INTO state ({_STORED}, checksum) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", _row(state))


def update_state(db: sqlite3.Connection, state: CollectionState) -> None:
    names = [*_STORED.split(", "), "checksum"]
    db.execute(f"UPDATE state SET {', '.join(f'{name} = ?' for name in names)}", _row(state))


def read_state(db: sqlite3.Connection, path: Path) -> CollectionState:
    """Read the state as the transaction sees it; CollectionError if the row is not as it was written."""
    rows = db.execute("SELECT * FROM state").fetchall()
    if len(rows) == 1 and len(rows[0]) == 5:
        return _first_format(rows[0], path)
    try:
        ((*values, checksum),) = rows
        whole = checksum == zlib.crc32(_FORM.pack(*values))
    except (ValueError, struct.error):
        whole = False
    if not whole:
        raise damaged(path, "what it says about itself does not match its checksum")
    return CollectionState(*values)


def _first_format(row: tuple[Any, ...], path: Path) -> CollectionState:
    """The row of format 1, which had no checksum."""
    if not all(isinstance(value, int) for value in row):
        raise damaged(path, "what it says about itself cannot be read")
    # In format 1 every change added a block, so the number of the last block counts the changes.
    seq, base, last_id, rows, entries = row
    return CollectionState(seq, base, last_id, rows, entries, commits=seq, version=1)


def _row(state: CollectionState) -> tuple[int, ...]:
    values = state[: _STORED.count(",") + 1]
    return *values, zlib.crc32(_FORM.pack(*values))
