"""New payloads for rows that are there; their codes and vectors stay."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hashlearn.collection.id_kinds import IntIds
from hashlearn.collection.payloads import checked_payloads
from hashlearn.collection.store import NoSuchRowsError, Payload, Store, StoredRows
from hashlearn.collection.where import Condition


def update_rows(store: Store, kind: IntIds, place: str, ids: NDArray[Any], payload: Any, merge: bool) -> int:
    """Write the payloads of distinct ids and return how many there were. Nothing is changed if a row is missing."""
    given = checked_payloads(payload, len(ids))
    if given is None:
        raise ValueError("Give payload=, one object per id.")
    if not len(ids):
        return 0
    new, numbers = _to_keep(kind, ids, given), kind.numbers(ids)
    order = np.argsort(numbers)
    increasing = numbers[order]

    def change(blocks: Iterator[StoredRows]) -> Iterator[StoredRows]:
        found = np.zeros(len(ids), dtype=bool)
        for rows in blocks:
            places = order[np.searchsorted(increasing, rows.ids)]
            # Two texts may have the same number; then the row of the other one was found.
            found[places] = kind.shown(rows).ids == ids[places]
            if found[places].all():
                yield rows._replace(payloads=_merged(rows, [new[place] for place in places.tolist()], merge))
        missing = ids[~found].tolist()
        if missing:
            raise NoSuchRowsError(
                f"{len(missing)} of these {len(ids)} ids are not in {place}, the first is {missing[0]!r}: no payload "
                "was changed.",
                missing,
            )

    return store.update_payloads(increasing, change)


def update_matching(
    store: Store, kind: IntIds, where: Condition | None, payload: Mapping[str, Any], merge: bool
) -> int:
    """Write the same fields into the payloads of all rows that match and return how many there were."""
    given = checked_payloads([payload], 1) or []

    def change(blocks: Iterator[StoredRows]) -> Iterator[StoredRows]:
        for rows in blocks:
            shown = kind.shown(rows)
            payloads = _merged(shown, given * len(rows.ids), merge)
            yield rows._replace(payloads=_to_keep(kind, shown.ids, payloads))

    return store.update_payloads(where, change)


def _merged(rows: StoredRows, new: list[Payload], merge: bool) -> list[Payload]:
    return [{**old, **more} for old, more in zip(rows.payloads, new, strict=True)] if merge else new


def _to_keep(kind: IntIds, ids: NDArray[Any], payloads: list[Payload]) -> list[Payload]:
    return kind.payloads_to_keep(ids, payloads) or []  # None is only for no payloads at all
