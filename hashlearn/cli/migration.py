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
from hashlearn.cli.texts import wrong_models_as_bad_use
from hashlearn.collection import Collection
from hashlearn.collection.migration import commit_migration, plan_migration
from hashlearn.data.embed import embedding_model

migration = typer.Typer()


@migration.command(
    epilog=epilog(
        "hashlearn index migrate shop/ new.npy --ids sample.npy --dry-run",
        "hashlearn index migrate shop/ new.npy --ids sample.npy --labels y.npy --max-loss 0.02",
        "hashlearn index migrate shop/ new.npy --ids sample.npy --vectors drop",
        "hashlearn index migrate faq/ new.npy --ids sample.npy --embed all-MiniLM-L6-v2",
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
        with Collection.open(uri) as collection, wrong_models_as_bad_use():
            collection.set_text_model(embed)
            tell({"collection": collection.uri, "text_model": collection.text_model}, as_json)
        return
    if features is None or ids is None:
        raise BadUse("Give embeddings X of some rows and --ids, or --embed alone, or --undo.")
    X = np.asarray(files.open_features(features)[:])
    y = None if labels is None else files.read_labels(labels, missing=True, n_rows=len(X))
    with Collection.open(uri) as collection, progress("migrating"), wrong_models_as_bad_use():
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
    tell({name: round(value, 4) if isinstance(value, float) else value for name, value in facts.items()}, as_json)
