"""What ``hashlearn search`` searches for: rows of a file, texts, words, or rows of the collection itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hashlearn import codes
from hashlearn.cli.adding import open_codes, open_features
from hashlearn.cli.shell import BadUse
from hashlearn.cli.texts import TextRows, model_of, open_texts
from hashlearn.collection import Collection
from hashlearn.collection.id_kinds import json_id


@dataclass(frozen=True)
class Queries:
    """Features or packed codes that can be sliced. ``ids`` are those of queries that are rows of the collection."""

    name: str
    rows: Any
    coded: bool = False
    ids: NDArray[Any] | None = None

    @classmethod
    def of(
        cls,
        collection: Collection,
        file: str | None,
        text: str | None,
        ids: list[str] | None,
        coded: bool,
        bit_order: codes.BitOrder,
        needs_floats: bool,
    ) -> Queries:
        """Open the one kind of queries that was given."""
        if ids:
            return cls._stored(collection, ids, needs_floats)
        if file is None:
            if not str(text).strip():
                raise BadUse("--text is empty: give the words to search for.")
            words = TextRows([str(text)], model_of(collection.hasher, collection.uri))
            return cls("--text", words[...])
        if text is not None:
            return cls(file, open_texts(collection.hasher, collection.uri, file, text)[...])
        if coded:
            return cls(file, open_codes(collection, file, bit_order), coded=True)
        return cls(file, open_features(collection, file))

    @classmethod
    def _stored(cls, collection: Collection, texts: list[str], needs_floats: bool) -> Queries:
        """The rows of the collection with these ids: by their codes, or by their kept vectors if those are needed."""
        ids = collection.ids_array([_id(collection, text) for text in texts])
        if needs_floats and collection.vector_size is None:
            raise BadUse(f"--rescore and --asymmetric need vectors, and {collection.uri} keeps none: search with Q.")
        items = collection.get(ids, vectors=needs_floats)
        missing = [json_id(one) for one, item in zip(ids.tolist(), items, strict=True) if item is None]
        if missing:
            raise BadUse(f"{collection.uri} has no row with the id {missing[0]!r}.")
        found = [item for item in items if item is not None]
        if needs_floats:
            return cls("--id", np.stack([item.vector for item in found if item.vector is not None]), ids=ids)
        return cls("--id", np.stack([item.code for item in found]), coded=True, ids=ids)


def _id(collection: Collection, text: str) -> int | str:
    if collection.id_kind != "int":
        return text
    if not text.isdigit():
        raise BadUse(f"The ids of {collection.uri} are whole numbers from 0. Got --id {text!r}.")
    return int(text)
