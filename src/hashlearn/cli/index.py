"""``hashlearn index``: create, migrate, back up and check collections, in a folder or on a server."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import asdict
from typing import Annotated, Any, Literal

import typer

from hashlearn import files
from hashlearn.cli.inputs import as_array, file_or_column, read_ids, read_labels_of, without_label
from hashlearn.cli.options import AsJson, TextOption, Uri, command_group
from hashlearn.cli.rows import rows
from hashlearn.cli.shell import BadUse, epilog, print_json, print_table, progress, say, tell
from hashlearn.codes import BitOrder
from hashlearn.collection import Collection, collections
from hashlearn.collection.health import DRIFT
from hashlearn.collection.ids import IdKind
from hashlearn.collection.migration import commit_migration, plan_migration
from hashlearn.collection.uri import MEMORY, shown
from hashlearn.data.embed import embedding_model
from hashlearn.data.texts import read_texts
from hashlearn.files.arrays import split_part
from hashlearn.files.payloads import payload_rows

app, index = command_group(
    "index",
    "Manage collections: codes with ids and payloads, in a folder or on a server.",
    "hashlearn index create shop/ --model model.hl",
    "hashlearn index add shop/ X.npy --ids ids.txt --payload meta.parquet",
    "hashlearn index info shop/",
)
index.add_typer(rows)


@index.command(
    epilog=epilog(
        "hashlearn index create shop/ --model model.hl",
        "hashlearn index create shop/ --model model.hl --vectors --kind ivf --set n_probes=32",
        "hashlearn index create faq/ --from faq.csv --text question --labels topic --embed all-MiniLM-L6-v2",
        "hashlearn index create postgresql://me@localhost/db?collection=shop --bits 64",
    )
)
def create(
    uri: Uri,
    model: Annotated[str | None, typer.Option(metavar="FILE", help="The model that encodes rows and queries.")] = None,
    bits: Annotated[int | None, typer.Option(help="Bits per code, for codes made elsewhere, without a model.")] = None,
    kind: Annotated[str, typer.Option(help="Kind of index: flat (exact) or ivf; hnsw on PostgreSQL.")] = "flat",
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
    source: Annotated[
        str | None,
        typer.Option("--from", metavar="FILE", help="Texts to fill it with: .csv, .tsv, .jsonl or .parquet."),
    ] = None,
    text: TextOption = None,
    labels: Annotated[str | None, typer.Option(metavar="COLUMN", help="With --from: the column of the labels.")] = None,
    as_json: AsJson = False,
) -> None:
    """Make a new collection: an empty one, or with --from one of texts.

    With --from the texts are embedded, OpenHasher is fitted to them, and all columns of the file become the payload.
    After an interruption the same command goes on. Rows without a label may be among them.

    A model that was fitted to texts (fit --embed, or fit to the file of data embed) brings the name of its text model
    along, so that texts can be added and searched for; --embed names it for other models.
    """
    from hashlearn.models import load

    _refuse_memory(uri)
    options: dict[str, Any] = {"store_vectors": vectors, "indexed": indexed or (), "kind": kind}
    options |= dict(map(_setting, settings or []))
    if source is not None:
        if text is None or embed is None:
            raise BadUse("--from needs --text, the column of the texts, and --embed, the text model.")
        if model is not None or bits is not None:
            raise BadUse("--from fits a hasher to the texts, so leave out --model and --bits.")
        found = read_texts(source, text, labels, missing=True)
        options["payload"] = [dict(row or {}) for row in payload_rows(source)]
        for row in options["payload"]:
            row.pop(text, None)
        options |= {"text_field": text, "label_field": labels}
        with (
            progress(f"embedding {source}"),
            Collection.from_texts(uri, found.texts, found.labels, embed, **options) as collection,
        ):
            facts = collection.info()
        tell(facts, as_json)
        return
    if text is not None or labels is not None:
        raise BadUse("--text and --labels go with --from: the file of the texts.")
    if (model is None) == (bits is None):
        raise BadUse("Give --model, --bits for codes made elsewhere, or --from for texts.")
    if embed is not None and model is None:
        raise BadUse("--embed needs --model: codes made elsewhere cannot be made of texts.")
    options |= {"n_bits": bits, "vector_size": vector_size, "ids": ids, "text_model": embed, "exist_ok": False}
    with Collection.create(uri, None if model is None else load(model), **options) as collection:
        tell(collection.info(), as_json)


def _refuse_memory(uri: str) -> None:
    if uri == MEMORY:
        raise BadUse(f"A collection in memory ({MEMORY}) would end with this command: give a folder.")


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


@index.command("list", epilog=epilog("hashlearn index list collections/", "hashlearn index list http://127.0.0.1:8765"))
def list_collections(
    where: Annotated[str, typer.Argument(metavar="WHERE", help="http://host:port of a server, or a folder.")],
    as_json: AsJson = False,
) -> None:
    """List the collections of a server, or those in the folders of a folder."""
    found = collections(where)
    if as_json:
        print_json({"collections": found})
        return
    lines = [(one["uri"], f"{one['rows']:,}", str(one["n_bits"]), one["ids"]) for one in found]
    print_table(("collection", "rows", "bits", "ids"), lines, right=("rows", "bits"))
    if not found:
        say(f"There are no collections in {where}.")


@index.command(
    epilog=epilog("hashlearn index export shop/ -o codes.npy", "hashlearn index export shop/ -o everything.parquet")
)
def export(
    uri: Uri,
    out: Annotated[str, typer.Option("--output", "-o", metavar="FILE", help="codes.npy, rows.parquet or index.faiss.")],
    bit_order: Annotated[
        BitOrder | None, typer.Option(help="Bit order of .npy (default: big) and of .faiss (default: little).")
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


@index.command(
    epilog=epilog(
        "hashlearn index migrate shop/ new.npy --ids sample.npy --dry-run",
        "hashlearn index migrate shop/ new.npy --ids sample.npy --labels y.npy --max-loss 0.02",
        "hashlearn index migrate faq/ --embed all-MiniLM-L6-v2",
        "hashlearn index migrate shop/ --undo",
    )
)
def migrate(
    uri: Uri,
    features: Annotated[
        str | None, typer.Argument(metavar="[X]", help="Embeddings of some rows by the new model: .npy .csv …")
    ] = None,
    ids: Annotated[str | None, typer.Option(metavar="FILE", help="The ids of these rows.")] = None,
    labels: Annotated[
        str | None, typer.Option(metavar="FILE", help="Labels of these rows, to count the expected loss by.")
    ] = None,
    embed: Annotated[
        str | None,
        typer.Option(
            "--embed",
            metavar="NAME",
            help="The new model, if it is a text model: name or folder. The file of 'data embed' names it already. "
            "Without X only the name is noted, for a collection that does not know its text model.",
        ),
    ] = None,
    vectors: Annotated[
        Literal["drop"] | None,
        typer.Option(
            help="What becomes of kept vectors, which are of the old model: drop goes on without rescoring, and --undo "
            "brings them back. A collection that keeps vectors needs it."
        ),
    ] = None,
    max_loss: Annotated[
        float | None, typer.Option(help="The precision that may be lost; if more is expected, nothing is changed.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only estimate the loss.")] = False,
    undo: Annotated[bool, typer.Option("--undo", help="Go back to the model before the last migration.")] = False,
    as_json: AsJson = False,
) -> None:
    """Change a collection to a new embedding model. Its codes stay; queries come from the new model from then on.

    1,000 rows that are embedded again keep most of the quality, 10,000 nearly all. The expected loss is estimated on
    rows left out of a trial; then the model is replaced, as a whole or not at all.
    """
    if undo:
        if any(given is not None for given in (features, ids, labels, embed, max_loss)) or dry_run:
            raise BadUse("--undo takes nothing else but --vectors.")
        with Collection.open(uri) as collection:
            collection.undo_migration(vectors)
            tell({"collection": collection.uri, "undone": True}, as_json)
        return
    if embed is not None and not dry_run and all(given is None for given in (features, ids, labels, vectors, max_loss)):
        with Collection.open(uri) as collection:
            collection.set_text_model(embed)
            tell({"collection": collection.uri, "text_model": collection.text_model}, as_json)
        return
    if features is None or ids is None:
        raise BadUse("Give embeddings X of some rows and --ids, or --embed alone, or --undo.")
    labels, ids = file_or_column(features, labels), str(file_or_column(features, ids))
    X = as_array(files.open_features(without_label(without_label(features, labels), ids)))
    y = None if labels is None else read_labels_of(features, labels, len(X))
    with Collection.open(uri) as collection, progress("migrating"):
        hasher = plan_migration(collection, X, read_ids(collection, ids), y, vectors, embed, commit=not dry_run)
        # The model that made X need not be loaded to be checked, so a machine without it can migrate too.
        if embed is None and (made_by := embedding_model(features)) is not None:
            hasher.text_model_ = made_by
        if not dry_run:
            commit_migration(collection, hasher, max_loss)
        facts = {
            "collection": collection.uri,
            **asdict(hasher.report_),
            "loss": hasher.report_.loss,
            "text_model": getattr(hasher, "text_model_", None),
            "migrated": not dry_run,
        }
    tell(_rounded(facts), as_json)


@index.command(
    epilog=epilog(
        "hashlearn index learn faq/ --labels topic",
        "hashlearn index learn faq/ --labels labels.csv:topic --ids labels.csv:id",
    )
)
def learn(
    uri: Uri,
    labels: Annotated[
        str | None,
        typer.Option(metavar="FILE|FIELD", help="Labels, one per row; or the payload field that holds them."),
    ] = None,
    ids: Annotated[
        str | None, typer.Option(metavar="FILE", help="The ids of the rows in the file of labels; others have none.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Fit the model of a collection again, with labels that came later. All rows get new codes; ids and payloads stay.

    The rows are the vectors that the collection keeps, or its texts, which are embedded again.
    """
    with Collection.open(uri) as collection, progress("learning labels"):
        given: Any = labels
        if labels is not None and split_part(labels)[0].is_file():
            given = files.read_labels(labels, missing=True)
        elif ids is not None:
            raise BadUse("--ids goes with a file of labels.")
        collection.learn_labels(given, None if ids is None else read_ids(collection, ids))
        facts = {"collection": collection.uri, "rows": len(collection), "label_field": collection.label_field}
    tell(facts, as_json)


