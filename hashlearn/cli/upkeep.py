"""``hashlearn index backup``, ``restore``, ``verify``, ``health`` and ``compact``: what operators do."""

from __future__ import annotations

import os
import time
from typing import Annotated, Any

import numpy as np
import typer

from hashlearn import files
from hashlearn.cli.places import AsJson, Uri, tell
from hashlearn.cli.shell import epilog, progress, say
from hashlearn.collection import Collection
from hashlearn.collection.health import DRIFT

upkeep = typer.Typer()

_UNKNOWN = (
    "the confidence of training is not known, because the model was fitted by an earlier release: fit it anew to be "
    "told of drift."
)


@upkeep.command(epilog=epilog("hashlearn index backup shop/ shop-monday.backup"))
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


@upkeep.command(
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


@upkeep.command(epilog=epilog("hashlearn index verify shop/", "hashlearn index verify shop/ --json"))
def verify(uri: Uri, as_json: AsJson = False) -> int:
    """Read all of a collection and check all that can be checked; exit code 1 when something is wrong."""
    with Collection.open(uri, read_only=True) as collection, progress(f"verifying {collection.uri}"):
        found = collection.verify()
        facts = {"collection": collection.uri, "rows": found.rows, "payloads": found.payloads, "vectors": found.vectors}
    if as_json:
        tell({**facts, "problems": found.problems, "notes": found.notes}, as_json)
    else:
        tell({**facts, "problems": len(found.problems)}, as_json)
        for sentence in (*found.problems, *found.notes):
            say(sentence)
    return 1 if found.problems else 0


@upkeep.command(
    epilog=epilog(
        "hashlearn index health shop/",
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
    their bits is below --least times that of training rows: then fit anew, or migrate.
    """
    X = None if queries is None else np.asarray(files.open_features(queries)[:])
    with Collection.open(uri, read_only=True) as collection, progress(f"looking at {collection.uri}"):
        found = collection.health(X)
        share = found.relative_confidence
        drifted = None if share is None else share < least
        facts = {"collection": collection.uri, **found._asdict(), "relative_confidence": share}
        has_hasher = collection.hasher is not None
    tell({**{name: _rounded(value) for name, value in facts.items()}, "drifted": drifted}, as_json)
    if queries is not None and drifted is None:
        say(_UNKNOWN if has_hasher else f"{facts['collection']} has no hasher, so nothing is known about its queries.")
    return 1 if drifted else 0


def _rounded(value: Any) -> Any:
    return round(value, 4) if isinstance(value, float) else value


@upkeep.command(epilog=epilog("hashlearn index compact shop/"))
def compact(uri: Uri, as_json: AsJson = False) -> None:
    """Give back the space of replaced and removed rows, while the collection is used."""
    with Collection.open(uri) as collection, progress(f"compacting {collection.uri}"):
        before = collection.info()
        collection.compact()
        after = collection.info()
    facts = {"collection": collection.uri, "rows": after["rows"], "bytes_before": before["bytes"]}
    tell({**facts, "bytes": after["bytes"]}, as_json)
