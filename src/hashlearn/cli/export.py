"""``hashlearn export``: write a model for another runtime."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from hashlearn import files
from hashlearn.cli.options import AsJson, Model
from hashlearn.cli.shell import BadUse, as_bad_use, epilog, tell
from hashlearn.models.export import Target
from hashlearn.models.export import export as write
from hashlearn.models.export.targets import SQL, target_of

app = typer.Typer()


@app.command(
    epilog=epilog(
        "hashlearn export model.hl -o model.onnx",
        "hashlearn export model.hl -o shop.sql",
        "hashlearn export model.hl --to duckdb -o shop.sql",
        "hashlearn export model.hl -o hasher.mjs",
        "hashlearn export model.hl --to numpy -o hasher.txt",
    )
)
def export(
    model: Model,
    out: Annotated[str, typer.Option("--output", "-o", metavar="FILE", help="The file to write.")],
    to: Annotated[
        Target | None, typer.Option(help="The runtime to write for (default: by the ending of FILE).")
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="SQL: the functions are hash_NAME and so on (default: the file's name).")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write a model for another runtime, where it makes the same codes without hashlearn.

    ONNX: outputs codes, query_codes and expected_bits. SQL: functions hash_NAME(vector) and so on for PostgreSQL with
    pgvector. duckdb, sqlite: a table rows_NAME and the view hash_NAME of its codes. js: an ES module for browsers and
    Node. numpy: one Python file that needs NumPy alone.
    """
    from hashlearn.models import load

    with as_bad_use(ValueError):
        to = to or target_of(out)
    if name is not None and to not in SQL:
        raise BadUse(f"--name is for --to {', '.join(SQL)}: a file for {to} has no functions with a name of their own.")
    path = files.check_output(out)
    if os.path.realpath(out) == os.path.realpath(model):
        raise BadUse(f"{out} is read by this command, so the export cannot go there.")
    hasher = load(model)
    write(hasher, path, to, name=name)
    facts = {"model": model, "hasher": type(hasher).__name__, "bits": hasher.n_bits_, "to": to}
    tell({**facts, "file": out, "bytes": os.path.getsize(out)}, as_json)
