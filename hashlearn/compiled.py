"""The compiled parts of the package. Where one is missing, Python does the same work and one warning names the loss."""

from __future__ import annotations

import warnings
from importlib import import_module
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any

# What takes how many times as long without the part, by benchmarks/compiled.py.
LOSSES = {
    "hashlearn.solvers._flips": "GSDHP takes 5 to 10 times as long to learn codes",
    "hashlearn.solvers._slopes": "GSDHP with 'hinge' or a loss of your own takes up to 2 times as long to learn codes",
    "hashlearn.index._nibbles": "real-valued queries take 2 to 3 times as long",
}
_told: set[str] = set()  # parts that a warning has named


def compiled_part(name: str) -> Any:
    """The compiled module of this full name, or None where it cannot be imported.

    The first part that is missing warns for all whose files are missing, so that a process warns once.
    """
    try:
        return import_module(name)
    except ImportError as error:
        _warn_once(name, str(error))
        return None


def _is_built(name: str) -> bool:
    """Whether the file is there; importing the others to find out would take time that nobody asked for."""
    place = Path(__file__).parent.joinpath(*name.split(".")[1:])
    return any(place.with_name(place.name + suffix).exists() for suffix in EXTENSION_SUFFIXES)


def _warn_once(name: str, reason: str) -> None:
    if name in _told:
        return
    missing = [part for part in LOSSES if part == name or not _is_built(part)]
    _told.update(missing)
    losses = "; ".join(LOSSES[part] for part in missing)
    warnings.warn(
        f"hashlearn runs without its compiled parts {', '.join(missing)} ({reason}), so {losses}. "
        "Everything works; for the speed, install a C compiler and then hashlearn again.",
        RuntimeWarning,
        stacklevel=4,
    )
