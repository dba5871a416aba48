"""A description as JSON text, with arrays as base64: what the JavaScript and the NumPy file carry in themselves."""

from __future__ import annotations

import base64
import json
from dataclasses import fields
from typing import Any

import numpy as np

from hashlearn.exporting.steps import Description, Join, Step


def as_json(description: Description) -> str:
    """Return the description as one line of JSON.

    An array is ``{"type": "f4", "shape": [3, 2], "data": "..."}``: little-endian numbers in row order. Single precision
    stays single precision, so the text is not longer than the model needs.
    """
    value = {name: _value(getattr(description, name)) for name in ("method", "n_features", "n_bits")}
    value["steps"] = [_step(step) for step in description.steps]
    value |= {name: _value(getattr(description, name)) for name in ("slopes", "offsets", "shift")}
    return json.dumps(value, allow_nan=False)


def _step(step: Step) -> dict[str, Any]:
    if isinstance(step, Join):
        return {"step": step.name, "parts": [[_step(inner) for inner in part] for part in step.parts]}
    return {"step": step.name, **{field.name: _value(getattr(step, field.name)) for field in fields(step)}}


def _value(value: Any) -> Any:
    if not isinstance(value, np.ndarray):
        return value
    kind = {"float32": "<f4", "int32": "<i4"}.get(value.dtype.name, "<f8")
    data = base64.b64encode(np.ascontiguousarray(value, dtype=kind).tobytes()).decode()
    return {"type": kind[1:], "shape": list(value.shape), "data": data}
