"""Collections of texts in one call: embed the texts once, fit a hasher, and add the rows."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hashlearn.collection.encoder import given_rows
from hashlearn.collection.ids import ids_of_kind
from hashlearn.collection.payloads import checked_payloads
from hashlearn.collection.store import CollectionError, CollectionExistsError, Payload
from hashlearn.collection.uri import MEMORY, as_uri, is_folder, shown
from hashlearn.collection.where import listed
from hashlearn.data.embed import embed_texts, text_model
from hashlearn.files.feature_file import sidecar

if TYPE_CHECKING:
    from hashlearn.collection.collection import Collection


def collection_from_texts(
    kind: type[Collection],
    uri: str | os.PathLike[str],
    texts: Any,
    labels: Any,
    model: str,
    hasher: Any,
    payload: Any,
    row_ids: ArrayLike | None,
    text_field: str | None,
    label_field: str | None,
    settings: Mapping[str, Any],
) -> Collection:
    """Make a collection of texts; see ``Collection.from_texts``."""
    place = as_uri(uri)
    texts, single = given_rows(None, None, texts)
    if single or not len(texts):
        raise ValueError("Collection.from_texts needs a list of texts. Got one text or none instead.")
    labels = None if labels is None else listed(labels)
    if labels is not None and len(labels) != len(texts):
        raise ValueError(f"There must be one label per text. Got {len(labels)} labels and {len(texts)} texts.")
    fields = {} if text_field is None else {text_field: texts}
    if labels is not None and label_field is not None:
        fields[label_field] = labels
    payloads = _with_fields(checked_payloads(payload, len(texts)), fields, len(texts))
    id_kind = settings.get("ids", "int")
    if row_ids is None and id_kind != "int":
        raise ValueError(f"With ids={id_kind!r} give row_ids=, so that a stopped call can go on with the same ids.")
    numbers = np.arange(len(texts)) if row_ids is None else ids_of_kind(id_kind).of_new_rows(row_ids, len(texts))
    kept = _vectors_file(place)
    unfinished = kept is not None and sidecar(kept).exists()
    if not unfinished:
        _refuse_existing(kind, place)
    X = embed_texts(texts.tolist(), model, kept)
    hasher = _fitted(hasher, place, X, labels)
    hasher.text_model_ = text_model(model).name
    codes = hasher.encode(X) if labels is None else hasher.encode(X, labels)
    result = kind.create(place, hasher, exist_ok=unfinished, **settings)
    try:
        # A run that continues a stopped one writes the same rows under the same ids again.
        result.add(codes=codes, ids=numbers, payload=payloads, vectors=X if result.vector_size else None)
    except BaseException:
        result.close()
        raise
    if kept is not None:
        sidecar(kept).unlink()
        kept.unlink()
    return result


def _vectors_file(place: str) -> Path | None:
    """Return the file that keeps the vectors until all rows are in the collection, for a run that is stopped."""
    if not is_folder(place):
        return None
    folder = Path(place)
    return folder.with_name(f"{folder.name}.vectors.npy")


def _refuse_existing(kind: type[Collection], place: str) -> None:
    """Raise CollectionExistsError before the texts are embedded, which takes long."""
    if place == MEMORY or (is_folder(place) and not Path(place).exists()):
        return
    try:
        kind.open(place, read_only=True).close()
    except CollectionError:
        return
    raise CollectionExistsError(f"There is already a collection in {shown(place)}: open it, or drop it first.")


def _fitted(hasher: Any, place: str, X: NDArray[np.float32], labels: Any) -> Any:
    if hasher is None:
        from hashlearn.hashers.auto.auto_hasher import AutoHasher
        from hashlearn.opencode.open_hasher import OpenHasher

        # Servers have only Hamming distance, and OpenHasher's codes are searched by tables.
        by_tables = place == MEMORY or is_folder(place) or place.startswith(("http://", "https://"))
        made = OpenHasher if by_tables else AutoHasher
        hasher = made(n_bits=128, random_state=0)
    return hasher.fit(X, labels)


def _with_fields(payloads: list[Payload] | None, fields: Mapping[str, Any], n_rows: int) -> list[Payload] | None:
    """Return the payloads with a field of texts and one of labels, if these have names."""
    rows = payloads if payloads is not None else [{} for _ in range(n_rows)]
    for name in fields:
        taken = next((number for number, row in enumerate(rows) if name in row), None)
        if taken is not None:
            raise ValueError(
                f"The payload of row {taken} has a field {name!r} already: give another name as text_field= or "
                "label_field=, or None to leave the payload as it is."
            )
    added = checked_payloads(dict(fields), n_rows) if fields else None
    if added is None:
        return payloads
    return [{**row, **{k: v for k, v in new.items() if v is not None}} for row, new in zip(rows, added, strict=True)]
