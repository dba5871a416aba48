"""Collections of texts in one call: embed the texts once, fit a hasher, and add the rows."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hashlearn import models
from hashlearn.collection.encoder import checked_texts
from hashlearn.collection.ids import IdKind, ids_of_kind
from hashlearn.collection.new_spec import check_keywords, check_tables, make_spec
from hashlearn.collection.payloads import checked_payloads
from hashlearn.collection.store import OPEN_OR_DROP, CollectionExistsError, CollectionSpec, Payload, Store
from hashlearn.collection.stores import store_class
from hashlearn.collection.uri import MEMORY, as_uri, is_folder, shown, with_token
from hashlearn.collection.where import listed
from hashlearn.files.output import sidecar

if TYPE_CHECKING:
    from hashlearn.collection.collection import Collection

_REFUSED = {
    "exist_ok": "from_texts makes a new collection, and goes on by itself where a stopped call ended",
    "vector_size": "the vectors of the texts are kept with store_vectors=True",
    "text_model": "the text model is model=",
}


def from_texts(
    cls: type[Collection],
    uri: str | os.PathLike[str],
    texts: Any,
    labels: Any = None,
    model: str = "all-MiniLM-L6-v2",
    *,
    hasher: Any = None,
    payload: Any = None,
    row_ids: ArrayLike | None = None,
    text_field: str | None = "text",
    label_field: str | None = "label",
    n_bits: int | None = None,
    token: str | None = None,
    **settings: Any,
) -> Collection:
    """Make a collection of texts in one call: embed them once, fit a hasher to them, and add them.

    While texts are embedded, their vectors are kept in a file: beside the folder of the collection, or for a
    collection on a server in the cache folder of this user. After a stop the same call goes on where it was. The
    file is removed when all rows are in the collection.

    Parameters
    ----------
    uri : str or path-like
        As in ``create``.
    texts : list of str
    labels : list, default=None
        A class per text, or a list of tags per text; None for a text whose label is unknown. Without labels codes
        say only what texts are like, and ``learn_labels`` can follow.
    model : str, default="all-MiniLM-L6-v2"
        Name or folder of a sentence-transformers model.
    hasher : hasher, default=None
        It is fitted to the vectors of the texts. Without one it is ``OpenHasher(128)``, and on PostgreSQL and
        Milvus, which have only Hamming distance, ``AutoHasher(128)``.
    payload : default=None
        As in ``add``.
    row_ids : array-like, default=None
        The ids of the rows; without them they are 0, 1, 2, ….
    text_field, label_field : str or None
        The fields of the payload that keep text and label; None keeps them out. A payload that has the field of
        labels already keeps its values there.
    n_bits : int, default=None
        Length of the codes if no hasher is given, in place of 128.
    token : str, default=None
        As in ``create``.
    **settings
        Further arguments of ``create``, such as ``store_vectors=True``.

    Returns
    -------
    Collection
    """
    from hashlearn.data.embed import embed_texts, text_model

    place = with_token(as_uri(uri), token)
    storage = store_class(place)
    texts = checked_texts(texts)
    if not texts.size or not texts.shape:
        raise ValueError("Collection.from_texts needs a list of texts. Got one text or none instead.")
    labels = None if labels is None else listed(labels)
    if labels is not None and len(labels) != len(texts):
        raise ValueError(f"There must be one label per text. Got {len(labels)} labels and {len(texts)} texts.")
    given = checked_payloads(payload, len(texts))
    fields = {} if label_field is None or labels is None else {label_field: labels}
    payloads = _with_fields(given, texts, text_field, fields)
    hasher = _checked_hasher(hasher, storage, place, n_bits)
    for name, why in _REFUSED.items():
        if name in settings:
            raise ValueError(f"Collection.from_texts has no argument {name!r}: {why}.")
    spec = _spec_before_fit(cls, hasher, **settings)
    if row_ids is None and spec.ids != "int":
        raise ValueError(f"With ids={spec.ids!r} give row_ids=, so that a stopped call can go on with the same ids.")
    numbers = np.arange(len(texts)) if row_ids is None else ids_of_kind(spec.ids).of_new_rows(row_ids, len(texts))
    kept = _vectors_file(place, texts, model)  # what can be refused is refused before texts are embedded
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
    result = cls.create(place, hasher, exist_ok=unfinished, **notes, **settings)
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
    from hashlearn.data.fetch import cache_folder

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


def _spec_before_fit(
    cls: type[Collection],
    hasher: Any,
    store_vectors: bool = False,
    kind: str = "flat",
    indexed: Sequence[str] = (),
    ids: IdKind = "int",
    **settings: Any,
) -> CollectionSpec:
    """Return the spec that ``create`` will make of these settings, as far as it is known without a fitted hasher."""
    check_keywords(kind, settings, cls.from_texts, cls.create)
    n_bits = int(getattr(hasher, "n_bits", 64))
    return make_spec(None, n_bits, False, 1 if store_vectors else None, kind, settings, indexed, ids)


def _with_fields(
    payloads: list[Payload] | None, texts: NDArray[Any], text_field: str | None, labels: dict[str, Any]
) -> list[Payload] | None:
    """Return the payloads with a field of texts and one of labels; a payload keeps the labels that it has."""
    if text_field is None and not labels:
        return payloads
    rows = payloads if payloads is not None else [{} for _ in texts]
    taken = next((place for place, row in enumerate(rows) if text_field in row), None)
    if taken is not None:
        raise ValueError(
            f"The payload of row {taken} has a field {text_field!r} already: give another name as text_field=, or None "
            "to leave the payload as it is."
        )
    if text_field is not None:
        rows = [{**row, text_field: text} for row, text in zip(rows, texts.tolist(), strict=True)]
    if labels:
        named = checked_payloads(labels, len(rows)) or []
        known = [{name: value for name, value in new.items() if value is not None} for new in named]
        rows = [{**new, **row} for new, row in zip(known, rows, strict=True)]
    return rows
