"""A new embedding model for a collection that keeps its codes: the model is replaced, the rows are not."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from hashlearn.codes import n_bytes
from hashlearn.collection.encoder import with_notes
from hashlearn.collection.ids import ids_of_kind
from hashlearn.collection.store import CollectionError
from hashlearn.hashers.migrated import MigratedHasher, MigrationReport, learn_codes, refuse_tables
from hashlearn.typing import PackedCodes

if TYPE_CHECKING:
    from hashlearn.collection.collection import Collection


OldVectors = Literal["drop"] | None


def plan_migration(
    collection: Collection,
    X: Any,
    ids: ArrayLike,
    y: Any = None,
    vectors: OldVectors = None,
    text_model: str | None = None,
    commit: bool = True,
) -> MigratedHasher:
    """Learn the hasher that would replace the collection's own; nothing is changed yet.

    If it will not be committed, nothing becomes of kept vectors, so ``vectors`` may be None.
    """
    _check_choice(vectors)
    refuse_tables(collection.hasher)
    if commit and collection.vector_size is not None and vectors is None:
        raise CollectionError(
            f"{collection.uri} keeps vectors of the present embedding model, with which queries of another one cannot "
            "be compared: migrate with vectors='drop' (on the command line: --vectors drop), after which it searches "
            "without rescoring."
        )
    result = learn_codes(collection.n_bits, X, _stored_codes(collection, ids), y, text_model=text_model)
    result = with_notes(result, text_field=collection.text_field, label_field=collection.label_field)
    result.previous_ = collection.hasher
    result.previous_vector_size_ = collection.vector_size
    return result


def commit_migration(collection: Collection, hasher: MigratedHasher, max_loss: float | None) -> None:
    """Replace the model of the collection, unless the expected loss is larger than ``max_loss``."""
    report: MigrationReport = hasher.report_
    if max_loss is not None and report.loss > max_loss:
        raise CollectionError(
            f"{collection.uri} stays as it is: the migration is expected to lose {report.loss:.3f} of precision, more "
            f"than {max_loss}. Embed more rows again, or allow more."
        )
    collection._replace_hasher(hasher, None)


def undo_migration(collection: Collection, vectors: OldVectors = None) -> None:
    """Give the collection back the hasher, and the vectors, that it had before its last migration."""
    _check_choice(vectors)
    hasher = collection.hasher
    if not isinstance(hasher, MigratedHasher):
        raise CollectionError(f"{collection.uri} has its first hasher: there is no migration to undo.")
    collection._replace_hasher(hasher.previous_, None if vectors == "drop" else hasher.previous_vector_size_)


def _check_choice(vectors: object) -> None:
    if vectors not in (None, "drop"):
        raise ValueError(f"The parameter 'vectors' must be None or 'drop'. Got {vectors!r} instead.")


def _stored_codes(collection: Collection, ids: ArrayLike) -> PackedCodes:
    """Return the codes of these rows, in the order of the ids."""
    wanted = ids_of_kind(collection.id_kind).array(ids)
    repeated = [one for one, count in Counter(wanted.tolist()).items() if count > 1]
    if repeated:
        raise ValueError(f"Each id may stand only once in a batch. Got {repeated[0]} twice.")
    items = collection.get(wanted, vectors=False)
    missing = [one for one, item in zip(wanted.tolist(), items, strict=True) if item is None]
    if missing:
        raise CollectionError(
            f"{len(missing)} of these {len(items)} ids are not in {collection.uri}, the first is {missing[0]}: give "
            "embeddings of rows that it holds."
        )
    packed = [item.code for item in items if item is not None]
    return np.stack(packed) if packed else np.empty((0, n_bytes(collection.n_bits)), dtype=np.uint8)
