"""Atomic writing of files: a file appears completely or not at all, even after a kill or a power failure."""

from __future__ import annotations

import contextlib
import os
import secrets
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
