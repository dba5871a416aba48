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
    if text is None:
        return None
    try:
        where = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadUse(f'--where is no JSON ({error}); write it as \'{{"color": "red"}}\'.') from None
    if not isinstance(where, dict):
        raise BadUse(f"--where must be a JSON object such as '{{\"color\": \"red\"}}'. Got '{text}'.")
    return where
