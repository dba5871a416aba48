"""The old name of ``hashlearn.fitting``, for code that imports from ``hashlearn.chunks``; it goes with release 0.4."""

from typing import Any

from hashlearn import fitting
from hashlearn.deprecation import renamed_attribute


def __getattr__(name: str) -> Any:
    return renamed_attribute(__name__, name, {n: f"hashlearn.fitting.{n}" for n in fitting.__all__}, since="0.3")
