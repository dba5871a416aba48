"""A .npy file that grows row by row, survives a kill, and has its name only when it is complete.

While it grows it is called ``X.npy.part``, and ``X.npy.part.json`` says what is in it and how far it is. Beside the
complete file, ``X.npy.json`` says what its rows are and what made them.
"""

from __future__ import annotations

import io
import json
import os
import time
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from hashlearn.files.arrays import FileError
from hashlearn.files.output import check_output, sidecar, written_whole
from hashlearn.wholefile import sync_folder

FORMAT = "hashlearn features 1"
_SAVE_SECONDS = 5.0
_DIFFERENCES = {
    "format": "another version of the format",
    "backbone": "another backbone",
    "image_size": "another image size",
    "network": "other weights",
    "images": "other images, or images that have changed",
    "dtype": "another dtype",
    "on_error": "another choice of on_error",
    "model": "another model",
    "texts": "other texts",
}


class FeatureWriter:
    """Rows of features on their way to ``path``. ``done`` inputs are accounted for, ``skipped`` ones by name."""

    def __init__(self, path: Path, facts: dict[str, Any], width: int, dtype: str, *, restart: bool = False) -> None:
        self.path = check_output(path, (".npy",))
        self.facts = _all_facts(facts, width, dtype)
        self.dtype = np.dtype(dtype).newbyteorder("<")
        self.rows, self.done = 0, 0
        self.skipped: dict[str, str] = {}
        self._part = _part_file(path)
        self._state = sidecar(self._part)
        self._stream = self._opened(restart)
        self._saved = time.monotonic()

    def add(self, features: NDArray[Any], done: int, skipped: dict[str, str]) -> None:
        """Append rows; ``done`` inputs are then accounted for."""
        self._stream.write(np.ascontiguousarray(features, dtype=self.dtype).data)
        self.rows += len(features)
        self.done, self.skipped = done, skipped
        if time.monotonic() - self._saved > _SAVE_SECONDS:
            self._save()

    def finish(self, about: dict[str, Any]) -> None:
        """Complete the file and give it its name. ``about`` is what the file beside it says of the rows."""
        self._stream.seek(0)
        self._stream.write(self._header(self.rows))
        self._save()
        _write_json(sidecar(self.path), {**self.facts, **about})
        os.replace(self._part, self.path)
        sync_folder(self.path.parent)
        self._state.unlink()

    def __enter__(self) -> FeatureWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._save()
        self._stream.close()

    def _opened(self, restart: bool) -> IO[bytes]:
        state = None
        if not restart and self._state.exists() and self._part.exists():
            state = _read_json(self._state)
            _check_same(self._part, state["facts"], self.facts)
        # The file is opened without truncating it: another process may be writing it, and only the lock shows that.
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0)
        stream = os.fdopen(os.open(self._part, flags, 0o666), "r+b")
        try:
            _lock(stream, self._part)
            header = self._header(0)
            if state is None:
                stream.truncate(0)
                stream.write(header)
            else:
                self.rows, self.done, self.skipped = state["rows"], state["done"], state["skipped"]
                size = len(header) + self.rows * self.facts["n_features"] * self.dtype.itemsize
                if os.fstat(stream.fileno()).st_size < size:
                    raise FileError(f"{self._part} is cut short; restart to make it again.")
                stream.truncate(size)
                stream.seek(size)
        except BaseException:
            stream.close()
            raise
        return stream

    def _save(self) -> None:
        """Write rows first and their number second: a kill between the two loses rows but never counts missing ones."""
        self._stream.flush()
        os.fsync(self._stream.fileno())
        state = {"facts": self.facts, "rows": self.rows, "done": self.done, "skipped": self.skipped}
        _write_json(self._state, state)
        self._saved = time.monotonic()

    def _header(self, rows: int) -> bytes:
        stream = io.BytesIO()
        shape = (rows, self.facts["n_features"])
        # NumPy pads headers so that the number of rows can grow, so all headers have the same length.
        np.lib.format.write_array_header_1_0(stream, {"descr": self.dtype.str, "fortran_order": False, "shape": shape})
        return stream.getvalue()


def is_finished(path: Path) -> bool:
    """Return whether the file is complete, and no newer one is being made."""
    return path.exists() and not _part_file(path).exists()


def read_finished(path: Path, facts: dict[str, Any], width: int, dtype: str) -> dict[str, Any]:
    """Return what the file beside a complete file says; FileError if the features were made of something else."""
    if not sidecar(path).exists():
        raise FileError(f"{path} exists and does not say what it holds: choose another name, or restart to replace it.")
    found = _read_json(sidecar(path))
    _check_same(path, found, _all_facts(facts, width, dtype))
    sidecar(_part_file(path)).unlink(missing_ok=True)
    return found


def _part_file(path: Path) -> Path:
    return path.with_name(path.name + ".part")


def _all_facts(facts: dict[str, Any], width: int, dtype: str) -> dict[str, Any]:
    return {"format": FORMAT, **facts, "dtype": dtype, "n_features": width}


def _check_same(path: Path, found: dict[str, Any], wanted: dict[str, Any]) -> None:
    for key, title in _DIFFERENCES.items():
        if found.get(key) != wanted.get(key):
            raise FileError(f"{path} was made with {title}: choose another name, or restart to replace it.")


def _write_json(path: Path, value: dict[str, Any]) -> None:
    with written_whole(path) as stream:
        stream.write(json.dumps(value, indent=1).encode())


def _read_json(path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(path.read_bytes()))
    except (ValueError, TypeError) as error:
        raise FileError(f"{path} is damaged: choose another name, or restart to replace it.") from error


def _lock(stream: IO[bytes], path: Path) -> None:
    """Allow one writer at a time, where the system has such locks. They go away with the process that holds them."""
    try:
        import fcntl
    except ImportError:
        return
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise FileError(f"{path} is being written by another process.") from error
