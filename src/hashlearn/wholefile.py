"""Files on disk: written whole or not at all, and which SQLite files this process has open.

A file appears completely or not at all, even after a kill or a power failure (``whole_file``).

A POSIX lock belongs to a process and a file: when the process closes any descriptor of the file, it loses all its locks
on it. SQLite takes care of its own descriptors and does not know about others. After such a loss another process may
take itself for the only user of the file and remove its log, and what is then written to the log is lost. So code
that opens a file that a user names asks ``in_use_here`` first, and every transaction asks ``log_is_gone``.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import sqlite3
import stat
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


@contextmanager
def whole_file(path: str | Path) -> Iterator[IO[bytes]]:
    """Open a temporary file in the folder of ``path``, and rename it to ``path`` at the end; remove it on any error."""
    target = Path(path)
    # The name is known before the file exists, so that a Ctrl-C during its creation leaves no file.
    temporary = target.with_name(f".hashlearn-{secrets.token_hex(8)}.tmp")
    try:
        with open(temporary, "xb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    sync_folder(target.parent)


def sync_folder(folder: str | Path) -> None:
    """Flush a folder, so that a new file name survives a power failure. Some file systems cannot; that is ignored."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextmanager
def saved(path: str | os.PathLike[str], what: str, refused: type[Exception]) -> Iterator[IO[bytes]]:
    """Like ``whole_file``, for a path given by a user: links are followed, and errors are readable sentences."""
    name = os.fspath(path)
    target = os.path.realpath(name)
    if os.path.exists(target) and not os.path.isfile(target):
        raise refused(f"Cannot save the {what} to {name}: something that is not a file is in its place.")
    try:
        with whole_file(target) as stream:
            yield stream
    except FileNotFoundError as error:
        folder = os.path.dirname(target)
        raise FileNotFoundError(f"Cannot save the {what} to {name}: there is no directory {folder}.") from error
    except OSError as error:
        raise type(error)(f"Cannot save the {what} to {name}: {error.strerror}.") from error


@contextmanager
def regular_file(path: str | os.PathLike[str], what: str, refused: type[Exception]) -> Iterator[IO[bytes]]:
    """Open a file that a user names, such as an "index", for reading. Errors are readable sentences."""
    name = os.fspath(path)
    try:
        problem = None
        if not stat.S_ISREG(mode := os.stat(name).st_mode):
            problem = "it is a directory" if stat.S_ISDIR(mode) else "it is no regular file"
        elif in_use_here(name):
            problem = "it belongs to an open collection"
        if problem is not None:
            raise refused(f"{name} is not a hashlearn {what} file: {problem}.")
        with open(name, "rb") as stream:
            yield stream
    except FileNotFoundError as error:
        raise FileNotFoundError(f"There is no {what} file {name}.") from error
    except OSError as error:
        raise type(error)(f"Cannot read the {what} file {name}: {error.strerror}.") from error


_FileId = tuple[int, int]  # device and inode
_mutex = threading.Lock()
_open: weakref.WeakSet[OpenConnection] = weakref.WeakSet()


class OpenConnection(sqlite3.Connection):
    """A connection that knows which files it had opened: the database, and for WAL mode the log and its index."""

    files: tuple[_FileId | None, ...] = ()

    def close(self) -> None:
        try:
            super().close()
        finally:
            # Not before: as long as it is open, new connections of this process share its view of the log.
            with _mutex:
                _open.discard(self)


def opened(db: OpenConnection, path: Path) -> bool:
    """Remember which files a connection uses that has just read its database.

    False if other connections of this process use another log, which was removed meanwhile: SQLite would use the new
    log with their view of the old one, so the caller must close this connection.
    """
    files = _ids(path, f"{path}-wal", f"{path}-shm")
    with _mutex:
        others = [other.files for other in _open if other.files[0] == files[0]]
        if any(other != files for other in others):
            return False
        db.files = files
        _open.add(db)
    return True


def log_is_gone(db: OpenConnection, path: Path) -> bool:
    """Return whether the files at this path are no longer those that the connection uses."""
    return bool(db.files) and db.files != _ids(path, f"{path}-wal", f"{path}-shm")


def in_use_here(path: str | os.PathLike[str]) -> bool:
    """Return whether this process has the file open in SQLite: then nobody else in it may open and close it."""
    (found,) = _ids(path)
    with _mutex:
        return found is not None and any(found in db.files for db in _open)


def _ids(*paths: str | os.PathLike[str]) -> tuple[_FileId | None, ...]:
    """Return device and inode of each file; None where there is none."""
    found: list[_FileId | None] = []
    for path in paths:
        try:
            facts = os.stat(path)
            found.append((facts.st_dev, facts.st_ino))
        except OSError:
            found.append(None)
    return tuple(found)
