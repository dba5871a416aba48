"""Files that appear whole or not at all, also when the process is killed or the power fails."""

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
    """A stream to a temporary file beside ``path`` that takes its name at the end; on any error it is removed."""
    target = Path(path)
    # Named before it is made, so that even Ctrl-C in the very making of it leaves nothing behind.
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
    """Make a new name in a folder last. The file is in place; some file systems cannot also sync what says so."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextmanager
def saved(path: str | os.PathLike[str], what: str, refused: type[Exception]) -> Iterator[IO[bytes]]:
    """``whole_file`` for a user's own path: a link keeps pointing where it does, and errors are sentences."""
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
