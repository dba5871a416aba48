"""What a new collection is made for, from what users give to ``Collection.create``."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import Any

import numpy as np

from hashlearn import models
from hashlearn.codes import MAX_BITS
from hashlearn.collection.encoder import with_notes
from hashlearn.collection.ids import IdKind, ids_of_kind
from hashlearn.collection.store import CollectionError, CollectionSpec, Store, no_tables
from hashlearn.collection.uri import shown
from hashlearn.collection.where import split_path
from hashlearn.index.index import SETTINGS
from hashlearn.index.inputs import checked_count


def make_spec(
    hasher: Any,
    n_bits: int | None,
    store_vectors: bool,
    vector_size: int | None,
    kind: str,
    settings: dict[str, int | None],
    indexed: Sequence[str],
    ids: IdKind,
) -> CollectionSpec:
    """Check the arguments of ``Collection.create``, which describes them."""
    model = b"" if hasher is None else models.dumps(hasher)  # first, because it refuses what is no fitted hasher
    if hasher is not None and n_bits not in (None, getattr(hasher, "n_bits_", n_bits)):
        raise ValueError(f"The hasher makes codes of {hasher.n_bits_} bits. Got n_bits={n_bits} instead.")
    if vector_size is not None:
        vector_size = checked_count(vector_size, "vector_size", 1)
    elif store_vectors:
        if hasher is None:
            raise ValueError("Without a hasher, give vector_size= to keep vectors.")
        vector_size = int(hasher.n_features_in_)
    if kind == "flat" and getattr(hasher, "searched_by_tables", False):
        from hashlearn.opencode.coder import WORD_BITS

        settings = {"word_bits": WORD_BITS, **settings}  # a search skips the rows of most label words
    return CollectionSpec(
        _code_length(n_bits) if hasher is None else int(hasher.n_bits_),
        model,
        "" if hasher is None else models.fingerprint(hasher),
        vector_size,
        kind,
        settings,
        _checked_indexed(indexed),
        ids_of_kind(ids).kind,
    )


def noted(hasher: Any, text_model: str | None, text_field: str | None = None, label_field: str | None = None) -> Any:
    """Return the hasher with the names that are given; the text model is loaded to check the number of features."""
    notes = {"text_model": text_model, "text_field": text_field, "label_field": label_field}
    for name, value in notes.items():
        if value is not None and hasher is None:
            why = "for its embeddings" if name == "text_model" else "with which it is kept"
            raise ValueError(f"{name}= needs a hasher {why}, and there is none for {value!r}.")
        if name != "text_model" and value is not None and not (isinstance(value, str) and value):
            raise ValueError(f"{name} must be a text that is not empty. Got {value!r} instead.")
    if text_model is not None:
        from hashlearn.data.embed import checked_model

        notes["text_model"] = checked_model(hasher, text_model).name
    return with_notes(hasher, **notes)


def check_keywords(kind: str, settings: dict[str, Any], *methods: Callable[..., Any]) -> None:
    """Refuse settings that are misspelled arguments of these methods; other faults of settings are found later."""
    known = [name for method in methods for name in inspect.signature(method).parameters if name != "settings"]
    known += SETTINGS.get(kind, [])
    for name in settings:
        near = get_close_matches(name, known, 1, cutoff=0.75)
        if near and name not in known:
            raise ValueError(f"Collection.{methods[0].__name__} has no argument {name!r}. Did you mean {near[0]!r}?")


def check_tables(storage: type[Store], hasher: Any, uri: str) -> None:
    """Refuse a hasher that makes tables of scores where the storage compares codes by bits only."""
    if hasattr(hasher, "query") and not storage.takes_tables:
        raise no_tables(shown(uri), type(hasher).__name__)


def check_same(found: CollectionSpec, wanted: CollectionSpec, uri: str) -> None:
    """Raise CollectionError if a collection was made for something else than is wanted now, besides its hasher."""
    for name in ("n_bits", "ids", "vector_size", "kind", "settings", "indexed"):
        has, given = getattr(found, name), getattr(wanted, name)
        if has != given:
            raise CollectionError(f"{uri} was made with {name}={has!r}. Got {given!r} instead: open it as it is.")
    if found.model and not wanted.model:
        raise CollectionError(f"{uri} has a hasher, and none was given: open it as it is.")


def _checked_indexed(fields: Any) -> tuple[str, ...]:
    """Return the names of payload fields, each once, as filters write them."""
    if isinstance(fields, str) or not isinstance(fields, Sequence):
        raise ValueError(f"indexed must be a list of fields of the payload. Got {fields!r} instead.")
    for name in fields:
        if not isinstance(name, str) or name.startswith("$"):
            raise ValueError(f"indexed must hold names of fields of the payload. Got {name!r} instead.")
        split_path(name)
    if len(set(map(split_path, fields))) < len(fields):
        raise ValueError(f"indexed may name a field only once. Got {list(fields)} instead.")
    return tuple(fields)


def _code_length(n_bits: Any) -> int:
    whole = isinstance(n_bits, (int, np.integer)) and not isinstance(n_bits, bool)
    if not whole or not 1 <= n_bits <= MAX_BITS:
        raise ValueError(f"A collection needs a hasher, or n_bits between 1 and {MAX_BITS}. Got {n_bits!r}.")
    return int(n_bits)
