"""Finished runs on disk: one JSON file and one npz file per run, and one file of labels per split.

The name of a run ends in a hash of its definition, so a run is found again and not made twice. The codes are written
before the JSON, so a run that has its JSON file is complete. Files with other names (a report, notes) in the same
folder are ignored.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hashlearn.files.arrays import FileError
from hashlearn.files.output import written_whole

FORMAT = 2
# Format 1 (hashlearn 0.2 and earlier) had the version of hashlearn instead of a hash of the method's code.
_READABLE = (1, FORMAT)
_HASH_LETTERS = 16
_RUN_FILE = re.compile(rf".*-[0-9a-f]{{{_HASH_LETTERS}}}\.json")


@dataclass(frozen=True)
class RunDefinition:
    """The fields that define a run. Two runs with the same definition are the same run.

    ``code`` is a hash of the method's code (``bench.method_code``). Runs of hashlearn 0.2 have the version of
    ``hashlearn`` instead; later runs do not have that field.
    """

    data: str
    protocol: str
    split: str
    split_hash: str
    seed: int
    label: str
    method: str
    settings: dict[str, Any]
    n_bits: int
    code: str = ""
    hashlearn: str = ""

    def facts(self) -> dict[str, Any]:
        """All fields by name, without ``code`` or ``hashlearn`` if the run does not have it."""
        return {name: value for name, value in asdict(self).items() if value or name not in ("code", "hashlearn")}

    def without_code(self) -> RunDefinition:
        """The same definition for any code of the method."""
        return replace(self, code="", hashlearn="")

    @property
    def key(self) -> str:
        """The name of the run: a readable part, and a hash of all fields."""
        text = json.dumps(self.facts(), sort_keys=True)
        digest = hashlib.sha256(text.encode()).hexdigest()[:_HASH_LETTERS]
        readable = re.sub(r"[^A-Za-z0-9+-]+", "_", f"{self.split}-{self.label}-{self.n_bits}b-s{self.seed}")
        return f"{readable}-{digest}"

    def __str__(self) -> str:
        return f"{self.label}, {self.n_bits} bits, {self.split}, seed {self.seed}"


@dataclass(frozen=True)
class BenchRun:
    """A finished run without its codes. If it failed, ``error`` is its message and most other fields are empty."""

    definition: RunDefinition
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
    source: dict[str, Any] = field(default_factory=dict)
    finished: str = ""
    traceback: str | None = None
    format: int = FORMAT

    @property
    def key(self) -> str:
        return self.definition.key


@dataclass(frozen=True)
class RunCodes:
    """Packed codes of a run. ``learned`` is None if the database is not the training rows.

    ``expected`` holds real-valued queries (see ``expected_bits``); None if the database is the training rows, and in
    runs of hashlearn 0.2.
    """

    query: NDArray[np.uint8]
    hashed: NDArray[np.uint8]
    learned: NDArray[np.uint8] | None
    expected: NDArray[np.float32] | None = None


class RunStore:
    """A folder of runs."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def make(self) -> None:
        """Make the folder if it does not exist."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise FileError(f"The folder {self.folder} cannot be made: {error.strerror}.") from error

    def get(self, key: str) -> BenchRun | None:
        """The run with that name, or None."""
        path = self.folder / f"{key}.json"
        return _read_run(path) if path.exists() else None

    def runs(self) -> list[BenchRun]:
        """All runs, also those that failed, in the order of their names. FileError if there are none."""
        if not self.folder.is_dir():
            raise FileError(f"There is no folder {self.folder}.")
        runs = self._all()
        if not runs:
            raise FileError(f"The folder {self.folder} holds no runs.")
        return runs

    def of_any_code(self) -> dict[str, BenchRun]:
        """The newest successful run of each definition, by the key of the definition without the code."""
        runs = sorted((run for run in self._all() if run.error is None), key=lambda run: run.finished)
        return {run.definition.without_code().key: run for run in runs}

    def _all(self) -> list[BenchRun]:
        return [_read_run(path) for path in sorted(self.folder.glob("*.json")) if _RUN_FILE.fullmatch(path.name)]

    def codes(self, run: BenchRun) -> RunCodes:
        """The codes of a run that did not fail."""
        arrays = self._load(f"{run.key}.npz")
        return RunCodes(arrays["query"], arrays["hashed"], arrays.get("learned"), arrays.get("expected"))

    def labels(self, run: BenchRun) -> tuple[NDArray[Any], NDArray[Any]]:
        """Labels of the queries and of the database."""
        arrays = self._load(str(run.labels))
        return arrays["query"], arrays["database"]

    def save_labels(self, query: NDArray[Any], database: NDArray[Any]) -> str:
        """Keep the labels of a split. The file name is a hash of the labels, so all runs of a split share one file."""
        digest = hashlib.sha256()
        for values in (query, database):
            digest.update(f"{values.dtype.str}{values.shape}".encode() + np.ascontiguousarray(values).tobytes())
        name = f"labels-{digest.hexdigest()[:_HASH_LETTERS]}.npz"
        if not (self.folder / name).exists():
            self._save(name, {"query": query, "database": database})
        return name

    def save(self, run: BenchRun, codes: RunCodes | None) -> None:
        """Keep a run, and delete the scores of an earlier run with the same name, which had other codes."""
        for stale in self.folder.glob(f"scores/{run.key}.*"):
            stale.unlink(missing_ok=True)
        if codes is not None:
            arrays = {one.name: getattr(codes, one.name) for one in fields(codes)}
            self._save(f"{run.key}.npz", {name: value for name, value in arrays.items() if value is not None})
        write_json(self.folder / f"{run.key}.json", asdict(run) | {"definition": run.definition.facts()})

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
    """Write a JSON file that appears only when it is complete. NaN, which JSON does not have, raises a ValueError."""
    text = json.dumps(value, indent=1, allow_nan=False)
    with written_whole(path) as stream:
        stream.write(text.encode())


def _read_run(path: Path) -> BenchRun:
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
        if fields.get("format") not in _READABLE:
            raise FileError(f"{path} is of format {fields.get('format')}; this version reads formats {_READABLE}.")
        return BenchRun(**{**fields, "definition": RunDefinition(**fields["definition"])})
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        if isinstance(error, FileError):
            raise
        raise FileError(f"{path} is not a run of hashlearn bench.") from error
