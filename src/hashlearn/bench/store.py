"""Finished runs on disk: one JSON file and one npz file per run, and one file of labels per split.

A run also notes what its numbers depend on besides the method: the machine, the libraries and the memory.

The name of a run ends in a hash of its definition, so a run is found again and not made twice. The codes are written
before the JSON, so a run that has its JSON file is complete. Files with other names (a report, notes) in the same
folder are ignored.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import sys
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_info

import hashlearn
from hashlearn.codecs import NotSuited
from hashlearn.files.arrays import FileError
from hashlearn.files.output import written_whole
from hashlearn.parallel import thread_count

_HASH_LETTERS = 16
_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
_LIBRARIES = ("numpy", "scipy", "scikit-learn", "faiss-cpu", "lightgbm")
_RUN_FILE = re.compile(rf".*-[0-9a-f]{{{_HASH_LETTERS}}}\.json")


@dataclass(frozen=True)
class RunDefinition:
    """The fields that define a run. Two runs with the same definition are the same run.

    ``revision`` is that of the method (``MethodInfo.revision``) or codec. ``settings`` must be plain values.
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
    revision: int = 1

    def any_revision(self) -> RunDefinition:
        """Return the same definition for any revision of the method."""
        return replace(self, revision=0)

    @property
    def key(self) -> str:
        """The name of the run: a readable part, and a hash of all fields."""
        text = json.dumps(asdict(self), sort_keys=True)
        digest = hashlib.sha256(text.encode()).hexdigest()[:_HASH_LETTERS]
        readable = re.sub(r"[^A-Za-z0-9+-]+", "_", f"{self.split}-{self.label}-{self.n_bits}b-s{self.seed}")
        return f"{readable}-{digest}"

    def __str__(self) -> str:
        bits = f"{self.n_bits} bits, " if self.n_bits else ""
        return f"{self.label}, {bits}{self.split}, seed {self.seed}"


@dataclass(frozen=True)
class BenchRun:
    """A finished run without its codes. If it failed, ``error`` is its message and most other fields are empty.

    ``views`` is what the frontier measures: numbers by name for each way to search the same codes. Such runs keep no
    codes, and ``labels`` is None.
    """

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
    views: dict[str, dict[str, float]] = field(default_factory=dict)
    machine: dict[str, Any] = field(default_factory=dict)
    source: dict[str, Any] = field(default_factory=dict)
    finished: str = ""
    traceback: str | None = None
    format: int = 3

    @property
    def key(self) -> str:
        return self.definition.key

    @property
    def unsuited(self) -> bool:
        """Whether there is no run because the codec does not suit the data, which is no failure."""
        return (self.error or "").startswith(NotSuited.__name__)


@dataclass(frozen=True)
class RunCodes:
    """Packed codes of a run. ``learned`` is None if the database is not the training rows.

    ``expected`` holds real-valued queries (see ``expected_bits``); None if the database is the training rows.
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
        """Return the run with that name, or None."""
        path = self.folder / f"{key}.json"
        return _read_run(path) if path.exists() else None

    def runs(self) -> list[BenchRun]:
        """Return all runs, also those that failed, in the order of their names. FileError if there are none."""
        if not self.folder.is_dir():
            raise FileError(f"There is no folder {self.folder}.")
        runs = self._all()
        if not runs:
            raise FileError(f"The folder {self.folder} holds no runs.")
        return runs

    def newest(self) -> dict[str, BenchRun]:
        """Return the newest successful run of each definition, by the key of the definition of any revision."""
        runs = sorted((run for run in self._all() if run.error is None), key=lambda run: run.finished)
        return {run.definition.any_revision().key: run for run in runs}

    def _all(self) -> list[BenchRun]:
        return [_read_run(path) for path in sorted(self.folder.glob("*.json")) if _RUN_FILE.fullmatch(path.name)]

    def codes(self, run: BenchRun) -> RunCodes:
        """Return the codes of a run that did not fail."""
        arrays = self._load(f"{run.key}.npz")
        return RunCodes(arrays["query"], arrays["hashed"], arrays.get("learned"), arrays.get("expected"))

    def labels(self, run: BenchRun) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the labels of the queries and of the database."""
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
    """Write a JSON file that appears only when it is complete. NaN, which JSON does not have, raises a ValueError."""
    text = json.dumps(value, indent=1, allow_nan=False)
    with written_whole(path) as stream:
        stream.write(text.encode())


def _read_run(path: Path) -> BenchRun:
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
        return BenchRun(**{**fields, "definition": RunDefinition(**fields["definition"])})
    except (ValueError, TypeError, KeyError) as error:
        raise FileError(f"{path} is not a run of this version of hashlearn bench.") from error


@cache
def _cpu_name() -> str:
    """Return the model name that the processor reports."""
    names = _fields(Path("/proc/cpuinfo"), "model name")
    return names[0] if names else platform.processor() or platform.machine()


def _fields(path: Path, name: str) -> list[str]:
    """Return the values of a field in a file of the kernel; none on systems without that file."""
    lines = path.read_text().splitlines() if path.exists() else []
    return [line.partition(":")[2].strip() for line in lines if line.startswith(name)]


def machine_facts(threads: int) -> dict[str, Any]:
    """Return processor, system, threads and versions of the numerical libraries, ready for JSON."""
    versions = {"hashlearn": hashlearn.__version__, "python": platform.python_version()}
    for name in _LIBRARIES:
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    blas = {f"{one['internal_api']} {one['version']}" for one in threadpool_info() if one["user_api"] == "blas"}
    return {
        "cpu": _cpu_name(),
        "cores": thread_count(None),
        "threads": threads,
        "platform": platform.platform(),
        "versions": versions,
        "blas": sorted(blas),
    }


def start_peak_memory() -> None:
    """Reset the peak of resident memory, so that it covers one run only, where the system can do that."""
    with suppress(OSError):
        _CLEAR.write_text("5")


def peak_memory() -> int | None:
    """Return the peak resident memory in bytes since ``start_peak_memory`` (of the process if that could not reset)."""
    peak = _fields(_STATUS, "VmHWM:")
    if peak:
        return int(peak[0].split()[0]) * 1024
    if os.name != "posix":
        return None
    import resource

    # macOS reports bytes, other systems kilobytes.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def now() -> str:
    """Return the present time, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")
