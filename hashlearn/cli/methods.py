"""``hashlearn methods``: list the methods that can be fitted."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from hashlearn.cli.shell import epilog, new_table, output, print_json
from hashlearn.hashers import find_method, method_names
from hashlearn.methodinfo import MethodInfo

app = typer.Typer()

_FIELDS = ("title", "year", "kind", "supervision", "verified")
_NARROW = ("title", "year", "supervision", "passes", "verified")
_WIDE = 240


@app.command(epilog=epilog("hashlearn methods", "hashlearn methods --json"))
def methods(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print a Markdown table, as in docs/methods.md.")
    ] = False,
) -> None:
    """List the methods that [bold]fit[/bold] knows, with their papers.

    The column "passes" is how many times a fit reads the rows if they come in chunks; other methods need all rows in
    memory.
    """
    facts = {name: _facts(find_method(name).info) for name in method_names()}
    if as_json:
        print_json({"methods": [{"name": name, **fields} for name, fields in facts.items()]})
        return
    if markdown:
        typer.echo(markdown_table())
        return
    console = output()
    # In a narrow terminal, kinds, costs and papers get separate lines, because their columns would be one word wide.
    wide = console.width >= _WIDE
    columns = (*_FIELDS, "cost", "passes", "paper") if wide else _NARROW
    table = new_table("name", *columns, right=("year",))
    for name, fields in facts.items():
        table.add_row(name, *(_shown(fields[column]) for column in columns))
    console.print(table)
    if not wide:
        console.print()
        for name, fields in facts.items():
            console.print(f"{name}: {fields['kind']}. {fields['paper']}. Cost {fields['cost']}.", markup=False)


def markdown_table() -> str:
    """The table of docs/methods.md."""
    columns = ("title", "year", "kind", "supervision", "cost", "passes", "verified", "paper")
    lines = [f"| name | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    for name in method_names():
        facts = _facts(find_method(name).info)
        lines.append(f"| `{name}` | {' | '.join(_shown(facts[column]).replace('|', '/') for column in columns)} |")
    return "\n".join(lines)


def _facts(info: MethodInfo) -> dict[str, Any]:
    return {
        "title": info.title,
        "year": info.year,
        "kind": info.kind,
        "supervision": info.supervision_text,
        "verified": info.verified,
        "cost": info.cost,
        "passes": info.passes,
        "paper": info.reference,
    }


def _shown(value: Any) -> str:
    if value is None:
        return "in memory"
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)
