"""Files that appear whole or not at all, and where the facts about them are."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

from hashlearn.files.arrays import FileError
from hashlearn.wholefile import whole_file


def check_output(name: str | Path, suffixes: tuple[str, ...] = ()) -> Path:
    """Return the path, if a file can be written there: said before the work begins rather than after it."""
    path = Path(name)
    if suffixes and path.suffix.lower() not in suffixes:
        raise FileError(f"{path} must end in {' or '.join(suffixes)}.")
    if path.is_dir():
        raise FileError(f"{path} is a folder, not a file.")
    if not path.parent.is_dir():
        raise FileError(f"{path} cannot be written: the folder {path.parent} does not exist.")
    if not os.access(path.parent, os.W_OK):
        raise FileError(f"{path} cannot be written: the folder {path.parent} is not writable.")
    return path


def sidecar(path: str | Path) -> Path:
    """Return the path of the facts about a file of features or codes, or about an exported .faiss index."""
    return Path(f"{path}.json")


@contextmanager
def written_whole(path: Path) -> Iterator[IO[bytes]]:
    """Yield a stream to a temporary file beside ``path`` that takes its name at the end; on any error it is removed."""
    with ExitStack() as stack:
        try:
            stream = stack.enter_context(whole_file(path))
        except OSError as error:
            raise FileError(f"{path} cannot be written: {error.strerror}.") from error
        yield stream
