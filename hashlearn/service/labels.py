"""The labels of items, as the explorer page reads them: a single value, or a list of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def labels_of(payload: Mapping[str, Any], field: str | None) -> list[str]:
    """The labels in a field of a payload as text; none where the field is missing or holds something else."""
    value = None if field is None else payload.get(field)
    listed = value if isinstance(value, list) else [value]
    return [_text(label) for label in listed if isinstance(label, (str, int, float))]


def _text(label: str | float) -> str:
    """The label as JavaScript writes it, so that the page and the service name it alike."""
    if isinstance(label, bool):
        return "true" if label else "false"
    if isinstance(label, float) and label.is_integer() and abs(label) < 2**53:
        return str(int(label))
    return str(label)
