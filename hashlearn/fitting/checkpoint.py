"""Checkpoints: what a long pass has done so far, so that it goes on there after a crash.

A folder with a small JSON file that says which fit it belongs to, and one .npz a pass: plain arrays, never pickles.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from hashlearn.files.arrays import FileError, one_line
from hashlearn.files.output import written_whole
from hashlearn.typing import Arrays

SECONDS = 10.0
"""A pass saves at most this often: a crash costs the work since then, an error or Ctrl-C none that was added up."""


class Checkpoint:
    """A folder of states, or nothing at all where ``path`` is None."""

    def __init__(self, path: str | Path | None, identity: dict[str, Any]) -> None:
        self.path = None if path is None else Path(path)
        self.seed: int | None = None
        if self.path is None:
            return
        if self.path.exists() and not self.path.is_dir():
            raise FileError(f"{self.path} is a file; checkpoint must be a folder.")
        self.path.mkdir(parents=True, exist_ok=True)
        about = self.path / "checkpoint.json"
        if about.exists():
            self._check(about, identity)
        else:
            if any(self.path.iterdir()):
                raise FileError(f"{self.path} is not empty and holds no checkpoint: give another folder.")
            self.seed = int.from_bytes(os.urandom(4), "little") >> 1
            with written_whole(about) as stream:
                stream.write(json.dumps({**identity, "seed": self.seed}, indent=1).encode())

    def _check(self, about: Path, identity: dict[str, Any]) -> None:
        try:
            known = json.loads(about.read_bytes())
            self.seed = int(known.pop("seed"))
        except (ValueError, KeyError, AttributeError) as error:
            raise FileError(f"{about} is damaged: delete the folder {self.path} to begin anew.") from error
        wanted = json.loads(json.dumps(identity))
        different = [name for name in wanted if known.get(name) != wanted[name]]
        if different:
            raise FileError(
                f"The checkpoint {self.path} belongs to another fit ({', '.join(different)} differ): give another "
                "folder, or delete it to begin anew."
            )

    def has(self, name: str) -> bool:
        """Whether a state was saved under this name."""
        return self.path is not None and (self.path / f"{name}.npz").exists()

    def load(self, name: str) -> Arrays | None:
        """A saved state, None if there is none."""
        if self.path is None or not self.has(name):
            return None
        file = self.path / f"{name}.npz"
        try:
            with np.load(file, allow_pickle=False) as archive:
                return {key: archive[key] for key in archive.files}
        except Exception as error:  # zip, header and value errors alike
            raise FileError(f"{file} is damaged ({one_line(error)}) Delete it to do its pass again.") from error

    def save(self, name: str, state: Arrays) -> None:
        if self.path is not None:
            with written_whole(self.path / f"{name}.npz") as stream:
                np.savez(stream, **state)  # type: ignore[arg-type]

    @contextmanager
    def saving(self, name: str, state: Callable[[], Arrays]) -> Iterator[Callable[[], None]]:
        """A function to call after every step, which saves now and then; the end and any error save too."""
        if self.path is None:
            yield lambda: None
            return
        last, changed = time.monotonic(), False

        def step() -> None:
            nonlocal last, changed
            changed = True
            if time.monotonic() - last >= SECONDS:
                self.save(name, state())
                last, changed = time.monotonic(), False

        try:
            yield step
        finally:
            if changed:
                self.save(name, state())

    def done(self) -> None:
        """The work is finished: nothing is left to go on with."""
        if self.path is not None:
            shutil.rmtree(self.path, ignore_errors=True)