_UNKNOWN = (
    "the confidence of training is not known, because the model was fitted by an earlier release: fit it again to "
    "be told of drift."
)


@index.command(epilog=epilog("hashlearn index backup shop/ shop-monday.backup"))
def backup(
    uri: Uri,
    out: Annotated[str, typer.Argument(metavar="FILE", help="The file to write; an earlier backup is replaced.")],
    as_json: AsJson = False,
) -> None:
    """Copy a collection to one file, while it is used. The file is there whole and checked, or not at all.

    On PostgreSQL and Milvus this names the server's own tool, after checking the collection.
    """
    started = time.perf_counter()
    with Collection.open(uri, read_only=True) as collection, progress(f"backing up {collection.uri}"):
        collection.backup(out)
        facts = {"collection": collection.uri, "file": out, "bytes": os.path.getsize(out)}
    tell({**facts, "seconds": round(time.perf_counter() - started, 3)}, as_json)


@index.command(
    epilog=epilog(
        "hashlearn index restore shop-monday.backup shop/", "hashlearn index restore shop-monday.backup shop/ --replace"
    )
)
def restore(
    source: Annotated[str, typer.Argument(metavar="FILE", help="A file of 'hashlearn index backup'.")],
    uri: Uri,
    replace: Annotated[bool, typer.Option("--replace", help="Restore over the collection that is there.")] = False,
    as_json: AsJson = False,
) -> None:
    """Make a collection out of a backup, after checking all of it.

    Processes that have the replaced collection open go on with the restored one.
    """
    with progress(f"restoring {source}"), Collection.restore(source, uri, replace=replace) as collection:
        facts = {"collection": collection.uri, "file": source, "rows": len(collection)}
    tell(facts, as_json)


