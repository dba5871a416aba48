"""Another hasher for a collection that is there: for a new embedding model, or one that has learned labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone

from hashlearn.codes import n_bytes
from hashlearn.collection.encoder import NOTES, with_notes
from hashlearn.collection.ids import ids_of_kind
from hashlearn.collection.store import CollectionError, Payload, StoredRows, Vectors
from hashlearn.collection.where import listed
from hashlearn.hashers.migrated import MigrationReport, learn_codes
from hashlearn.typing import Ids, PackedCodes

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
) -> Any:
    """Learn the hasher that would replace the collection's own; nothing is changed yet.

    If it will not be committed, nothing becomes of kept vectors, so ``vectors`` may be None.
    """
    _check_choice(vectors)
    if commit and collection.vector_size is not None and vectors is None:
        raise CollectionError(
            f"{collection.uri} keeps vectors of the present embedding model, with which queries of another one cannot "
            "be compared: migrate with vectors='drop' (on the command line: --vectors drop), after which it searches "
            "without rescoring."
        )
    result = learn_codes(
        collection.n_bits, X, _stored_codes(collection, ids), y, text_model=text_model, hasher=collection.hasher
    )
    result = with_notes(result, text_field=collection.text_field, label_field=collection.label_field)
    result.previous_ = collection.hasher
    result.previous_vector_size_ = collection.vector_size
    return result


def commit_migration(collection: Collection, hasher: Any, max_loss: float | None) -> None:
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
    if not hasattr(hasher, "previous_"):
        raise CollectionError(f"{collection.uri} has its first hasher: there is no migration to undo.")
    collection._replace_hasher(hasher.previous_, None if vectors == "drop" else hasher.previous_vector_size_)


def learn_labels(collection: Collection, labels: Any, ids: Any) -> None:
    """Fit the hasher again with labels; see ``Collection.learn_labels``."""
    hasher, field = collection.hasher, labels if isinstance(labels, str) else None
    if hasher is None or hasattr(hasher, "previous_"):
        why = "has no hasher" if hasher is None else "was migrated, so its codes are of the former model"
        raise CollectionError(f"{collection.uri} {why}: make the collection again, with the labels.")
    if labels is None and (field := collection.label_field) is None:
        raise ValueError(f"{collection.uri} names no field of labels: give the labels, or the name of their field.")
    if field is not None and ids is not None:
        raise ValueError(f"ids= goes with a list of labels. Got the field {field!r}: leave ids out.")
    kept = collection.vector_size == hasher.n_features_in_
    if not kept and (collection.text_model is None or collection.text_field is None):
        raise CollectionError(
            f"{collection.uri} keeps neither the vectors that its hasher takes nor texts whose model and field it "
            "knows: make the collection again, with the labels."
        )
    parts = list(collection._store.scan(vectors=kept))
    numbers = np.concatenate([np.empty(0, dtype=np.int64), *(part.ids for part in parts)])
    payloads = [payload for part in parts for payload in part.payloads]
    y = [row.get(field) for row in payloads] if field is not None else _aligned(collection, numbers, labels, ids)
    if not any(label is not None for label in y):
        raise ValueError(f"No row of {collection.uri} has a label" + (f" in the field {field!r}." if field else "."))
    X = _kept_vectors(parts) if kept else _embedded(collection, payloads)
    fitted = clone(hasher).fit(X, y)
    if fitted.n_bits_ != collection.n_bits:
        raise CollectionError(
            f"With labels the hasher makes codes of {fitted.n_bits_} bits, and {collection.uri} has codes of "
            f"{collection.n_bits}: make the collection again, with the labels."
        )
    notes = {name: getattr(collection, name) for name in NOTES} | ({} if field is None else {"label_field": field})
    collection._replace_codes(with_notes(fitted, **notes), numbers, fitted.encode(X, y))


def _aligned(collection: Collection, numbers: Ids, labels: Any, ids: Any) -> list[Any]:
    """Return a label per row of the store; None for rows whose label is not given."""
    given = listed(labels)
    given = list(given) if isinstance(given, Sequence) else list(np.asarray(given))
    kind = ids_of_kind(collection.id_kind)
    wanted = numbers if ids is None else kind.numbers(kind.array(ids))
    if len(given) != len(wanted):
        raise ValueError(f"There must be one label per row. Got {len(given)} labels and {len(wanted)} rows.")
    known = dict(zip(wanted.tolist(), given, strict=True))
    missing = len(known.keys() - set(numbers.tolist()))
    if missing:
        raise CollectionError(
            f"{missing} of these {len(wanted)} ids are not in {collection.uri}: give ids that it has."
        )
    return [known.get(number) for number in numbers.tolist()]


def _kept_vectors(parts: Sequence[StoredRows]) -> Vectors:
    return np.concatenate([part.vectors for part in parts if part.vectors is not None])


def _embedded(collection: Collection, payloads: Sequence[Payload]) -> Vectors:
    """Return the vectors of the texts in the payloads."""
    texts = [row.get(str(collection.text_field)) for row in payloads]
    place = next((place for place, text in enumerate(texts) if not isinstance(text, str) or not text.strip()), None)
    if place is not None:
        raise CollectionError(
            f"Row {place} of {collection.uri} has no text in its field {collection.text_field!r}, so it cannot be "
            "embedded: give it one, or remove it."
        )
    return collection._encoder.embedded(np.array(texts, dtype=object))


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
