"""The tables of a collection's file in formats 1 and 2, and the upgrade from 1 to 2.

    state    one row: counts, checksums and numbers of the last change (state.py)
    spec     one row: CollectionSpec, with the model
    block    seq -> ids, codes, gone, columns of indexed fields (blocks.py)
    payload  id -> JSON text, only for rows with a payload
    vector   id -> float32 little-endian bytes

Every row carries a checksum. docs/collections.md describes the format.
"""

from __future__ import annotations

import json
import sqlite3
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from hashlearn.codes import MAX_BITS
from hashlearn.collection.embedded.blocks import BlockRow, checksum, first_checksum
from hashlearn.collection.embedded.state import CollectionState, damaged, insert_state, new_identity
from hashlearn.collection.store import CollectionError, CollectionSpec
from hashlearn.index import Index
from hashlearn.progress import report

APPLICATION = 0x686C636F  # "hlco", in the header of the file
VERSION = 2
# The kind of ids stands among the settings, because the tables have no column for it. Releases before 0.3 refuse such
# a collection, which is right: they would show numbers in place of its ids.
_IDS = "ids"

_TABLES = {
    1: {
        "spec": "n_bits INTEGER, model BLOB, fingerprint TEXT, vector_size INTEGER, kind TEXT, settings TEXT",
        "state": "seq INTEGER, base INTEGER, last_id INTEGER, rows INTEGER, entries INTEGER",
        "block": "seq INTEGER PRIMARY KEY, size INTEGER, ids BLOB, codes BLOB, gone BLOB, checksum INTEGER",
        "payload": "id INTEGER PRIMARY KEY, json TEXT NOT NULL",
        "vector": "id INTEGER PRIMARY KEY, floats BLOB NOT NULL",
    },
    # Small columns come before large ones: SQLite can then read them without following a row's overflow pages.
    2: {
        "spec": "n_bits INTEGER, fingerprint TEXT, vector_size INTEGER, kind TEXT, settings TEXT, indexed TEXT, "
        "checksum INTEGER, model BLOB",
        "state": "seq INTEGER, base INTEGER, last_id INTEGER, rows INTEGER, entries INTEGER, commits INTEGER, "
        "identity INTEGER, block_sum INTEGER, payloads INTEGER, payload_sum INTEGER, checksum INTEGER",
        "block": "seq INTEGER PRIMARY KEY, size INTEGER, checksum INTEGER, ids BLOB, codes BLOB, gone BLOB, "
        "columns BLOB",
        "payload": "id INTEGER PRIMARY KEY, json TEXT NOT NULL, checksum INTEGER",
        "vector": "id INTEGER PRIMARY KEY, floats BLOB NOT NULL, checksum INTEGER",
    },
}


def make_tables(db: sqlite3.Connection, spec: CollectionSpec, state: CollectionState) -> None:
    """Create the tables of a new, empty collection inside the caller's transaction."""
    db.execute(f"PRAGMA application_id = {APPLICATION}")
    db.execute(f"PRAGMA user_version = {VERSION}")
    for name in _TABLES[VERSION]:
        db.execute(_create(name, VERSION))
    insert_state(db, state)
    _insert_spec(db, spec)


def read_spec(db: sqlite3.Connection, path: Path) -> CollectionSpec:
    """Read the spec, after checking that the file and its tables are those of a collection."""
    version = _version(db, path)
    columns = "n_bits, fingerprint, vector_size, kind, settings, "
    columns += "'[]', NULL, model" if version == 1 else "indexed, checksum, model"
    rows = db.execute(f"SELECT {columns} FROM spec").fetchall()
    try:
        ((n_bits, fingerprint, vector_size, kind, settings, indexed, found, model),) = rows
        facts = (n_bits, fingerprint, vector_size, kind, settings, indexed)
        if version > 1 and found != _spec_checksum(facts, model):
            raise ValueError
        numbers = json.loads(settings)
        ids = numbers.pop(_IDS, "int")
        spec = CollectionSpec(n_bits, model, fingerprint, vector_size, kind, numbers, tuple(json.loads(indexed)), ids)
        if not 1 <= spec.n_bits <= MAX_BITS or not isinstance(spec.model, bytes):
            raise ValueError
        if vector_size is not None and not (isinstance(vector_size, int) and vector_size > 0):
            raise ValueError
        Index(spec.n_bits, spec.kind, **spec.settings)  # type: ignore[arg-type]  # format 1 has no checksum of these
    except (AttributeError, TypeError, ValueError):
        raise damaged(path, "it does not say what it was made for") from None
    return spec


def replace_spec(db: sqlite3.Connection, spec: CollectionSpec) -> None:
    """Write what the collection is for anew, in a transaction of the caller."""
    db.execute("DELETE FROM spec")
    _insert_spec(db, spec)


def block_sum(db: sqlite3.Connection) -> int:
    return int(db.execute("SELECT COALESCE(sum(checksum), 0) FROM block").fetchone()[0])


def add_functions(db: sqlite3.Connection) -> None:
    """Make checksums available in SQL. The function is zlib's own, so that no Python code runs for each row."""
    db.create_function("hl_crc32", 2, zlib.crc32, deterministic=True)


PAYLOAD_CHECKSUM = "hl_crc32(CAST(json AS BLOB), id & 4294967295)"
VECTOR_CHECKSUM = "hl_crc32(floats, ~id & 4294967295)"


def payload_checksum(number: int, text: bytes) -> int:
    """The checksum of a payload and its id, so that a payload under another id does not match either."""
    return zlib.crc32(text, number & 0xFFFFFFFF)