@index.command(
    epilog=epilog(
        "hashlearn index copy shop/ milvus://localhost:19530/shop",
        "hashlearn index copy postgresql://me@localhost/db?collection=shop shop/",
    )
)
def copy(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="The collection to copy, as everywhere.")],
    target: Annotated[str, typer.Argument(metavar="TARGET", help="Where the copy is made: a folder or on a server.")],
    as_json: AsJson = False,
) -> None:
    """Copy a collection to another place, such as from a folder to a Milvus server.

    After an interruption the same command goes on. The source must not change meanwhile.
    """
    _refuse_memory(target)
    with Collection.open(source, read_only=True) as collection, progress("copying"), collection.copy(target) as made:
        facts = {"collection": collection.uri, "copy": made.uri, "rows": len(made)}
    tell(facts, as_json)


@index.command(epilog=epilog("hashlearn index verify shop/", "hashlearn index verify shop/ --json"))
def verify(uri: Uri, as_json: AsJson = False) -> int:
    """Read all of a collection and check all that can be checked; exit code 1 when something is wrong."""
    with Collection.open(uri, read_only=True) as collection, progress(f"verifying {collection.uri}"):
        found = collection.verify()
        facts = {"collection": collection.uri, "rows": found.rows, "payloads": found.payloads, "vectors": found.vectors}
    if as_json:
        print_json({**facts, "problems": found.problems, "notes": found.notes})
    else:
        tell({**facts, "problems": len(found.problems)}, as_json)
        for sentence in (*found.problems, *found.notes):
            say(sentence)
    return 1 if found.problems else 0


