"""``hashlearn index add``, ``update`` and ``delete``: what changes the rows of a collection."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer

from hashlearn import files
from hashlearn.cli.adding import AddBatches, listed_ids, open_codes, open_features
from hashlearn.cli.columns import payload_without_features
from hashlearn.cli.journal import Journal
from hashlearn.cli.places import AsJson, BitOrder, Uri, tell
from hashlearn.cli.shell import BadUse, epilog, progress, say
from hashlearn.cli.texts import open_texts
from hashlearn.cli.where import Where, read_object, read_where
from hashlearn.collection import Collection

rows = typer.Typer()

File = "FILE"


@rows.command(
    epilog=epilog(
        "hashlearn index add shop/ X.npy --ids ids.txt --payload meta.parquet",
        "hashlearn index add shop/ --codes codes.npy --bit-order little --payload meta.jsonl",
        "hashlearn index add milvus://localhost:19530/shop X.npy --payload meta.csv",
        "hashlearn index add shop/ 'x*.npy' --payload 'meta*.parquet'",
        "hashlearn index add shop/ --codes codes/",
        "hashlearn index add faq/ texts.csv --text question --ids texts.csv:id",
    )
)
def add(
    uri: Uri,
    features: Annotated[
        str | None, typer.Argument(metavar="[X]", help="Features: .npy .csv .parquet .h5 …, or 'x*.npy'.")
    ] = None,
    text: Annotated[
        str | None,
        typer.Option(
            "--text", metavar="COLUMN", help="X holds texts: their column. The collection's text model embeds them."
        ),
    ] = None,
    code_file: Annotated[
        str | None, typer.Option("--codes", metavar=File, help="Codes instead of features: a file, pattern or folder.")
    ] = None,
    ids: Annotated[str | None, typer.Option(metavar=File, help="Ids: .txt .npy, or a column t.csv:id.")] = None,
    payload: Annotated[
        str | None,
        typer.Option(
            metavar=File,
            help="One object per row: .parquet .jsonl .csv, or t.csv:price,name. With --text, X is the default.",
        ),
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
    if text is not None and features is None:
        raise BadUse("--text needs X: the file of the texts.")
    if text is not None and payload is None:
        payload = features
    with Collection.open(uri) as collection:
        source = str(code_file if features is None else features)
        if jobs is not None and collection.hasher is not None:
            collection.hasher.n_jobs = jobs
        found: Any
        if text is not None:
            found = open_texts(collection.hasher, collection.uri, source, text)
        else:
            found = (
                open_features(collection, source) if code_file is None else open_codes(collection, source, bit_order)
            )
        if payload is not None and text is None and features is not None:
            payload = payload_without_features(collection.hasher, features, payload)
        batches = AddBatches(collection, source, found, code_file is not None, ids, payload, vectors)
        journal = Journal(uri, [name for name in (source, ids, payload, vectors) if name], text or "")
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


@rows.command(
    epilog=epilog(
        "hashlearn index update shop/ --ids prices.csv:id --payload prices.csv",
        """hashlearn index update shop/ --where '{"year": {"<": 2000}}' --fields '{"sold": true}'""",
        """hashlearn index update shop/ --ids 17,18 --fields '{"sold": true}'""",
    )
)
def update(
    uri: Uri,
    ids: Annotated[
        str | None,
        typer.Option(metavar="FILE|1,2,3", help="Ids: .txt .npy, a column t.csv:id, or ids with commas."),
    ] = None,
    payload: Annotated[
        str | None, typer.Option(metavar=File, help="One object per id: .parquet .jsonl .csv .tsv.")
    ] = None,
    where: Where = None,
    fields: Annotated[
        str | None, typer.Option(metavar="JSON", help="With --where or --ids: the fields that all these rows get.")
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace payloads whole, not only the fields that are given.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Give rows new payloads. Their codes and vectors stay; nothing is changed if a row does not exist."""
    by_filter = where is not None and fields is not None and ids is None and payload is None
    by_ids = ids is not None and where is None and (payload is None) != (fields is None)
    if not (by_ids or by_filter):
        raise BadUse("Give --ids with --payload or --fields, or --where with --fields.")
    condition, new = read_where(where), read_object(fields, "--fields")
    with Collection.open(uri) as collection, progress("updating"):
        if by_filter:
            changed = collection.update_payload(where=condition, payload=new, merge=not replace)
        else:
            wanted = listed_ids(collection, str(ids))
            given = [new] * len(wanted) if payload is None else list(files.payload_rows(payload))
            changed = collection.update_payload(wanted, given, merge=not replace)
        facts = {"collection": collection.uri, "rows_updated": changed}
    tell(facts, as_json)


@rows.command(
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
        listed = None if ids is None else listed_ids(collection, ids)
        gone = collection.delete(listed, where=condition)
        facts = {"collection": collection.uri, "rows_deleted": gone, "rows": len(collection)}
    tell(facts, as_json)
