"""Ids in addresses and in JSON: numbers, or texts where a collection has texts or UUIDs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hashlearn.service.errors import bad
from hashlearn.service.served_collection import ServedCollection

_MAX_NUMBER = 2**63 - 1


def id_in_address(served: ServedCollection, text: str) -> Any:
    """The id that an address ends in, or has as a parameter."""
    if served.collection.id_kind == "int":
        if not (text.isascii() and text.isdigit() and int(text[:20]) <= _MAX_NUMBER):
            raise bad("bad_id", f"id: the ids of {served.name} are whole numbers from 0. Got {text[:60]!r} instead.")
        return int(text)
    return ids_in_body(served, [text])[0]


def ids_in_body(served: ServedCollection, ids: list[int | str]) -> Any:
    """Ids that a client sent, checked to be of the kind that the collection has."""
    try:
        return served.collection.ids_array(ids).tolist()
    except ValueError as error:
        raise bad("bad_id", f"ids: {error}") from error


def plain_ids(ids: NDArray[Any]) -> NDArray[Any]:
    """Ids as a .npy array without objects; empty places, which are None among texts, become empty texts."""
    if ids.dtype != object:
        return ids
    texts = ["" if one is None else str(one) for one in ids.ravel().tolist()]
    return np.array(texts, dtype=np.str_).reshape(ids.shape)