@index.command(
    epilog=epilog(
        "hashlearn index health shop/ queries.npy",
        "hashlearn index health shop/ queries.npy --least 0.95 --json",
    )
)
def health(
    uri: Uri,
    queries: Annotated[str | None, typer.Argument(metavar="[X]", help="Queries to judge: .npy .csv …")] = None,
    least: Annotated[
        float, typer.Option(min=0.0, help="The confidence that queries must have, as a share of that of training.")
    ] = DRIFT,
    as_json: AsJson = False,
) -> int:
    """Tell whether a collection still fits its queries; exit code 1 when the queries have drifted.

    Without queries only the rows are looked at, and the exit code is 0. With queries it is 1 if the mean confidence of
    their bits is below --least times that of training rows: then fit again, or migrate.
    """
    X = None if queries is None else as_array(files.open_features(queries))
    with Collection.open(uri, read_only=True) as collection, progress(f"looking at {collection.uri}"):
        found = collection.health(X)
        share = found.relative_confidence
        drifted = None if share is None else share < least
        facts = {"collection": collection.uri, **found._asdict(), "relative_confidence": share}
        has_hasher = collection.hasher is not None
    tell(_rounded(facts) | {"drifted": drifted}, as_json)
    if queries is not None and drifted is None:
        say(_UNKNOWN if has_hasher else f"{facts['collection']} has no hasher, so nothing is known about its queries.")
    return 1 if drifted else 0


def _rounded(facts: dict[str, Any]) -> dict[str, Any]:
    return {name: round(value, 4) if isinstance(value, float) else value for name, value in facts.items()}


@index.command(epilog=epilog("hashlearn index compact shop/"))
def compact(uri: Uri, as_json: AsJson = False) -> None:
    """Give back the space of replaced and removed rows, while the collection is used."""
    with Collection.open(uri) as collection, progress(f"compacting {collection.uri}"):
        before = collection.info()
        collection.compact()
        after = collection.info()
    facts = {"collection": collection.uri, "rows": after["rows"], "bytes_before": before["bytes"]}
    tell({**facts, "bytes": after["bytes"]}, as_json)
