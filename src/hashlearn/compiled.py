"""Compiled parts of the package. If one is missing, Python does the same work more slowly and a warning says so."""

from __future__ import annotations

import warnings
from importlib import import_module
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any

# What becomes slower without each part, as measured by benchmarks/compiled.py.
LOSSES = {
    "hashlearn.pairwise._flips": "GSDHP takes 5 to 10 times as long to learn codes",
    "hashlearn.pairwise._slopes": "GSDHP with 'hinge' or a loss of your own takes up to 2 times as long to learn codes",
    "hashlearn.index._scan": "exact search takes 1.5 to 13 times as long, and 300 times by expected bits or tables",
}
_warned_about: set[str] = set()  # names of missing parts


def compiled_part(name: str) -> Any:
    """Return the compiled module with this full name, or None if it cannot be imported.

    The warning for the first missing part names all parts whose files are missing, so that a process warns only once.
    """
    try:
        return import_module(name)
    except ImportError as error:
        _warn_once(name, str(error))
        return None


def _is_built(name: str) -> bool:
    """Whether the file of a part exists. Importing the part to find out would take more time."""
    place = Path(__file__).parent.joinpath(*name.split(".")[1:])
    return any(place.with_name(place.name + suffix).exists() for suffix in EXTENSION_SUFFIXES)


def _warn_once(name: str, reason: str) -> None:
    if name in _warned_about:
        return
    missing = [part for part in LOSSES if part == name or not _is_built(part)]
    _warned_about.update(missing)
    losses = "; ".join(LOSSES[part] for part in missing)
    warnings.warn(
        f"hashlearn runs without its compiled parts {', '.join(missing)} ({reason}), so {losses}. "
        "Everything works; for the speed, install a C compiler and then hashlearn again.",
        RuntimeWarning,
        stacklevel=4,
    )
