"""How a fit over chunks is to be done: by whom, with which checkpoint, and where the codes of the rows go."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from hashlearn import codes
from hashlearn.files.codes import CODE_SUFFIXES, CodeInfo, CodeWriter
from hashlearn.files.output import check_output
from hashlearn.fitting.checkpoint import Checkpoint
from hashlearn.fitting.executors import Work, run
from hashlearn.fitting.parts import ArrayPart
from hashlearn.fitting.sources import PartList, Source

_WRITTEN_ROWS = 1 << 20


class Job:
    """``run`` does tasks, ``open_codes`` gives room for the codes and ``finished_codes`` puts them where they belong.

    As a context it leaves no temporary file behind.
    """

    def __init__(
        self,
        executor: Any = None,
        n_jobs: int | None = None,
        checkpoint: Checkpoint | None = None,
        wanted: bool | str | Path = True,
    ) -> None:
        self.executor, self.n_jobs = executor, n_jobs
        self.checkpoint = checkpoint or Checkpoint(None, {})
        self.path = None if isinstance(wanted, bool) else check_output(wanted, CODE_SUFFIXES)
        self.wanted = bool(wanted)
        self.room: NDArray[np.uint8] | None = None
        self._temporary: Path | None = None

    def run(self, function: Work, shared: Any, tasks: Iterable[Any]) -> Iterator[Any]:
        return run(function, shared, tasks, self.executor, self.n_jobs)

    def open_codes(self, n_rows: int, n_bits: int) -> NDArray[np.uint8] | None:
        """Room for the packed codes of all rows: in memory, or on disk where they go to a file or a checkpoint."""
        shape = (n_rows, codes.n_bytes(n_bits))
        if not self.wanted:
            return None
        if self.checkpoint.path is not None:
            file = self.checkpoint.path / "codes.bin"
            known = file.exists() and file.stat().st_size == shape[0] * shape[1]
            self.room = np.memmap(file, dtype=np.uint8, mode="r+" if known else "w+", shape=shape)
        elif self.path is not None:
            self._temporary = self.path.with_name(f".{self.path.name}.{secrets.token_hex(6)}.tmp")
            self.room = np.memmap(self._temporary, dtype=np.uint8, mode="w+", shape=shape)
        else:
            self.room = np.zeros(shape, dtype=np.uint8)
        return self.room

    def finished_codes(self, n_bits: int, **facts: str) -> NDArray[np.uint8] | None:
        """The codes, in memory or as the file that was asked for, opened; None if nobody wants them."""
        if self.room is None:
            return None
        if self.path is None:
            return np.array(self.room) if isinstance(self.room, np.memmap) else self.room
        with CodeWriter.to(self.path, CodeInfo.of(n_bits, "packed", "big", len(self.room), **facts)) as writer:
            for start in range(0, len(self.room), _WRITTEN_ROWS):
                writer.append(self.room[start : start + _WRITTEN_ROWS])
        if self.path.suffix.lower() == ".npz":
            with np.load(self.path) as archive:
                return archive["codes"]
        return np.load(self.path, mmap_mode="r")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.room = None
        if self._temporary is not None:
            with contextlib.suppress(OSError):
                self._temporary.unlink(missing_ok=True)


def memory_source(X: Any, group: NDArray[np.intp] | None) -> Source:
    """Rows in memory and their group numbers, as the source that they are."""
    return Source(PartList([ArrayPart(X)]), None if group is None else PartList([ArrayPart(group)]))
