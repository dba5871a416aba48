"""New payloads for rows that are there; their codes and vectors stay."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hashlearn.collection.payloads import checked_payloads
from hashlearn.collection.store import CollectionError

if TYPE_CHECKING:
    from hashlearn.collection.collection import Collection


def update_payload(collection: Collection, ids: Any, payload: Any, merge: bool) -> int:
    """Write the payloads and return how many rows there were. Nothing is changed if a row is missing."""
    wanted = collection.ids_array(ids)
    given = checked_payloads(payload, len(wanted))
    if given is None:
        raise ValueError("Give payload=, one object per id.")
    items = collection.get(wanted)
    missing = [one for one, item in zip(wanted.tolist(), items, strict=True) if item is None]
    if missing:
        raise CollectionError(
            f"{len(missing)} of these {len(items)} ids are not in {collection.uri}, the first is {missing[0]!r}: no "
            "payload was changed."
        )
    if not items:
        return 0
    payloads = [{**item.payload, **new} for item, new in zip(items, given, strict=True)] if merge else given
    vectors = None if collection.vector_size is None else np.stack([item.vector for item in items])
    # A store replaces rows whole, so each row is written again with the code and the vector that it has.
    collection.add(codes=np.stack([item.code for item in items]), ids=wanted, payload=payloads, vectors=vectors)
    return len(items)
