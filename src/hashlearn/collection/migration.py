"""Another hasher for a collection that is there: for a new embedding model, or one that has learned labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone

from hashlearn.codes import n_bytes
from hashlearn.collection.encoder import NOTES, with_notes
from hashlearn.collection.ids import ids_of_kind
from hashlearn.collection.store import CollectionError, Payload, Vectors
from hashlearn.collection.where import listed
from hashlearn.hashers.migrated import MigrationReport, learn_codes
from hashlearn.typing import Ids, PackedCodes

if TYPE_CHECKING:
    from hashlearn.collection.collection import Collection


OldVectors = Literal["drop"] | None


def migrate(
    self: Collection,
    X: Any,
    ids: ArrayLike,
    y: Any = None,
    *,
    text_model: str | None = None,
    vectors: OldVectors = None,
    max_loss: float | None = None,
    commit: bool = True,
) -> MigrationReport:
    """Change to a new embedding model; codes stay as they are, and queries come from the new model from then on.

    The new function learns from embeddings of a sample of rows onto their stored codes, as ``hl.migrate`` does. The
    model is replaced as a whole or not at all. Other processes go on with the model that they opened, whose queries
    are as good as before, until they open the collection again. ``undo_migration`` goes back.

    Parameters
    ----------
    X : array (rows, n_new_features)
        Embeddings of the sample by the new model.
    ids : array-like
        The ids of these rows.
    y : labels, default=None
        By which the expected loss is counted; without them it is counted by the neighbors that rows had.
    text_model : str, default=None
        The new model, if it is one of sentence-transformers: name or folder. Without it texts cannot be added or
        searched for after the migration; ``set_text_model`` can name it later.
    vectors : {"drop"} or None, default=None
        What becomes of kept vectors, which are of the old model. "drop" goes on without vectors and without
        rescoring; ``undo_migration`` brings them back. With None, a collection that keeps vectors is not migrated;
        an estimate (``commit=False``) needs no choice.
    max_loss : float, default=None
        The precision that may be lost (``report.loss``); if more is expected, nothing is changed.
    commit : bool, default=True
        False only estimates the loss.

    Returns
    -------
    MigrationReport
    """
    hasher = plan_migration(self, X, ids, y, vectors, text_model, commit)
    if commit:
        commit_migration(self, hasher, max_loss)
    return hasher.report_


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


def undo_migration(self: Collection, vectors: OldVectors = None) -> None:
    """Go back to the hasher, and its text model, before the last ``migrate``. Rows that were added meanwhile stay.

    Vectors that the migration dropped are in use again. Rows that were added or replaced meanwhile have none: then
    nothing is changed, unless ``vectors="drop"`` goes back to the hasher alone.
    """
    _check_choice(vectors)
    hasher = self.hasher
    if not hasattr(hasher, "previous_"):
        raise CollectionError(f"{self.uri} has its first hasher: there is no migration to undo.")
    self._replace_hasher(hasher.previous_, None if vectors == "drop" else hasher.previous_vector_size_)


def learn_labels(self: Collection, labels: Any = None, ids: Any = None) -> None:
    """Fit the hasher again, with labels that came later, and give all rows the codes that it makes with them.

    Ids and payloads stay. Rows are those vectors that the collection keeps (``store_vectors=True``), or else their
    texts are embedded again, by ``text_model`` out of ``text_field``. Codes and hasher are replaced in one
    transaction. Other processes that have the collection open are then told to open it again.

    Parameters
    ----------
    labels : list or str, default=None
        A class or a list of tags per row, None where it is unknown, in the order of ``scan``; or the name of the
        field of payloads that holds them, which is ``label_field`` unless told otherwise.
    ids : list, default=None
        The ids of the rows whose labels are given; the labels of all others are unknown.

    Raises
    ------
    UnsupportedByStoreError
        On PostgreSQL and Milvus.
    """
    hasher, field = self.hasher, labels if isinstance(labels, str) else None
    if hasher is None or hasattr(hasher, "previous_"):
        why = "has no hasher" if hasher is None else "was migrated, so its codes are of the former model"
        raise CollectionError(f"{self.uri} {why}: make the collection again, with the labels.")
    if labels is None and (field := self.label_field) is None:
        raise ValueError(f"{self.uri} names no field of labels: give the labels, or the name of their field.")
    if field is not None and ids is not None:
        raise ValueError(f"ids= goes with a list of labels. Got the field {field!r}: leave ids out.")
    kept = self.vector_size == hasher.n_features_in_
    if not kept and (self.text_model is None or self.text_field is None):
        raise CollectionError(
            f"{self.uri} keeps neither the vectors that its hasher takes nor texts whose model and field it "
            "knows: make the collection again, with the labels."
        )
    parts = list(self._store.scan(vectors=kept))
    numbers = np.concatenate([np.empty(0, dtype=np.int64), *(part.ids for part in parts)])
    payloads = [payload for part in parts for payload in part.payloads]
    y = [row.get(field) for row in payloads] if field is not None else _aligned(self, numbers, labels, ids)
    if not any(label is not None for label in y):
        raise ValueError(f"No row of {self.uri} has a label" + (f" in the field {field!r}." if field else "."))
    if kept:
        X = np.concatenate([part.vectors for part in parts if part.vectors is not None])
    else:
        X = _embedded(self, payloads)
    fitted = clone(hasher).fit(X, y)
    if fitted.n_bits_ != self.n_bits:
        raise CollectionError(
            f"With labels the hasher makes codes of {fitted.n_bits_} bits, and {self.uri} has codes of "
            f"{self.n_bits}: make the collection again, with the labels."
        )
    notes = {name: getattr(self, name) for name in NOTES} | ({} if field is None else {"label_field": field})
    self._replace_codes(with_notes(fitted, **notes), numbers, fitted.encode(X, y))


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
    kind = ids_of_kind(collection.id_kind)
    wanted = kind.array(ids)
    kind.of_new_rows(wanted, len(wanted))  # refuses ids that are there twice
    items = collection.get(wanted, vectors=False)
    missing = [one for one, item in zip(wanted.tolist(), items, strict=True) if item is None]
    if missing:
        raise CollectionError(
            f"{len(missing)} of these {len(items)} ids are not in {collection.uri}, the first is {missing[0]}: give "
            "embeddings of rows that it holds."
        )
    packed = [item.code for item in items if item is not None]
    return np.stack(packed) if packed else np.empty((0, n_bytes(collection.n_bits)), dtype=np.uint8)