def vector_checksum(number: int, floats: bytes) -> int:
    """The checksum of a vector and its id; it differs from that of a payload with equal bytes."""
    return zlib.crc32(floats, ~number & 0xFFFFFFFF)


def upgrade(db: sqlite3.Connection, path: Path, spec: CollectionSpec, state: CollectionState) -> CollectionState:
    """Upgrade a file of format 1 to format 2 inside the caller's transaction."""
    _check_first_format(db, path, spec, state)
    steps = iter(range(1, 5))
    for name in ("spec", "state", "block"):
        db.execute(f"ALTER TABLE {name} RENAME TO old_{name}")
        db.execute(_create(name, VERSION))
    _insert_spec(db, spec)
    report("upgrading", next(steps), 4)
    query = "SELECT seq, size, checksum, ids, codes, gone, x'' FROM old_block ORDER BY seq"
    for stored in map(BlockRow._make, db.execute(query)):
        if stored.checksum != first_checksum(stored):
            raise damaged(path, f"block {stored.seq} does not match its checksum")
        db.execute("INSERT INTO block VALUES (?, ?, ?, ?, ?, ?, ?)", stored._replace(checksum=checksum(stored)))
    report("upgrading", next(steps), 4)
    for name, expression in (("payload", PAYLOAD_CHECKSUM), ("vector", VECTOR_CHECKSUM)):
        db.execute(f"ALTER TABLE {name} ADD COLUMN checksum INTEGER")
        db.execute(f"UPDATE {name} SET checksum = {expression}")
        report("upgrading", next(steps), 4)
    payloads, payload_sum = db.execute("SELECT count(*), COALESCE(sum(checksum), 0) FROM payload").fetchone()
    state = state._replace(
        commits=state.commits + 1,
        identity=new_identity(),
        block_sum=block_sum(db),
        payloads=payloads,
        payload_sum=payload_sum,
        version=VERSION,
    )
    insert_state(db, state)
    for name in ("spec", "state", "block"):
        db.execute(f"DROP TABLE old_{name}")
    db.execute(f"PRAGMA user_version = {VERSION}")
    return state


def _check_first_format(db: sqlite3.Connection, path: Path, spec: CollectionSpec, state: CollectionState) -> None:
    """Refuse to upgrade damage that can be seen: the checksums of format 2 would make it look whole."""
    (answer,) = db.execute("PRAGMA quick_check(1)").fetchone()
    if answer != "ok":
        raise damaged(path, f"SQLite finds it broken ({answer})")
    last_block, entries = db.execute("SELECT COALESCE(max(seq), 0), COALESCE(sum(size), 0) FROM block").fetchone()
    ids = [np.frombuffer(part, "<i8") for (part,) in db.execute("SELECT ids FROM block") if isinstance(part, bytes)]
    largest = max((int(part.max()) for part in ids if len(part)), default=-1)
    if last_block > state.seq or entries != state.entries or largest > state.last_id:
        raise damaged(path, "what it says about itself does not match its blocks")
    (payloads,) = db.execute("SELECT count(*) FROM payload WHERE NOT json_valid(json)").fetchone()
    if payloads:
        raise damaged(path, f"{payloads} payloads are no JSON text")
    length = 4 * (spec.vector_size or 0)
    (vectors,) = db.execute("SELECT count(*) FROM vector WHERE length(floats) != ?", (length,)).fetchone()
    if vectors:
        raise damaged(path, f"{vectors} vectors do not have {length} bytes")


def _version(db: sqlite3.Connection, path: Path) -> int:
    """Return the format of the file, after checking that its tables are exactly those of this format."""
    if db.execute("PRAGMA application_id").fetchone()[0] != APPLICATION:
        what = "another SQLite database" if path.stat().st_size else "empty"
        raise CollectionError(f"{path} is not a collection of hashlearn: it is {what}.")
    version = int(db.execute("PRAGMA user_version").fetchone()[0])
    if version > VERSION:
        raise CollectionError(
            f"{path} was written by a newer hashlearn (format {version}; this one reads {VERSION}): install that one."
        )
    if version not in _TABLES:
        raise damaged(path, f"it says that its format is {version}")
    found = dict(db.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'").fetchall())
    wrong = [name for name in _TABLES[version] if found.get(name) != _create(name, version)]
    if wrong:
        raise damaged(path, f"its table '{wrong[0]}' is missing or changed")
    encoding, vacuum = (db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("encoding", "auto_vacuum"))
    if encoding != "UTF-8" or vacuum:
        raise damaged(path, "the settings in its header are changed")
    return version


def _create(name: str, version: int) -> str:
    return f"CREATE TABLE {name} ({_TABLES[version][name]})"


def _insert_spec(db: sqlite3.Connection, spec: CollectionSpec) -> None:
    settings = spec.settings if spec.ids == "int" else {**spec.settings, _IDS: spec.ids}
    texts = (json.dumps(settings), json.dumps(spec.indexed))
    facts = (spec.n_bits, spec.fingerprint, spec.vector_size, spec.kind, *texts)
    db.execute(
        "INSERT INTO spec VALUES (?, ?, ?, ?, ?, ?, ?, ?)", (*facts, _spec_checksum(facts, spec.model), spec.model)
    )


def _spec_checksum(facts: tuple[Any, ...], model: Any) -> int:
    if not isinstance(model, bytes):
        raise ValueError("the model must be bytes")
    return zlib.crc32(model, zlib.crc32(json.dumps(facts).encode()))
