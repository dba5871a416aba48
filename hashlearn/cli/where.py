"""The option ``--where`` of several commands."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from hashlearn.cli.shell import BadUse

Where = Annotated[
    str | None,
    typer.Option(metavar="JSON", help="""Only rows whose payload matches, such as '{"year": {">=": 2020}}'."""),
]


def read_where(text: str | None) -> dict[str, Any] | None:
    """Parse the filter as a JSON object. The collection checks its content."""
    return read_object(text, "--where")


def read_object(text: str | None, option: str) -> dict[str, Any] | None:
    """Parse the value of an option, which must be a JSON object."""
    if text is None:
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadUse(f'{option} is no JSON ({error}); write it as \'{{"color": "red"}}\'.') from None
    if not isinstance(value, dict):
        raise BadUse(f"{option} must be a JSON object such as '{{\"color\": \"red\"}}'. Got '{text}'.")
    return value
