"""The tables of a collection's file, and the row with its state, which every transaction reads first.

    state    one row: counts, checksums and numbers of the last change
    spec     one row: CollectionSpec, with the model
    block    seq -> ids, codes, gone, columns of indexed fields (blocks.py)
    payload  id -> JSON text, only for rows with a payload
    vector   id -> float32 little-endian bytes

Every row carries a checksum, and the state row carries sums of the checksums of each table: a page that the disk
failed to write holds rows whose own checksums are right. docs/collections.md describes the format.
"""

from __future__ import annotations

import json
import secrets
import sqlite3
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, get_args

from hashlearn.codes import MAX_BITS
from hashlearn.collection.ids import IdKind
from hashlearn.collection.store import CollectionError, CollectionSpec
from hashlearn.index import Index


class CollectionState(NamedTuple):
    """The state of a collection.

    seq : the number of the last block; an index that has applied the blocks up to it is up to date.
    base : blocks up to this number no longer say which ids are gone, so an index that has applied only earlier blocks
        must be rebuilt.
    last_id : the largest id ever given out, -1 before the first.
    rows, entries : how many rows there are, and how many ids all blocks name together.
    commits : how many transactions have changed the file.
    identity : a random number that every new and every restored file gets.
    spec_sum : the checksum of the row ``spec``, so that a model from before a migration is noticed.
    block_sum : the sum of the checksums of all blocks, so that a missing block is noticed.
    payloads, payload_sum : how many rows have a payload, and the sum of the payloads' checksums.
    vectors, vector_sum : the same for vectors, also for those that a migration set aside.
    """

    seq: int
    base: int
    last_id: int
    rows: int
    entries: int
    commits: int
    identity: int = 0
    spec_sum: int = 0
    block_sum: int = 0
    payloads: int = 0
    payload_sum: int = 0
    vectors: int = 0
    vector_sum: int = 0


_NAMES = (*CollectionState._fields, "checksum")
_FORM = struct.Struct(f"<{len(CollectionState._fields)}q")


def new_state() -> CollectionState:
    """Return the state of an empty collection."""
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
    db.execute(f"INSERT INTO state ({', '.join(_NAMES)}) VALUES ({', '.join('?' * len(_NAMES))})", _row(state))


def update_state(db: sqlite3.Connection, state: CollectionState) -> None:
    db.execute(f"UPDATE state SET {', '.join(f'{name} = ?' for name in _NAMES)}", _row(state))


def read_state(db: sqlite3.Connection, path: Path) -> CollectionState:
    """Read the state as the transaction sees it; CollectionError if the row is not as it was written."""
    rows = db.execute(f"SELECT {', '.join(_NAMES)} FROM state").fetchall()
    try:
        ((*values, checksum),) = rows
        whole = checksum == zlib.crc32(_FORM.pack(*values))
    except (ValueError, struct.error):
        whole = False
    if not whole:
        raise damaged(path, "what it says about itself does not match its checksum")
    return CollectionState(*values)


def _row(state: CollectionState) -> tuple[int, ...]:
    return *state, zlib.crc32(_FORM.pack(*state))


APPLICATION = 0x686C636F  # "hlco", in the header of the file
VERSION = 3
# Small columns come before large ones: SQLite can then read them without following a row's overflow pages.
_TABLES = {
    "spec": "n_bits INTEGER, fingerprint TEXT, vector_size INTEGER, kind TEXT, settings TEXT, indexed TEXT, ids TEXT, "
    "checksum INTEGER, model BLOB",
    "state": "seq INTEGER, base INTEGER, last_id INTEGER, rows INTEGER, entries INTEGER, commits INTEGER, "
    "identity INTEGER, spec_sum INTEGER, block_sum INTEGER, payloads INTEGER, payload_sum INTEGER, vectors INTEGER, "
    "vector_sum INTEGER, checksum INTEGER",
    "block": "seq INTEGER PRIMARY KEY, size INTEGER, checksum INTEGER, ids BLOB, codes BLOB, gone BLOB, columns BLOB",
    "payload": "id INTEGER PRIMARY KEY, json TEXT NOT NULL, checksum INTEGER",
    "vector": "id INTEGER PRIMARY KEY, floats BLOB NOT NULL, checksum INTEGER",
}


def make_tables(db: sqlite3.Connection, spec: CollectionSpec, state: CollectionState) -> None:
    """Create the tables of a new, empty collection inside the caller's transaction."""
    db.execute(f"PRAGMA application_id = {APPLICATION}")
    db.execute(f"PRAGMA user_version = {VERSION}")
    for name in _TABLES:
        db.execute(_create(name))
    insert_state(db, replace_spec(db, spec, state))


def read_collection(db: sqlite3.Connection, path: Path) -> tuple[CollectionSpec, CollectionState]:
    """Read spec and state, after checking that the file and its tables are those of a collection."""
    _check_tables(db, path)
    state = read_state(db, path)
    return read_spec(db, path, state), state


