"""Ids as users see them: whole numbers, texts or UUIDs. A store knows only numbers of 63 bits.

A text becomes the number in the first 63 bits of its SHA-256. The text itself is kept in the row's payload under
``TEXT_FIELD``, which filters cannot name and users do not see. Two texts with one number are refused when the second is
added. Among 100 million texts this happens with a probability of about 0.05 %.
"""

from __future__ import annotations

import hashlib
import uuid
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hashlearn.collection.store import Answer, CollectionError, FoundT, Include, Payload, Store, StoredRows
from hashlearn.collection.where import TEXT_FIELD, is_text, listed
from hashlearn.index import Hits, RangeHits
from hashlearn.index.hits import RowDetails
from hashlearn.index.inputs import check_distinct, checked_ids, new_ids
from hashlearn.typing import Ids

IdKind = Literal["int", "text", "uuid"]
MAX_CHARACTERS = 1024


class IntIds:
    """Ids that are the numbers of the store."""

    kind: IdKind = "int"

    def is_single(self, ids: Any) -> bool:
        """Return whether this is one id and no list of ids."""
        return isinstance(ids, (int, np.integer)) and not isinstance(ids, bool)

    def array(self, ids: ArrayLike) -> Ids:
        """Return checked ids; ValueError for what is no id."""
        first = next(iter(np.asarray(ids).ravel()[:1].tolist()), None)
        if isinstance(first, (str, uuid.UUID)):
            raise ValueError(
                f"ids must be whole numbers in this collection. Got {first!r} instead: create it with ids='text' or "
                "ids='uuid' for others (on the command line: index create --ids text)."
            )
        return checked_ids(ids)

    def of_new_rows(self, ids: ArrayLike | None, n_rows: int) -> Ids | None:
        """Return the ids of rows to be added, each once; None if the store shall give them."""
        if ids is None:
            return None
        numbers = new_ids(self.array(ids), n_rows, 0)
        check_distinct(np.sort(numbers))
        return numbers

    def numbers(self, ids: NDArray[Any]) -> Ids:
        """Return the numbers of the rows in the store."""
        return ids

    def payloads_to_keep(self, ids: NDArray[Any], payloads: list[Payload] | None) -> list[Payload] | None:
        """Return what the store keeps as payloads of these rows."""
        return payloads

    def check_payloads(self, payloads: list[Payload]) -> None:
        """Raise ValueError for payloads with a field that the collection needs."""

    def check_free(self, store: Store, ids: NDArray[Any]) -> None:
        """Raise CollectionError if another row has the number of one of these ids."""

    def present(self, store: Store, ids: NDArray[Any]) -> Ids:
        """Return the sorted numbers of the rows to remove for these ids."""
        return np.unique(ids)

    def shown(self, rows: StoredRows) -> StoredRows:
        """Return rows of the store as users see them."""
        return rows

    def hits(self, answer: Answer[FoundT], include: Collection[Include]) -> FoundT:
        """Return hits of the store as users see them. Where a store has no snapshots, rows may be gone by now."""
        found, rows = answer.hits, answer.rows
        if rows is None:
            return found
        shown = self.shown(rows)
        places = np.minimum(np.searchsorted(rows.ids, found.ids), max(len(rows.ids) - 1, 0))
        there = rows.ids[places] == found.ids if len(rows.ids) else np.zeros(found.ids.shape, dtype=bool)
        details = None
        if include:
            details = RowDetails(
                rows.ids,
                shown.payloads if "payload" in include else None,
                shown.vectors if "vector" in include else None,
                shown.codes if "code" in include else None,
            )
        if isinstance(found, RangeHits):
            offsets = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(there, dtype=np.int64)])[found.offsets]
            ids, distances, numbers = shown.ids[places[there]], found.distances[there], found.ids[there]
            return RangeHits(offsets, ids, distances, details, numbers, found=found.found)
        ids = np.full(there.shape, -1 if shown.ids.dtype != object else None, dtype=shown.ids.dtype)
        ids[there] = shown.ids[places[there]]
        empty = np.inf if np.issubdtype(found.distances.dtype, np.floating) else -1
        distances = np.where(there, found.distances, found.distances.dtype.type(empty))
        return Hits(ids, distances, details, np.where(there, found.ids, -1), found.skipped)

    def problems(self, store: Store) -> list[str]:
        """Return what is wrong with the ids of a store, one sentence each."""
        return []


