"""A collection for trying out: an embedded one in a temporary folder that is removed with it.

SQLite's own databases in memory would not do: transactions of several threads need several connections, and a file
that stays the same behind them.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from hashlearn.collection.embedded.store import EmbeddedStore
from hashlearn.collection.store import CollectionError, CollectionSpec


class TemporaryStore(EmbeddedStore):
    """An embedded store whose folder is removed when it is closed or collected as garbage, or when Python ends."""

    def __init__(self, folder: Path, read_only: bool) -> None:
        super().__init__(folder, read_only)
        self._database.name = ":memory:"
        # The finalizer must not hold the store itself, which would then never be garbage. It holds its database.
        self._remove = weakref.finalize(self, _remove, folder, self._database.close, os.getpid())

    @classmethod
    def create(cls, uri: str, spec: CollectionSpec) -> EmbeddedStore:
        try:
            folder = tempfile.mkdtemp(prefix="hashlearn-")
        except OSError as error:
            raise CollectionError(f"Cannot make a temporary folder: {error.strerror or error}.") from error
        try:
            return super().create(folder, spec)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise

    @classmethod
    def open(cls, uri: str, read_only: bool = False) -> NoReturn:
        raise CollectionError(
            f"{uri} cannot be opened, because a collection in memory exists only in the object that Collection.create "
            "returned: use it, or give a folder."
        )

    @classmethod
    def drop(cls, uri: str) -> NoReturn:
        raise CollectionError(f"{uri} cannot be dropped: a collection in memory is removed when it is closed.")

    @classmethod
    def restore(cls, path: str, uri: str, replace: bool) -> NoReturn:
        raise CollectionError(f"A backup cannot be restored to {uri}: give a folder.")

    def close(self) -> None:
        self._remove()


def _remove(folder: Path, close: Callable[[], None], process: int) -> None:
    # A forked child runs finalizers too when it ends, and the folder is still in use in its parent.
    if os.getpid() == process:
        close()
        shutil.rmtree(folder, ignore_errors=True)
