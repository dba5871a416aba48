"""How a fit is carried out: who runs its tasks, where its checkpoint is, and where the codes of the rows go."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import numpy as np

from hashlearn import codes
from hashlearn.files.arrays import FileError, one_line
from hashlearn.files.codes import CODE_SUFFIXES, CodeInfo, CodeWriter
from hashlearn.files.output import check_output, written_whole
from hashlearn.fitting.executors import TaskFunction, run
from hashlearn.typing import Arrays, IntArray, PackedCodes

WRITTEN_ROWS = 1 << 20
"""Codes are copied to their file in blocks of so many rows."""
SAVE_SECONDS = 10.0
"""A pass saves at most this often. A crash costs the work since then; an error or Ctrl-C costs nothing finished."""


class Checkpoint:
    """A folder that holds what a fit has done so far, so that it can be resumed after a crash.

    It contains a JSON file that identifies the fit, and one .npz file per pass. With ``path`` None nothing is saved.

    Parameters
    ----------
    path : folder or None
    identity : dict
        What must be the same for a fit to be resumed.

    Raises
    ------
    FileError
        If the folder belongs to another fit, is damaged, or holds other files.
    """

    def __init__(self, path: str | Path | None = None, identity: dict[str, Any] | None = None) -> None:
        self.path = None if path is None else Path(path)
        self.seed: int | None = None
        if self.path is not None:
            self._open(self.path, identity or {})

    def _open(self, path: Path, identity: dict[str, Any]) -> None:
        if path.exists() and not path.is_dir():
            raise FileError(f"{path} is a file; checkpoint must be a folder.")
        path.mkdir(parents=True, exist_ok=True)
        about = path / "checkpoint.json"
        if about.exists():
            self._check(about, identity)
            return
        if any(path.iterdir()):
            raise FileError(f"{path} is not empty and holds no checkpoint: give another folder.")
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
        """Whether arrays were saved under this name."""
        return self.path is not None and (self.path / f"{name}.npz").exists()

    def load(self, name: str) -> Arrays | None:
        """Load the arrays that were saved under this name; None if there are none."""
        if self.path is None or not self.has(name):
            return None
        file = self.path / f"{name}.npz"
        try:
            with np.load(file, allow_pickle=False) as archive:
                return {key: archive[key] for key in archive.files}
        except Exception as error:  # errors of the zip file, of the header and of the values
            raise FileError(f"{file} is damaged ({one_line(error)}) Delete it to do its pass again.") from error

    def save(self, name: str, arrays: Arrays) -> None:
        """Save arrays; the file appears whole or not at all."""
        if self.path is not None:
            with written_whole(self.path / f"{name}.npz") as stream:
                np.savez(stream, **arrays)  # type: ignore[arg-type]

    @contextmanager
    def saving(self, name: str, state: Callable[[], Arrays]) -> Iterator[Callable[[], None]]:
        """Give a function to call after every step: it saves ``state()`` from time to time.

        The end of the context and any error in it save, too.
        """
        if self.path is None:
            yield lambda: None
            return
        last, changed = time.monotonic(), False

        def step() -> None:
            nonlocal last, changed
            changed = True
            if time.monotonic() - last >= SAVE_SECONDS:
                self.save(name, state())
                last, changed = time.monotonic(), False

        try:
            yield step
        finally:
            if changed:
                self.save(name, state())

    def part(self, name: str) -> Checkpoint:
        """Return the checkpoint of a fit that is part of this fit, in a folder of its own."""
        part = Checkpoint()
        part.seed = self.seed
        if self.path is not None:
            part.path = self.path / name
            part.path.mkdir(exist_ok=True)
        return part

    def remove(self) -> None:
        """Remove the folder, after the fit is finished."""
        if self.path is not None:
            shutil.rmtree(self.path, ignore_errors=True)


class SampleCodes:
    """The codes of a few rows, picked out of the codes of all rows as these pass by."""

    def __init__(self, rows: IntArray, packed: PackedCodes) -> None:
        self.rows, self.packed = rows, packed

    def put(self, rows: slice | IntArray, packed: PackedCodes) -> None:
        """Take codes of rows: a slice with start and stop, or ascending row numbers."""
        if isinstance(rows, slice):
            first, last = np.searchsorted(self.rows, (rows.start, rows.stop))
            self.packed[first:last] = packed[self.rows[first:last] - rows.start]
        elif len(rows):
            place = np.minimum(np.searchsorted(rows, self.rows), len(rows) - 1)
            found = rows[place] == self.rows
            self.packed[found] = packed[place[found]]


class Job:
    """How a fit is carried out. As a context it leaves no temporary file.

    Parameters
    ----------
    executor : None, concurrent.futures executor or Dask client
        None for ``n_jobs`` threads of this process.
    n_jobs : int or None
    checkpoint : Checkpoint or None
    codes : bool or file name
        Whether the codes of the rows are wanted, in memory or in a file.

    Attributes
    ----------
    codes_out : uint8 (n_rows, n_bytes) or None
        Where the packed codes of the rows are; None if no codes are wanted.
    sample_codes : SampleCodes or None
        If no codes are wanted, where the codes of a few rows are, which the calibration of the bits needs.
    """

    def __init__(
        self,
        executor: Any = None,
        n_jobs: int | None = None,
        checkpoint: Checkpoint | None = None,
        codes: bool | str | Path = True,
    ) -> None:
        self.executor, self.n_jobs = executor, n_jobs
        self.checkpoint = checkpoint or Checkpoint()
        self.codes_path = None if isinstance(codes, bool) else check_output(codes, CODE_SUFFIXES)
        self.codes_wanted = bool(codes)
        self.codes_out: PackedCodes | None = None
        self.sample_codes: SampleCodes | None = None
        self._temporary: Path | None = None

    def part(self, name: str, codes: bool) -> Job:
        """Return the job of a fit that is part of this fit: other codes, and a checkpoint of its own."""
        return Job(self.executor, self.n_jobs, self.checkpoint.part(name), codes)

    def run(self, function: TaskFunction, plan: Any, tasks: Iterable[Any]) -> Iterator[Any]:
        """Return ``function(plan, task)`` for every task, in order; see ``executors.run``."""
        return run(function, plan, tasks, self.executor, self.n_jobs)

    def open_codes(self, n_rows: int, n_bits: int, sample: IntArray | None = None) -> None:
        """Set ``codes_out``: in memory, or on disk if the codes go to a file or a checkpoint.

        The codes of the rows ``sample`` (ascending numbers) are kept even if codes are not wanted.
        """
        shape = (n_rows, codes.n_bytes(n_bits))
        if not self.codes_wanted:
            if sample is not None:
                own = (len(sample), shape[1])
                packed = self._saved_codes("sample-codes.bin", own)
                self.sample_codes = SampleCodes(sample, np.zeros(own, dtype=np.uint8) if packed is None else packed)
            return
        self.codes_out = self._saved_codes("codes.bin", shape)
        if self.codes_out is not None:
            return
        if self.codes_path is not None:
            self._temporary = self.codes_path.with_name(f".{self.codes_path.name}.{secrets.token_hex(6)}.tmp")
            self.codes_out = np.memmap(self._temporary, dtype=np.uint8, mode="w+", shape=shape)
        else:
            self.codes_out = np.zeros(shape, dtype=np.uint8)

    def _saved_codes(self, name: str, shape: tuple[int, int]) -> PackedCodes | None:
        """Open codes in the checkpoint, those of an earlier run if there was one; None without a checkpoint."""
        if self.checkpoint.path is None:
            return None
        file = self.checkpoint.path / name
        known = file.exists() and file.stat().st_size == shape[0] * shape[1]
        return np.memmap(file, dtype=np.uint8, mode="r+" if known else "w+", shape=shape)

    def put_codes(self, rows: slice | IntArray, packed: PackedCodes) -> None:
        """Write learned codes of rows: a slice with start and stop, or ascending row numbers."""
        if self.codes_out is not None:
            self.codes_out[rows] = packed
        elif self.sample_codes is not None:
            self.sample_codes.put(rows, packed)

    def flush_codes(self) -> None:
        """Write codes in files of a checkpoint to disk."""
        kept = self.codes_out if self.sample_codes is None else self.sample_codes.packed
        if isinstance(kept, np.memmap):
            kept.flush()

    def codes_of(self, sample: IntArray) -> PackedCodes:
        """Return the codes of the rows that ``open_codes`` was told to keep in any case."""
        if self.codes_out is not None:
            return np.array(self.codes_out[sample])
        assert self.sample_codes is not None
        return np.array(self.sample_codes.packed)

    def finished_codes(self, n_bits: int, **facts: str) -> PackedCodes | None:
        """Return the codes, from memory or from the file that they are written to; None if they are not wanted.

        ``facts`` are noted beside the codes in the file.
        """
        if self.codes_out is None:
            return None
        if self.codes_path is None:
            # The file of a checkpoint is removed at the end of the fit.
            return np.array(self.codes_out) if isinstance(self.codes_out, np.memmap) else self.codes_out
        info = CodeInfo.of(n_bits, "packed", "big", len(self.codes_out), **facts)
        with CodeWriter.to(self.codes_path, info) as writer:
            for start in range(0, len(self.codes_out), WRITTEN_ROWS):
                writer.append(self.codes_out[start : start + WRITTEN_ROWS])
        if self.codes_path.suffix.lower() == ".npz":
            with np.load(self.codes_path) as archive:
                return archive["codes"]
        return np.load(self.codes_path, mmap_mode="r")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.codes_out = self.sample_codes = None
        if self._temporary is not None:
            with contextlib.suppress(OSError):
                self._temporary.unlink(missing_ok=True)
