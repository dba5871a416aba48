"""``hashlearn index``: collections of codes with ids and payloads, in a folder or on a server."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from hashlearn import codes, files
from hashlearn.cli.adding import AddBatches, open_codes, open_features, read_ids
from hashlearn.cli.journal import Journal
from hashlearn.cli.migration import migration
from hashlearn.cli.places import AsJson, Uri, tell
from hashlearn.cli.shell import BadUse, epilog, progress, say
from hashlearn.cli.upkeep import upkeep
from hashlearn.cli.where import Where, read_where
from hashlearn.collection import Collection
from hashlearn.collection.id_kinds import IdKind
from hashlearn.collection.uri import shown
from hashlearn.files.arrays import split_part

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
index.add_typer(upkeep)
index.add_typer(migration)

BitOrder = Annotated[
    codes.BitOrder, typer.Option("--bit-order", help="Bit order of codes made elsewhere (faiss: little).")
]
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
    as_json: AsJson = False,
) -> None:
    """Make a new, empty collection."""
    from hashlearn.models import load

    if (model is None) == (bits is None):
        raise BadUse("Give --model, or --bits for codes made elsewhere.")
    with Collection.create(
        uri,
        None if model is None else load(model),
        n_bits=bits,
        store_vectors=vectors,
        vector_size=vector_size,
        kind=kind,
        indexed=indexed or (),
        ids=ids,
        **dict(map(_setting, settings or [])),
    ) as collection:
        tell(collection.info(), as_json)


def _setting(text: str) -> tuple[str, int]:
    name, equals, value = text.partition("=")
    if not equals or not value.lstrip("-").isdigit():
        raise BadUse(f"--set needs name=number. Got '{text}'.")
    return name, int(value)


@index.command(
    epilog=epilog(
        "hashlearn index add shop/ X.npy --ids ids.txt --payload meta.parquet",
        "hashlearn index add shop/ --codes codes.npy --bit-order little --payload meta.jsonl",
        "hashlearn index add milvus://localhost:19530/shop X.npy --payload meta.csv",
        "hashlearn index add shop/ 'x*.npy' --payload 'meta*.parquet'",
        "hashlearn index add shop/ --codes codes/",
    )
)
def add(
    uri: Uri,
    features: Annotated[
        str | None, typer.Argument(metavar="[X]", help="Features: .npy .csv .parquet .h5 …, or 'x*.npy'.")
    ] = None,
    code_file: Annotated[
        str | None, typer.Option("--codes", metavar=File, help="Codes instead of features: a file, pattern or folder.")
    ] = None,
    ids: Annotated[str | None, typer.Option(metavar=File, help="Ids: .txt .npy, or a column t.csv:id.")] = None,
    payload: Annotated[
        str | None, typer.Option(metavar=File, help="One object per row: .parquet .jsonl .csv .tsv.")
    ] = None,
    vectors: Annotated[str | None, typer.Option(metavar=File, help="Floats to keep instead of the features.")] = None,
    bit_order: BitOrder = "big",
    restart: Annotated[
        bool, typer.Option("--restart", help="Start again instead of resuming an interrupted run.")
    ] = False,
    jobs: Annotated[int | None, typer.Option(help="Number of threads (default: all cores).")] = None,
    as_json: AsJson = False,
) -> None:
    """Add rows, or replace those whose id exists. Files stream through, so they may be bigger than memory.

    After an interruption the same command resumes.
    """
    if (features is None) == (code_file is None):
        raise BadUse("Give features X or --codes, not both and not neither.")
    with Collection.open(uri) as collection:
        source = str(code_file if features is None else features)
        if jobs is not None and collection.hasher is not None:
            collection.hasher.n_jobs = jobs
        rows = open_features(collection, source) if code_file is None else open_codes(collection, source, bit_order)
        batches = AddBatches(collection, source, rows, code_file is not None, ids, payload, vectors)
        journal = Journal(uri, [name for name in (source, ids, payload, vectors) if name])
        going_on = not restart and journal.read() and batches.go_on(journal.done, journal.first_id)
        if going_on:
            say(f"going on after {journal.done} of {batches.n_rows} rows.")
        else:
            journal.done, journal.first_id = 0, None
            if ids is None:
                if collection.id_kind != "int":
                    raise BadUse(
                        f"The ids of {collection.uri} are of the kind {collection.id_kind}: give --ids, so that a "
                        "command that is repeated adds no row twice."
                    )
                journal.first_id = collection.take_ids(batches.n_rows)
            journal.write()
        started, begun = time.perf_counter(), journal.done
        with progress(f"adding {source}") as listener:
            for done in batches.added(journal.done, journal.first_id):
                journal.done = done
                journal.write()
                listener(f"adding {source}", done, batches.n_rows)
        journal.remove()
        facts = {
            "collection": collection.uri,
            "rows_added": batches.n_rows - begun,
            "rows": len(collection),
            "seconds": round(time.perf_counter() - started, 3),
        }
    tell(facts, as_json)


@index.command(epilog=epilog("hashlearn index update shop/ --ids ids.txt --payload prices.csv"))
def update(
    uri: Uri,
    ids: Annotated[str, typer.Option(metavar=File, help="Ids: .txt .npy, or a column t.csv:id.")],
    payload: Annotated[str, typer.Option(metavar=File, help="One object per id: .parquet .jsonl .csv .tsv.")],
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace payloads whole, not only the fields that are given.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Give rows new payloads. Their codes and vectors stay; nothing is changed if a row does not exist."""
    with Collection.open(uri) as collection, progress("updating"):
        rows = list(files.payload_rows(payload))
        changed = collection.update_payload(read_ids(collection, ids), rows, merge=not replace)
        facts = {"collection": collection.uri, "rows_updated": changed}
    tell(facts, as_json)


@index.command(
    epilog=epilog(
        "hashlearn index delete shop/ --ids old.txt",
        """hashlearn index delete shop/ --where '{"year": {"<": 2000}}'""",
    )
)
def delete(
    uri: Uri,
    ids: Annotated[str | None, typer.Option(metavar="FILE|1,2,3", help="Ids: a file, or ids with commas.")] = None,
    where: Where = None,
    as_json: AsJson = False,
) -> None:
    """Remove rows by their ids, or those whose payload matches."""
    condition = read_where(where)
    if (ids is None) == (condition is None):
        raise BadUse("Give --ids or --where, not both and not neither.")
    with Collection.open(uri) as collection, progress("deleting"):
        listed = None if ids is None else _listed(collection, ids)
        gone = collection.delete(listed, where=condition)
        facts = {"collection": collection.uri, "rows_deleted": gone, "rows": len(collection)}
    tell(facts, as_json)


def _listed(collection: Collection, text: str) -> Any:
    """Ids of a file, or those that are listed. A text is the name of a file where there is such a file."""
    parts = [part.strip() for part in text.split(",")]
    if collection.id_kind == "int":
        return [int(part) for part in parts] if all(part.isdigit() for part in parts) else read_ids(collection, text)
    return read_ids(collection, text) if Path(split_part(text)[0]).is_file() else parts


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
