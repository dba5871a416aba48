"""What the commands on collections share: where a collection is, and how facts are told."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from hashlearn.cli.shell import print_facts, print_json

Uri = Annotated[
    str, typer.Argument(metavar="WHERE", help="A folder, milvus://host:port/name or postgresql://user@host/database.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]


def tell(facts: dict[str, Any], as_json: bool) -> None:
    """Facts on standard output; what is empty is left out of the text."""
    if as_json:
        print_json(facts)
    else:
        print_facts({name.replace("_", " "): value for name, value in facts.items() if value not in (None, {}, [])})