class TextIds(IntIds):
    """Ids that are texts, or UUIDs, which are kept as texts."""

    def __init__(self, kind: IdKind) -> None:
        self.kind = kind

    def is_single(self, ids: Any) -> bool:
        return isinstance(ids, (str, uuid.UUID))

    def array(self, ids: Any) -> NDArray[Any]:
        values = listed(ids)
        if isinstance(values, (str, bytes)) or not isinstance(values, Sequence):
            raise ValueError(f"ids must be a list of {self._what}. Got {type(ids).__name__} instead.")
        return object_array([self._checked(value) for value in values])

    def of_new_rows(self, ids: Any, n_rows: int) -> NDArray[Any]:
        if ids is None:
            if self.kind == "text":
                raise ValueError("The ids of this collection are texts, which it cannot make up: give ids=.")
            return object_array([uuid.uuid4() for _ in range(n_rows)])
        array = self.array(ids)
        if len(array) != n_rows:
            raise ValueError(f"There must be one id per row. Got {len(array)} ids and {n_rows} rows.")
        seen: dict[int, str] = {}
        for number, text in zip(self.numbers(array).tolist(), map(str, array.tolist()), strict=True):
            if seen.setdefault(number, text) != text:
                raise _collision(text, seen[number], number)
        if len(seen) < len(array):
            ((repeated, _),) = Counter(map(str, array.tolist())).most_common(1)
            raise ValueError(f"Each id may stand only once in a batch. Got {repeated!r} twice.")
        return array

    def numbers(self, ids: NDArray[Any]) -> Ids:
        return np.array([number_of(str(one)) for one in ids.tolist()], dtype=np.int64)

    def payloads_to_keep(self, ids: NDArray[Any], payloads: list[Payload] | None) -> list[Payload]:
        rows: list[Payload] = [{} for _ in ids] if payloads is None else payloads
        self.check_payloads(rows)
        return [{**row, TEXT_FIELD: str(one)} for one, row in zip(ids.tolist(), rows, strict=True)]

    def check_payloads(self, payloads: list[Payload]) -> None:
        for number, row in enumerate(payloads):
            if TEXT_FIELD in row:
                raise ValueError(
                    f"The payload of row {number} has the field {TEXT_FIELD!r}, which a collection with ids of the "
                    f"kind {self.kind!r} keeps for itself: rename the field."
                )

    def check_free(self, store: Store, ids: NDArray[Any]) -> None:
        numbers = self.numbers(ids)
        texts = dict(zip(numbers.tolist(), map(str, ids.tolist()), strict=True))
        rows = store.get(np.unique(numbers))
        for number, payload in zip(rows.ids.tolist(), rows.payloads, strict=True):
            if payload.get(TEXT_FIELD) != texts[number]:
                raise _collision(texts[number], payload.get(TEXT_FIELD), number)

    def present(self, store: Store, ids: NDArray[Any]) -> Ids:
        rows, wanted = store.get(np.unique(self.numbers(ids))), set(map(str, ids.tolist()))
        return rows.ids[[payload.get(TEXT_FIELD) in wanted for payload in rows.payloads]]

    def shown(self, rows: StoredRows) -> StoredRows:
        texts = [payload.get(TEXT_FIELD) for payload in rows.payloads]
        payloads = [{name: item for name, item in row.items() if name != TEXT_FIELD} for row in rows.payloads]
        return rows._replace(ids=object_array([self._shown(text) for text in texts]), payloads=payloads)

    def problems(self, store: Store) -> list[str]:
        found = []
        for rows in store.scan():
            for number, payload in zip(rows.ids.tolist(), rows.payloads, strict=True):
                text = payload.get(TEXT_FIELD)
                if not isinstance(text, str) or number_of(text) != number:
                    found.append(f"The row with the number {number} has the id {text!r}, which has another number.")
        return found

    @property
    def _what(self) -> str:
        return "texts" if self.kind == "text" else "UUIDs, as uuid.UUID or text"

    def _checked(self, value: Any) -> Any:
        if self.kind == "uuid":
            try:
                return value if isinstance(value, uuid.UUID) else uuid.UUID(value)
            except (ValueError, TypeError, AttributeError):
                raise ValueError(f"ids must be {self._what}. Got {value!r} instead.") from None
        if not isinstance(value, str):
            raise ValueError(f"ids must be {self._what} in this collection. Got {value!r} instead.")
        if not 1 <= len(value) <= MAX_CHARACTERS or "\0" in value or not is_text(value):
            raise ValueError(
                f"An id must have 1 to {MAX_CHARACTERS} characters, and neither NUL nor half of a surrogate pair. "
                f"Got {value[:60]!r} instead."
            )
        return str(value)

    def _shown(self, text: Any) -> Any:
        if not isinstance(text, str):
            raise CollectionError("A row of this collection has lost the text of its id: restore a backup.")
        return uuid.UUID(text) if self.kind == "uuid" else text


def number_of(text: str) -> int:
    """Return the number by which a store knows a row with this id."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") & (2**63 - 1)


def ids_of_kind(kind: Any) -> IntIds:
    """Return how ids of this kind are handled; ValueError for a kind that there is not."""
    if kind not in get_args(IdKind):
        raise ValueError(f"ids must be 'int', 'text' or 'uuid'. Got {kind!r} instead.")
    return IntIds() if kind == "int" else TextIds(kind)


def json_id(one: Any) -> int | str:
    """Return an id as JSON has it: UUIDs are texts there."""
    return str(one) if isinstance(one, uuid.UUID) else one


def object_array(values: Sequence[Any]) -> NDArray[Any]:
    """Return a 1-D array of objects. NumPy itself might look into them."""
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def _collision(text: str, other: Any, number: int) -> CollectionError:
    return CollectionError(
        f"The ids {text!r} and {other!r} have the same number ({number}), which happens to very few pairs of texts: "
        "give one of the rows another id."
    )
