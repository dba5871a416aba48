"""``hashlearn methods``: list the methods that can be fitted, or tell about one of them."""

from __future__ import annotations

from dataclasses import MISSING
from typing import Annotated, Any

import typer

from hashlearn.cli.options import AsJson
from hashlearn.cli.shell import PROSE_WIDTH, epilog, folded, print_json, print_table, unknown_name, width_of_output
from hashlearn.hashers.base import BaseHasher
from hashlearn.methodinfo import MethodInfo
from hashlearn.methods import find_method, method_names
from hashlearn.parameters import declared_parameters

app = typer.Typer()

ADVICE = {
    "search in hashlearn: take it first": "open",
    "search by Hamming distance in another engine": "auto",
    "labels, and new rows of the same classes": "gsdhp",
    "no labels": "itq",
    "label sets in codes of at most 16 bits": "cca-itq",
    "a baseline that learns nothing": "lsh",
}


@app.command(epilog=epilog("hashlearn methods", "hashlearn methods gsdhp", "hashlearn methods --json"))
def methods(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="Tell about this method only.")] = None,
    as_json: AsJson = False,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print a Markdown table, as in docs/methods.md.")
    ] = False,
) -> None:
    """List the methods that [bold]fit[/bold] knows, or tell about one of them.

    Methods that learn from "sets" learn from classes too. The column "passes" is how many times a fit reads the rows
    if they come in chunks; other methods need all rows in memory.
    """
    if name is not None:
        _tell_about(name, as_json)
        return
    infos = {one: find_method(one).info for one in method_names()}
    if as_json:
        print_json({"methods": [{"name": one, **_facts(info)} for one, info in infos.items()]})
        return
    if markdown:
        print(markdown_table())
        return
    print("Which one to pick:")
    for case, pick in ADVICE.items():
        print(f"  {pick:<9} {case}")
    print()
    rows = [
        (one, info.title, str(info.year), _source(info), info.passes_text, _shown(info.verified))
        for one, info in infos.items()
    ]
    print_table(("name", "title", "year", "learns from", "passes", "verified"), rows, right=("year",))
    print("\nhashlearn methods NAME tells more about one of them.")


def _tell_about(name: str, as_json: bool) -> None:
    if name not in method_names():
        raise unknown_name("method", name, method_names())
    method = find_method(name)
    facts = {"name": name, **_facts(method.info), "about": _first_paragraph(method), "remark": method.info.remark}
    parameters = [
        {"name": one.name, "default": None if one.default is MISSING else one.default, "meaning": one.metadata["doc"]}
        for one in declared_parameters(method).values()
    ]
    if as_json:
        print_json({**facts, "parameters": [{**one, "default": _json_value(one["default"])} for one in parameters]})
        return
    width = width_of_output() or PROSE_WIDTH
    shown = {**facts, "learns from": facts["supervision"] if method.info.supervised else "features alone"}
    for field in ("about", "paper", "kind", "learns from", "cost", "passes", "verified", "remark"):
        if shown[field] != "":
            print(folded(f"{field:<12} {_shown(shown[field])}", indent=13, width=width))
    print()
    rows = [(one["name"], repr(one["default"]), one["meaning"]) for one in parameters]
    print_table(("parameter", "default", "meaning"), rows, width=width)
    labels = " --labels y.npy" if method.info.supervised else ""
    print(f"\nhashlearn fit X.npy{labels} --method {name} --bits 64 -o model.hl")


def _first_paragraph(method: type[BaseHasher]) -> str:
    return " ".join((method.__doc__ or "").partition("\n\n")[0].split())


def _json_value(value: Any) -> Any:
    return value if isinstance(value, (int, float, str, bool, type(None))) else repr(value)


def markdown_table() -> str:
    """Return the table of docs/methods.md."""
    lines = ["| name | title | kind | learns from | passes | verified | published |", "|---" * 7 + "|"]
    for name in method_names():
        info = find_method(name).info
        facts = (info.title, info.kind, _source(info), info.passes_text, _shown(info.verified), info.published)
        lines.append(f"| `{name}` | {' | '.join(facts)} |")
    return "\n".join(lines)


def _source(info: MethodInfo) -> str:
    """Return what a method learns from in one word, so that every method has one line of a table."""
    return "features" if not info.supervised else "sets" if info.multilabel else "classes"


def _facts(info: MethodInfo) -> dict[str, Any]:
    return {
        "title": info.title,
        "year": info.year,
        "kind": info.kind,
        "supervision": info.supervision_text,
        "verified": info.verified,
        "cost": info.cost,
        "passes": info.passes_text,
        "paper": info.reference,
    }


def _shown(value: Any) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)
