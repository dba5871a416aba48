"""The JavaScript module and the NumPy file: a fixed program with the model put into it."""

from __future__ import annotations

import json
from pathlib import Path

from hashlearn.exporting.bundle import as_json
from hashlearn.exporting.steps import Description


def numpy_file(description: Description) -> bytes:
    """Return a Python file that needs NumPy alone."""
    return _filled("runtime.py.txt", description)


def javascript_module(description: Description) -> bytes:
    """Return an ES module for browsers and Node."""
    return _filled("runtime.mjs", description)


def _filled(program: str, description: Description) -> bytes:
    text = Path(__file__).with_name(program).read_text(encoding="utf-8")
    for mark, value in (
        ("METHOD", description.method),
        ("N_BITS", str(description.n_bits)),
        ("N_FEATURES", str(description.n_features)),
    ):
        text = text.replace(mark, value, 1)
    # JSON of a text without control characters is a string of both languages.
    return text.replace('"MODEL_JSON"', json.dumps(as_json(description))).encode()
