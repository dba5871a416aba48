"""``hashlearn index migrate``: a new embedding model for a collection that keeps its codes."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Literal

import numpy as np
import typer

from hashlearn import files
from hashlearn.cli.adding import read_ids
from hashlearn.cli.places import AsJson, Uri, tell
from hashlearn.cli.shell import BadUse, epilog, progress
from hashlearn.collection import Collection

migration = typer.Typer()


@migration.command(
    epilog=epilog(
        "hashlearn index migrate shop/ new.npy --ids sample.npy --dry-run",
        "hashlearn index migrate shop/ new.npy --ids sample.npy --labels y.npy --max-loss 0.02",
        "hashlearn index migrate shop/ new.npy --ids sample.npy --vectors drop",
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
        if features is not None or ids is not None or labels is not None or max_loss is not None or dry_run:
            raise BadUse("--undo takes nothing else but --vectors.")
        with Collection.open(uri) as collection:
            collection.undo_migration(vectors)
            tell({"collection": collection.uri, "undone": True}, as_json)
        return
    if features is None or ids is None:
        raise BadUse("Give embeddings X of some rows and --ids, or --undo.")
    X = np.asarray(files.open_features(features)[:])
    y = None if labels is None else files.read_labels(labels, missing=True, n_rows=len(X))
    with Collection.open(uri) as collection, progress("migrating"):
        report = collection.migrate(
            X, read_ids(collection, ids), y, vectors=vectors, max_loss=max_loss, commit=not dry_run
        )
        facts = {"collection": collection.uri, **asdict(report), "loss": report.loss, "migrated": not dry_run}
    tell({name: round(value, 4) if isinstance(value, float) else value for name, value in facts.items()}, as_json)
