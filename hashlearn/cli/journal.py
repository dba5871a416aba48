"""A journal of how many rows of a file were added to a collection, so that a killed run can be resumed.

It is a small JSON file in the folder of an embedded collection, else in the user's state folder. It need not be exact:
rows keep their ids in a second run, so adding some of them twice changes nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from hashlearn.collection.uri import is_folder
from hashlearn.files import written_whole
from hashlearn.files.arrays import SUFFIXES, split_part
from hashlearn.files.shards import shard_names


class ChangedSourceError(ValueError):
    """A file has changed since an earlier run began to add it."""


class Journal:
    """How many rows of some files are in a collection. For rows without ids, ``first_id`` is the first id.

    ``part`` tells apart commands that read other parts of the same files, such as another column of texts.
    """

    def __init__(self, uri: str, sources: Iterable[str], part: str = "") -> None:
        names = list(sources)
        place = str(Path(uri).resolve()) if is_folder(uri) else uri
        files = {name: [split_part(one)[0] for one in shard_names(name, SUFFIXES)] for name in names}
        sources = (str(files[name][0].resolve()) + name for name in names)
        key = hashlib.sha256("\n".join([place, *sources, *([part] if part else [])]).encode())
        folder = Path(uri) if is_folder(uri) else _state_folder()
        self.path = folder / f"adding-{key.hexdigest()[:16]}.json"
        self.done = 0
        self.first_id: int | None = None
        self._stamps = {name: [fact for path in paths for fact in _stamp(path)] for name, paths in files.items()}

    def read(self) -> bool:
        """Read the journal of an earlier run; return whether there is one. ChangedSourceError if a file has changed."""
        try:
            found: dict[str, Any] = json.loads(self.path.read_text())
            done, first_id, stamps = int(found["done"]), found["first_id"], found["stamps"]
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return False  # a damaged journal counts as none: rows keep their ids, so nothing is lost
        for name, stamp in self._stamps.items():
            if stamps.get(name) != stamp:
                raise ChangedSourceError(
                    f"{name} has changed since a run was interrupted after {done} of its rows: --restart begins anew."
                )
        self.done, self.first_id = done, first_id
        return True

    def write(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        facts = {"done": self.done, "first_id": self.first_id, "stamps": self._stamps}
        with written_whole(self.path) as stream:
            stream.write(json.dumps(facts).encode())

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)


def _stamp(path: Path) -> list[int]:
    facts = path.stat()
    return [facts.st_size, facts.st_mtime_ns]


def _state_folder() -> Path:
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "hashlearn"
