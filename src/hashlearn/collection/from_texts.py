"""Collections of texts in one call: embed the texts once, fit a hasher, and add the rows."""

from __future__ import annotations

import hashlib
import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hashlearn import models
from hashlearn.collection.encoder import checked_texts
from hashlearn.collection.ids import ids_of_kind
from hashlearn.collection.new_spec import check_keywords, check_tables, make_spec
from hashlearn.collection.payloads import checked_payloads
from hashlearn.collection.store import OPEN_OR_DROP, CollectionExistsError, CollectionSpec, Payload, Store
from hashlearn.collection.stores import store_class
from hashlearn.collection.uri import MEMORY, is_folder, shown
from hashlearn.collection.where import listed
from hashlearn.data.embed import embed_texts, text_model
from hashlearn.data.fetch import cache_folder
from hashlearn.files.output import sidecar

if TYPE_CHECKING:
    from hashlearn.collection.collection import Collection


def collection_from_texts(
    kind: type[Collection],
    place: str,
    texts: Any,
    labels: Any,
    model: str,
    hasher: Any,
    payload: Any,
    row_ids: ArrayLike | None,
    text_field: str | None,
    label_field: str | None,
    n_bits: int | None,
    settings: dict[str, Any],
) -> Collection:
    """Make a collection of texts; see ``Collection.from_texts``. What can be refused is refused before embedding."""
    storage = store_class(place)
    texts = checked_texts(texts)
    if not texts.size or not texts.shape:
        raise ValueError("Collection.from_texts needs a list of texts. Got one text or none instead.")
    labels = None if labels is None else listed(labels)
    if labels is not None and len(labels) != len(texts):
        raise ValueError(f"There must be one label per text. Got {len(labels)} labels and {len(texts)} texts.")
    given = checked_payloads(payload, len(texts))
    payloads = _with_fields(given, texts, text_field, None if label_field is None else labels, str(label_field))
    hasher = _checked_hasher(hasher, storage, place, n_bits)
    spec = _checked_settings(kind, hasher, settings)
    if row_ids is None and spec.ids != "int":
        raise ValueError(f"With ids={spec.ids!r} give row_ids=, so that a stopped call can go on with the same ids.")
    numbers = np.arange(len(texts)) if row_ids is None else ids_of_kind(spec.ids).of_new_rows(row_ids, len(texts))
    kept = _vectors_file(place, texts, model)
    unfinished = kept is not None and sidecar(kept).exists()
    if not unfinished:
        storage.check_new(place, spec)
        if storage.exists(place):
            raise CollectionExistsError(f"There is already a collection in {shown(place)}: {OPEN_OR_DROP}.")
    X = embed_texts(texts.tolist(), model, kept)
    hasher = models.as_hasher(hasher.fit(X, labels))
    codes = hasher.encode(X) if labels is None else hasher.encode(X, labels)
    notes: dict[str, Any] = {"text_model": text_model(model).name, "text_field": text_field}
    if labels is not None:
        notes["label_field"] = label_field
    result = kind.create(place, hasher, exist_ok=unfinished, **notes, **settings)
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


def _vectors_file(place: str, texts: NDArray[Any], model: str) -> Path | None:
    """Return the file that keeps the vectors until all rows are in the collection, for a run that is stopped."""
    if place == MEMORY:
        return None
    if is_folder(place):
        folder = Path(place)
        return folder.with_name(f"{folder.name}.vectors.npy")
    key = hashlib.sha256("\0".join([shown(place), model, *texts]).encode()).hexdigest()[:32]
    folder = cache_folder().parent / "unfinished"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{key}.vectors.npy"


def _checked_hasher(hasher: Any, storage: type[Store], place: str, n_bits: int | None) -> Any:
    """Return the hasher to fit."""
    if hasher is None:
        from hashlearn.hashers.auto.auto_hasher import AutoHasher
        from hashlearn.opencode.open_hasher import OpenHasher

        made = OpenHasher if storage.takes_tables else AutoHasher
        return made(n_bits=128 if n_bits is None else n_bits, random_state=0)
    if n_bits is not None:
        raise ValueError(f"n_bits={n_bits!r} is for from_texts without a hasher: give the hasher this length instead.")
    if not hasattr(hasher, "fit"):
        raise TypeError(f"hasher must be a hasher that can be fitted. Got {type(hasher).__name__} instead.")
    check_tables(storage, hasher, place)
    return hasher


def _checked_settings(kind: type[Collection], hasher: Any, settings: dict[str, Any]) -> CollectionSpec:
    """Return the spec that ``create`` will make of these settings, as far as it is known without a fitted hasher."""
    for name, why in (
        ("exist_ok", "from_texts makes a new collection, and goes on by itself where a stopped call ended"),
        ("vector_size", "the vectors of the texts are kept with store_vectors=True"),
        ("text_model", "the text model is model="),
    ):
        if name in settings:
            raise ValueError(f"Collection.from_texts has no argument {name!r}: {why}.")
    arguments = set(inspect.signature(make_spec).parameters) - {"settings"}
    wanted = {name: settings[name] for name in arguments if name in settings}
    numbers = {name: value for name, value in settings.items() if name not in wanted}
    index = wanted.get("kind", "flat")
    check_keywords(index, numbers, kind.from_texts, kind.create)
    made = {"store_vectors": False, "kind": index, "indexed": (), "ids": "int", **wanted}
    length = int(getattr(hasher, "n_bits", 64))
    return make_spec(None, length, vector_size=1 if made["store_vectors"] else None, settings=numbers, **made)


def _with_fields(
    payloads: list[Payload] | None, texts: NDArray[Any], text_field: str | None, labels: Any, label_field: str
) -> list[Payload] | None:
    """Return the payloads with a field of texts and one of labels; a payload keeps the labels that it has."""
    if text_field is None and labels is None:
        return payloads
    rows = payloads if payloads is not None else [{} for _ in texts]
    taken = None if text_field is None else next((place for place, row in enumerate(rows) if text_field in row), None)
    if taken is not None:
        raise ValueError(
            f"The payload of row {taken} has a field {text_field!r} already: give another name as text_field=, or None "
            "to leave the payload as it is."
        )
    if text_field is not None:
        rows = [{**row, text_field: text} for row, text in zip(rows, texts.tolist(), strict=True)]
    if labels is not None:
        named = checked_payloads({label_field: labels}, len(rows)) or []
        rows = [row if new[label_field] is None else {**new, **row} for row, new in zip(rows, named, strict=True)]
    return rows
