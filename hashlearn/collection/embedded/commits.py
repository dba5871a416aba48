"""A small file beside the database that counts its commits, so that a lost end of SQLite's log is noticed.

SQLite silently ignores everything after the first damaged page of its log, because that is how a commit looks that a
crash interrupted. Commits that were acknowledged must not be lost in this way, so this file says how many there were.
It is written after each commit without waiting for the disk: after a power cut it may count too few, never too many.
"""

from __future__ import annotations

import contextlib
import os
import struct
import zlib
from pathlib import Path

FILE = "collection.commits"
_FORM = struct.Struct("<qq")
_CHECKSUM = struct.Struct("<I")


def write_commits(folder: Path, identity: int, commits: int) -> None:
    """Write how many commits there are. The commit itself is done, so an error here must not make it fail."""
    data = _FORM.pack(identity, commits)
    with contextlib.suppress(OSError):
        # The file is not truncated first, so that a reader finds either the old numbers or the new ones.
        handle = os.open(folder / FILE, os.O_WRONLY | os.O_CREAT, 0o644)
        try:
            os.write(handle, data + _CHECKSUM.pack(zlib.crc32(data)))
        finally:
            os.close(handle)


def read_commits(folder: Path) -> tuple[int, int] | None:
    """Identity of the database and its number of commits; None when there is no file, or none that can be trusted."""
    try:
        data = (folder / FILE).read_bytes()
    except OSError:
        return None
    if len(data) != _FORM.size + _CHECKSUM.size:
        return None
    if _CHECKSUM.unpack(data[_FORM.size :])[0] != zlib.crc32(data[: _FORM.size]):
        return None
    identity, commits = _FORM.unpack(data[: _FORM.size])
    return identity, commits
