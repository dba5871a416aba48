"""``hashlearn index``: collections of codes with ids and payloads, in a folder or on a server."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from hashlearn import codes
from hashlearn.cli.migration import migration
from hashlearn.cli.places import AsJson, Uri, tell
from hashlearn.cli.rows import rows
from hashlearn.cli.shell import BadUse, epilog, progress, say
from hashlearn.cli.texts import wrong_models_as_bad_use
from hashlearn.cli.upkeep import upkeep
from hashlearn.collection import Collection
from hashlearn.collection.id_kinds import IdKind
from hashlearn.collection.uri import MEMORY, shown

app = typer.Typer()
index = typer.Typer(
    help="Manage collections: codes with ids and payloads, in a folder, on Milvus or on PostgreSQL.",
    invoke_without_command=True,
    epilog=epilog(
        "hashlearn index create shop/ --model model.hl",
        "hashlearn index add shop/ X.npy --ids ids.txt --payload meta.parquet",
        "hashlearn index info shop/",
    ),
)
app.add_typer(index, name="index")
index.add_typer(rows)
index.add_typer(upkeep)
index.add_typer(migration)

File = "FILE"


@index.callback()
def _index(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@index.command(
    epilog=epilog(
        "hashlearn index create shop/ --model model.hl",
        "hashlearn index create shop/ --model model.hl --vectors --kind ivf --set n_probes=32",
        "hashlearn index create shop/ --model model.hl --ids text",
        "hashlearn index create faq/ --model model.hl --embed all-MiniLM-L6-v2",
        "hashlearn index create postgresql://me@localhost/db?collection=shop --bits 64",
    )
)
def create(
    uri: Uri,
    model: Annotated[str | None, typer.Option(metavar=File, help="The model that encodes rows and queries.")] = None,
    bits: Annotated[int | None, typer.Option(help="Bits per code, for codes made elsewhere, without a model.")] = None,
    kind: Annotated[str, typer.Option(help="Kind of index: flat (exact), ivf, multihash or hnsw.")] = "flat",
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=NUMBER", help="A setting of the kind; may be repeated.")
    ] = None,
    vectors: Annotated[bool, typer.Option("--vectors", help="Also keep the float rows, for rescoring.")] = False,
    vector_size: Annotated[
        int | None, typer.Option(help="Length of the kept vectors, if it differs from the model's.")
    ] = None,
    indexed: Annotated[
        list[str] | None,
        typer.Option("--index", metavar="FIELD", help="A payload field to filter by; may be repeated."),
    ] = None,
    ids: Annotated[
        IdKind, typer.Option(help="Kind of ids: whole numbers (fastest), text, or uuid. It cannot be changed later.")
    ] = "int",
    embed: Annotated[
        str | None,
        typer.Option("--embed", metavar="NAME", help="The text model whose embeddings the model was fitted to."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make a new, empty collection.

    A model that was fitted to texts (fit --embed, or fit to the file of data embed) brings the name of its text model
    along, so that texts can be added and searched for; --embed names it for other models.
    """
    from hashlearn.models import load

    if (model is None) == (bits is None):
        raise BadUse("Give --model, or --bits for codes made elsewhere.")
    if uri == MEMORY:
        raise BadUse(f"A collection in memory ({MEMORY}) would end with this command: give a folder.")
    hasher = None if model is None else load(model)
    if embed is not None and hasher is None:
        raise BadUse("--embed needs --model: codes made elsewhere cannot be made of texts.")
    with wrong_models_as_bad_use():
        collection = Collection.create(
            uri,
            hasher,
            n_bits=bits,
            store_vectors=vectors,
            vector_size=vector_size,
            kind=kind,
            indexed=indexed or (),
            ids=ids,
            text_model=embed,
            exist_ok=False,
            **dict(map(_setting, settings or [])),
        )
    with collection:
        tell(collection.info(), as_json)


def _setting(text: str) -> tuple[str, int]:
    name, equals, value = text.partition("=")
    if not equals or not value.lstrip("-").isdigit():
        raise BadUse(f"--set needs name=number. Got '{text}'.")
    return name, int(value)


@index.command(epilog=epilog("hashlearn index drop shop/", "hashlearn index drop milvus://localhost:19530/shop --yes"))
def drop(
    uri: Uri,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    as_json: AsJson = False,
) -> int:
    """Remove a collection and all its rows for good. The command asks first; its exit code is 1 if the answer is no."""
    name = shown(uri)
    if not yes:
        if not sys.stdin.isatty():
            raise BadUse(f"Standard input is not a terminal, so removing {name} cannot be confirmed: add --yes.")
        with Collection.open(uri, read_only=True) as collection:
            rows = len(collection)
        # The question goes to standard error, because it is not a result.
        if not typer.confirm(f"Remove {name} and its {rows} rows for good?", err=True):
            say("nothing was removed.")
            return 1
    Collection.drop(uri)
    tell({"collection": name, "dropped": True}, as_json)
    return 0


@index.command(epilog=epilog("hashlearn index info shop/", "hashlearn index info shop/ --json"))
def info(uri: Uri, as_json: AsJson = False) -> None:
    """Print what a collection contains and how it is stored."""
    with Collection.open(uri, read_only=True) as collection:
        tell(collection.info(), as_json)


@index.command(
    epilog=epilog("hashlearn index export shop/ -o codes.npy", "hashlearn index export shop/ -o everything.parquet")
)
def export(
    uri: Uri,
    out: Annotated[str, typer.Option("--output", "-o", metavar=File, help="codes.npy, rows.parquet or index.faiss.")],
    bit_order: Annotated[
        codes.BitOrder | None, typer.Option(help="Bit order of .npy (default: big) and of .faiss (default: little).")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write all rows to a file: codes and ids (.npy), everything (.parquet), or an index of faiss (.faiss).

    Beside .npy and .faiss files, a .json file says how many bits the codes have and in which order.
    """
    with Collection.open(uri, read_only=True) as collection, progress("exporting"):
        rows = collection.export(out, bit_order=bit_order)
        facts = {"collection": collection.uri, "rows": rows, "file": out}
    tell(facts, as_json)
