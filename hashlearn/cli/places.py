"""What the commands on collections share: where a collection is, and how facts are told."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from hashlearn import codes
from hashlearn.cli.shell import print_facts, print_json

Uri = Annotated[
    str, typer.Argument(metavar="WHERE", help="A folder, milvus://host:port/name or postgresql://user@host/database.")
]
BitOrder = Annotated[
    codes.BitOrder, typer.Option("--bit-order", help="Bit order of codes made elsewhere (faiss: little).")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]


def tell(facts: dict[str, Any], as_json: bool) -> None:
    """Facts on standard output; what is empty is left out of the text."""
    if as_json:
        print_json(facts)
    else:
        kept = {name: value for name, value in facts.items() if value not in (None, {}, [])}
        print_facts({name.replace("_", " "): _shown(value) for name, value in kept.items()})


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}={item}" for name, item in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