def read_spec(db: sqlite3.Connection, path: Path, state: CollectionState) -> CollectionSpec:
    """Read the spec, and compare it with the state of the same moment."""
    names = "n_bits, fingerprint, vector_size, kind, settings, indexed, ids, checksum, model"
    rows = db.execute(f"SELECT {names} FROM spec").fetchall()
    try:
        ((*facts, found, model),) = rows
        n_bits, fingerprint, vector_size, kind, settings, indexed, ids = facts
        if found != _spec_checksum(facts, model):
            raise ValueError
        numbers, fields = json.loads(settings), tuple(map(str, json.loads(indexed)))
        spec = CollectionSpec(n_bits, model, fingerprint, vector_size, kind, numbers, fields, ids)
        # A file with right checksums may have been made by somebody else.
        if not 1 <= n_bits <= MAX_BITS or ids not in get_args(IdKind):
            raise ValueError
        if vector_size is not None and not (isinstance(vector_size, int) and vector_size > 0):
            raise ValueError
        Index(spec.n_bits, spec.kind, **spec.settings)  # type: ignore[arg-type]  # checks kind and settings
    except (AttributeError, TypeError, ValueError, RecursionError):
        raise damaged(path, "it does not say what it was made for") from None
    if found != state.spec_sum:
        raise damaged(path, "its model and settings are those from before a later change")
    return spec


def replace_spec(db: sqlite3.Connection, spec: CollectionSpec, state: CollectionState) -> CollectionState:
    """Write what the collection is for, in a transaction of the caller; return the state that names its checksum."""
    facts = (
        *(spec.n_bits, spec.fingerprint, spec.vector_size, spec.kind),
        *(json.dumps(spec.settings), json.dumps(spec.indexed), spec.ids),
    )
    checksum = _spec_checksum(facts, spec.model)
    db.execute("DELETE FROM spec")
    db.execute("INSERT INTO spec VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", (*facts, checksum, spec.model))
    return state._replace(spec_sum=checksum)


def block_sum(db: sqlite3.Connection) -> int:
    return int(db.execute("SELECT COALESCE(sum(checksum), 0) FROM block").fetchone()[0])


def add_functions(db: sqlite3.Connection) -> None:
    """Make checksums available in SQL. The function is zlib's own, so that no Python code runs for each row."""
    db.create_function("hl_crc32", 2, zlib.crc32, deterministic=True)


PAYLOAD_CHECKSUM = "hl_crc32(CAST(json AS BLOB), id & 4294967295)"
VECTOR_CHECKSUM = "hl_crc32(floats, ~id & 4294967295)"


def payload_checksum(number: int, text: bytes) -> int:
    """Return the checksum of a payload and its id, so that a payload under another id does not match either."""
    return zlib.crc32(text, number & 0xFFFFFFFF)


def vector_checksum(number: int, floats: bytes) -> int:
    """Return the checksum of a vector and its id; it differs from that of a payload with equal bytes."""
    return zlib.crc32(floats, ~number & 0xFFFFFFFF)


def _check_tables(db: sqlite3.Connection, path: Path) -> None:
    """Check that the file has this format, and that its schema holds nothing but the tables of this format.

    A trigger or a view of somebody else would run inside our statements.
    """
    if db.execute("PRAGMA application_id").fetchone()[0] != APPLICATION:
        what = "another SQLite database" if path.stat().st_size else "empty"
        raise CollectionError(f"{path} is not a collection of hashlearn: it is {what}.")
    version = int(db.execute("PRAGMA user_version").fetchone()[0])
    if version != VERSION:
        raise CollectionError(
            f"{path} has format {version}, and this hashlearn reads only format {VERSION}: use the hashlearn that "
            "wrote it, or make the collection again."
        )
    found = {name: (kind, sql) for kind, name, sql in db.execute("SELECT type, name, sql FROM sqlite_master")}
    wrong = [name for name in _TABLES if found.get(name) != ("table", _create(name))]
    if wrong:
        raise damaged(path, f"its table '{wrong[0]}' is missing or changed")
    if foreign := [f"{kind} {name!r}" for name, (kind, _) in found.items() if name not in _TABLES]:
        raise CollectionError(
            f"{path} holds the {foreign[0]}, which hashlearn did not make, so it is not used: remove what was added, "
            "or restore it from a backup ('hashlearn index restore')."
        )
    encoding, vacuum = (db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("encoding", "auto_vacuum"))
    if encoding != "UTF-8" or vacuum:
        raise damaged(path, "the settings in its header are changed")


def _create(name: str) -> str:
    return f"CREATE TABLE {name} ({_TABLES[name]})"


def _spec_checksum(facts: Sequence[Any], model: Any) -> int:
    if not isinstance(model, bytes):
        raise ValueError("the model must be bytes")
    return zlib.crc32(model, zlib.crc32(json.dumps(facts).encode()))
