"""Finished runs on disk: one JSON and one npz a run, and the labels of each split once.

A run's name ends in a hash of what defines it, so the same run is found again and never made twice. The codes are
written before the JSON: a run that has its JSON is whole.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hashlearn.files.arrays import FileError
from hashlearn.files.output import written_whole

FORMAT = 1
_HASH_LETTERS = 16


@dataclass(frozen=True)
class Definition:
    """What defines a run. Two runs with the same definition are the same run."""

    data: str
    protocol: str
    split: str
    split_hash: str
    seed: int
    label: str
    method: str
    settings: dict[str, Any]
    n_bits: int
    hashlearn: str

    @property
    def key(self) -> str:
        """The run's name: readable, and ending in a hash of everything."""
        text = json.dumps(asdict(self), sort_keys=True)
        digest = hashlib.sha256(text.encode()).hexdigest()[:_HASH_LETTERS]
        readable = re.sub(r"[^A-Za-z0-9+-]+", "_", f"{self.split}-{self.label}-{self.n_bits}b-s{self.seed}")
        return f"{readable}-{digest}"

    def __str__(self) -> str:
        return f"{self.label}, {self.n_bits} bits, {self.split}, seed {self.seed}"


@dataclass(frozen=True)
class Run:
    """A finished run without its codes. ``error`` is None unless it failed, and then the rest is mostly empty."""

    definition: Definition
    error: str | None = None
    labels: str | None = None
    parameters: dict[str, Any] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    phases: dict[str, float] = field(default_factory=dict)
    peak_memory_bytes: int | None = None
    rows: dict[str, int] = field(default_factory=dict)
    trace: dict[str, list[float]] = field(default_factory=dict)
    measured: dict[str, float] = field(default_factory=dict)
    machine: dict[str, Any] = field(default_factory=dict)
    finished: str = ""
    traceback: str | None = None
    format: int = FORMAT

    @property
    def key(self) -> str:
        return self.definition.key


@dataclass(frozen=True)
class Codes:
    """Packed codes of a run; ``learned`` is None where the database is not the training rows."""

    query: NDArray[np.uint8]
    hashed: NDArray[np.uint8]
    learned: NDArray[np.uint8] | None


class Store:
    """A folder of runs."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def make(self) -> None:
        """Make the folder where it is not there yet."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise FileError(f"The folder {self.folder} cannot be made: {error.strerror}.") from error

    def get(self, key: str) -> Run | None:
        """The run of that name, or None."""
        path = self.folder / f"{key}.json"
        return _read_run(path) if path.exists() else None

    def runs(self) -> list[Run]:
        """All runs, the failed ones too, in the order of their names."""
        if not self.folder.is_dir():
            raise FileError(f"There is no folder {self.folder}.")
        runs = [_read_run(path) for path in sorted(self.folder.glob("*.json"))]
        if not runs:
            raise FileError(f"The folder {self.folder} holds no runs.")
        return runs

    def codes(self, run: Run) -> Codes:
        """The codes of a run that did not fail."""
        arrays = self._load(f"{run.key}.npz")
        return Codes(arrays["query"], arrays["hashed"], arrays.get("learned"))

    def labels(self, run: Run) -> tuple[NDArray[Any], NDArray[Any]]:
        """Labels of the queries and of the database."""
        arrays = self._load(str(run.labels))
        return arrays["query"], arrays["database"]

    def save_labels(self, query: NDArray[Any], database: NDArray[Any]) -> str:
        """Keep the labels of a split; its file is named by what is in it, so all runs of a split share one."""
        digest = hashlib.sha256()
        for values in (query, database):
            digest.update(f"{values.dtype.str}{values.shape}".encode() + np.ascontiguousarray(values).tobytes())
        name = f"labels-{digest.hexdigest()[:_HASH_LETTERS]}.npz"
        if not (self.folder / name).exists():
            self._save(name, {"query": query, "database": database})
        return name

    def save(self, run: Run, codes: Codes | None) -> None:
        """Keep a run. Scores of an earlier run of that name go: they were of other codes."""
        for stale in self.folder.glob(f"scores/{run.key}.*"):
            stale.unlink(missing_ok=True)
        if codes is not None:
            arrays = {"query": codes.query, "hashed": codes.hashed, "learned": codes.learned}
            self._save(f"{run.key}.npz", {name: value for name, value in arrays.items() if value is not None})
        write_json(self.folder / f"{run.key}.json", asdict(run))

    def _save(self, name: str, arrays: dict[str, NDArray[Any]]) -> None:
        with written_whole(self.folder / name) as stream:
            np.savez_compressed(stream, allow_pickle=False, **arrays)

    def _load(self, name: str) -> dict[str, NDArray[Any]]:
        path = self.folder / name
        try:
            with np.load(path, allow_pickle=False) as archive:
                return dict(archive)
        except FileNotFoundError as error:
            raise FileError(f"{path} is missing: the run it belongs to must be made again.") from error
        except Exception as error:
            raise FileError(f"{path} is damaged: {error}") from error


def write_json(path: Path, value: Any) -> None:
    """A JSON file that appears whole; NaN, which JSON does not have, is a bug of ours and fails."""
    text = json.dumps(value, indent=1, allow_nan=False)
    with written_whole(path) as stream:
        stream.write(text.encode())


def _read_run(path: Path) -> Run:
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
        if fields.get("format") != FORMAT:
            raise FileError(f"{path} is of format {fields.get('format')}; this version reads format {FORMAT}.")
        return Run(**{**fields, "definition": Definition(**fields["definition"])})
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        if isinstance(error, FileError):
            raise
        raise FileError(f"{path} is not a run of hashlearn bench.") from error
