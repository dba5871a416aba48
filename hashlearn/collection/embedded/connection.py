"""A connection to the SQLite file of an embedded collection, and SQLite's errors as sentences."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hashlearn.collection.embedded import schema
from hashlearn.collection.store import CollectionError
from hashlearn.filekinds import kind_of_file

FILE = "collection.sqlite"
WAIT_SECONDS = 60.0
_RESTORE = "restore it from a backup ('hashlearn index restore')"


def connect(path: Path, mode: str) -> sqlite3.Connection:
    """Open a connection; ``mode`` is that of SQLite's URIs, such as "ro" or "rw"."""
    # A path may hold characters that have a meaning in a URI.
    uri = f"{path.absolute().as_uri()}?mode={mode}"
    db = sqlite3.connect(uri, WAIT_SECONDS, isolation_level=None, check_same_thread=False, uri=True)
    # Checksums find damaged text; decoding it must not raise an error of Python before that.
    db.text_factory = _as_text
    schema.add_functions(db)
    if mode.startswith("rw"):
        # A commit returns when its bytes are on the disk: acknowledged means durable.
        db.execute("PRAGMA synchronous = FULL")
    return db


def _as_text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def file_size(path: Path) -> int:
    """The size of a file in bytes; 0 if there is none. SQLite may remove its log at any time."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def close_all(connections: list[sqlite3.Connection]) -> None:
    for db in connections:
        with contextlib.suppress(sqlite3.Error):
            db.close()


@contextmanager
def errors_as_sentences(path: Path) -> Iterator[None]:
    """Raise errors of SQLite and of the file system as a CollectionError with one sentence that names the file."""
    try:
        yield
    except sqlite3.Error as error:
        raise CollectionError(_sentence(error, path)) from error
    except UnicodeDecodeError as error:
        # SQLite quotes damaged text of the schema in its message, which Python then cannot decode.
        raise CollectionError(f"{path} is damaged: {_RESTORE} (its schema cannot be read).") from error
    except OSError as error:
        raise CollectionError(f"Cannot use {path}: {error.strerror or error}.") from error


def error_code(error: sqlite3.Error) -> int:
    return (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF


def _sentence(error: sqlite3.Error, path: Path) -> str:
    if error_code(error) == sqlite3.SQLITE_NOTADB and (kind := kind_of_file(path)) is not None:
        return f"{path} is not a collection of hashlearn: it is {kind}."
    known: dict[int, str] = {
        sqlite3.SQLITE_BUSY: f"{path.parent} is being written by somebody else; gave up after {WAIT_SECONDS:.0f} s.",
        sqlite3.SQLITE_FULL: f"The disk is full: nothing of this was written to {path.parent}, and nothing was lost.",
        sqlite3.SQLITE_READONLY: f"{path} may not be written: change its permissions, or open it with read_only=True.",
        sqlite3.SQLITE_CORRUPT: f"{path} is damaged: {_RESTORE} ({error}).",
        sqlite3.SQLITE_NOTADB: f"{path} is not a collection of hashlearn, or its beginning is damaged: {_RESTORE}.",
        sqlite3.SQLITE_CANTOPEN: f"{path} cannot be opened: check that it may be read, and, if a log (-wal) lies "
        "beside it, that the folder may be written.",
        sqlite3.SQLITE_CONSTRAINT: f"{path} is damaged: {_RESTORE} ({error}).",
        sqlite3.SQLITE_IOERR: f"Reading or writing {path} failed: check the disk ({error}).",
        sqlite3.SQLITE_ERROR: f"{path} is damaged or of another kind: {_RESTORE} ({error}).",
    }
    return known.get(error_code(error), f"Cannot use {path}: {error}.")
