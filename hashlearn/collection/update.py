"""New payloads for rows that are there; their codes and vectors stay."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hashlearn.collection.payloads import checked_payloads
from hashlearn.collection.store import NoSuchRowsError
from hashlearn.parallel import row_blocks

if TYPE_CHECKING:
    from hashlearn.collection.collection import Collection
    from hashlearn.collection.reading import Item

# Rows are read, changed and written in blocks, because their vectors may not fit into memory all at once.
_BLOCK_ROWS = 10_000


def update_payload(collection: Collection, ids: NDArray[Any], payload: Any, merge: bool) -> int:
    """Write the payloads of distinct ids and return how many there were. Nothing is changed if a row is missing."""
    given = checked_payloads(payload, len(ids))
    if given is None:
        raise ValueError("Give payload=, one object per id.")
    blocks = row_blocks(len(ids), _BLOCK_ROWS)
    missing = [one for block in blocks for one in _missing(ids[block], collection.get(ids[block], vectors=False))]
    if missing:
        raise NoSuchRowsError(
            f"{len(missing)} of these {len(ids)} ids are not in {collection.uri}, the first is {missing[0]!r}: no "
            "payload was changed.",
            missing,
        )
    for block in blocks:
        found, new = collection.get(ids[block]), given[block]
        if missing := _missing(ids[block], found):
            raise NoSuchRowsError(
                f"{missing[0]!r} was removed from {collection.uri} meanwhile: the payloads of the first {block.start} "
                "of these rows were changed.",
                missing,
            )
        items = [item for item in found if item is not None]
        payloads = [{**item.payload, **more} for item, more in zip(items, new, strict=True)] if merge else new
        kept = [item.vector for item in items if item.vector is not None]
        vectors = None if collection.vector_size is None else np.stack(kept)
        # A store replaces rows whole, so each row is written again with the code and the vector that it has.
        codes = np.stack([item.code for item in items])
        collection.add(codes=codes, ids=ids[block], payload=payloads, vectors=vectors)
    return len(ids)


def _missing(ids: NDArray[Any], items: list[Item | None]) -> list[Any]:
    return [one for one, item in zip(ids.tolist(), items, strict=True) if item is None]
