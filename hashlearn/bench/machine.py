"""Facts that a measured number depends on besides the method: the machine, the libraries and the memory of a run."""

from __future__ import annotations

import os
import platform
import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_info

import hashlearn
from hashlearn.parallel import thread_count

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
_LIBRARIES = ("numpy", "scipy", "scikit-learn", "faiss-cpu", "lightgbm")


@cache
def cpu_name() -> str:
    """The model name that the processor reports."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def library_versions() -> dict[str, str]:
    """Versions of hashlearn, Python and the numerical libraries that are installed."""
    found = {"hashlearn": hashlearn.__version__, "python": platform.python_version()}
    for name in _LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def machine_facts(threads: int) -> dict[str, Any]:
    """Processor, system, threads and versions, ready for JSON."""
    blas = {
        f"{library['internal_api']} {library['version']}"
        for library in threadpool_info()
        if library["user_api"] == "blas"
    }
    return {
        "cpu": cpu_name(),
        "cores": thread_count(None),
        "threads": threads,
        "platform": platform.platform(),
        "versions": library_versions(),
        "blas": sorted(blas),
    }


def start_peak_memory() -> bool:
    """Reset the peak of resident memory, so that it covers one run only. Returns False if that is impossible."""
    try:
        _CLEAR.write_text("5")
    except OSError:
        return False
    return True


def peak_memory() -> int | None:
    """Peak resident memory in bytes since ``start_peak_memory``, or of the whole process if that could not reset it."""
    try:
        for line in _STATUS.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    if os.name != "posix":
        return None
    import resource

    # macOS reports bytes, other systems kilobytes.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
