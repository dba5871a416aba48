"""What a search returns: the nearest rows of queries, with payloads if they come from a collection."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.typing import Ids

_COLUMNS = ("query", "id", "distance")


class Hit(NamedTuple):
    """One row that a query found. ``payload`` and ``vector`` are None where there are none, or none were asked for."""

    id: Any
    distance: float
    payload: dict[str, Any] | None = None
    vector: NDArray[np.float32] | None = None


class RowDetails(NamedTuple):
    """Payloads, vectors and ids of rows by their number in the store. Rows removed since the search are missing."""

    payloads: dict[int, dict[str, Any]]
    vectors: dict[int, NDArray[np.float32]]
    ids: dict[int, Any]


class Hits:
    """The k nearest rows of every query, nearest first.

    ``hits[0]`` are the rows of the first query, ``hits.to_list()`` are those of all queries as dicts, and
    ``hits.to_pandas()`` as a table; none of these has empty places. Unpacking gives the two arrays, as in
    ``ids, distances = index.search(...)``, so it is ``hits.per_query()`` that iterates over queries.

    The hits of a collection have payloads. They are read when they are first asked for.

    Attributes
    ----------
    ids : int64 array (queries, k)
        -1 where there are fewer than k rows. In a collection whose ids are texts or UUIDs, an array of objects with
        None there.
    filled : bool array (queries, k)
        Where there is a row.
    distances : array (queries, k)
        Hamming distances are int32 with -1 in empty places. Asymmetric distances are float32 with infinity in empty
        places, because -1 is a valid asymmetric distance.
    """

    def __init__(
        self,
        ids: NDArray[Any],
        distances: NDArray[Any],
        read_details: Callable[[Ids], RowDetails] | None = None,
        numbers: Ids | None = None,
    ) -> None:
        self.ids, self.distances = ids, distances
        self._numbers = ids if numbers is None else numbers  # of the rows in the store
        self._read_details = read_details
        self._details: RowDetails | None = None

    @property
    def filled(self) -> NDArray[np.bool_]:
        return self._numbers >= 0

    def __repr__(self) -> str:
        return f"Hits(ids={self.ids!r}, distances={self.distances!r})"

    def __len__(self) -> int:
        """Return the number of queries."""
        return len(self.ids)

    def __iter__(self) -> Iterator[NDArray[Any]]:
        """Iterate over the two arrays, for ``ids, distances = hits``; see ``per_query``."""
        return iter((self.ids, self.distances))

    def __getitem__(self, query: int) -> HitList:
        """Return the rows of one query."""
        number = operator.index(query)
        if not -len(self) <= number < len(self):
            raise IndexError(f"There are {len(self)} queries. Got number {number}.")
        filled = self.filled[number]
        ids, distances = self.ids[number][filled], self.distances[number][filled]
        if self._read_details is None:
            return HitList(ids, distances)
        if self._details is None:
            self._details = self._read_details(np.unique(self._numbers[self.filled]))
        payloads, vectors, _ = self._details
        numbers = self._numbers[number][filled].tolist()
        kept = [vectors[one] for one in numbers if one in vectors]
        return HitList(ids, distances, [payloads.get(one) for one in numbers], np.array(kept) if kept else None)

    def per_query(self) -> Iterator[HitList]:
        """Iterate over the queries."""
        return (self[number] for number in range(len(self)))

    def to_list(self) -> list[list[dict[str, Any]]]:
        """Return a list per query, of one dict per row: id, distance and, from a collection, payload (and vector)."""
        return [one.to_list() for one in self.per_query()]

    def to_pandas(self) -> Any:
        """Return a data frame of pandas with one line per row found: query, id, distance and the fields of payloads."""
        lists = enumerate(self.per_query())
        return _frame([{"query": number, **line} for number, one in lists for line in one.lines()])


class HitList:
    """The rows that one query found, nearest first, without empty places. Iterating gives a ``Hit`` per row.

    Attributes
    ----------
    ids : int64 array (n,), or objects where ids are texts or UUIDs
    distances : array (n,)
    payloads : list of dicts or None
        None for an index, which has no payloads. A row that was removed since the search has None.
    vectors : float32 array (n, size) or None
        None unless they were asked for.
    """

    def __init__(
        self,
        ids: NDArray[Any],
        distances: NDArray[Any],
        payloads: list[dict[str, Any] | None] | None = None,
        vectors: NDArray[np.float32] | None = None,
    ) -> None:
        self.ids, self.distances, self.payloads, self.vectors = ids, distances, payloads, vectors

    def __repr__(self) -> str:
        return f"HitList({list(self)!r})"

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, place: int) -> Hit:
        place = operator.index(place)
        payload = None if self.payloads is None else self.payloads[place]
        vector = None if self.vectors is None else self.vectors[place]
        return Hit(self.ids[place : place + 1 or None].tolist()[0], self.distances[place].item(), payload, vector)

    def __iter__(self) -> Iterator[Hit]:
        return (self[place] for place in range(len(self)))

    def to_list(self) -> list[dict[str, Any]]:
        """Return one dict per row: id, distance and, from a collection, payload (and vector)."""
        missing = {"payload"} if self.payloads is None else set()
        missing |= {"vector"} if self.vectors is None else set()
        return [{name: value for name, value in hit._asdict().items() if name not in missing} for hit in self]

    def to_pandas(self) -> Any:
        """Return a data frame of pandas with one line per row: id, distance and the fields of payloads."""
        return _frame(self.lines())

    def lines(self) -> list[dict[str, Any]]:
        """Return lines of a table. A field of a payload with the name of another column becomes ``payload.NAME``."""
        lines = []
        for hit in self:
            fields = (hit.payload or {}).items()
            named = {f"payload.{name}" if name in _COLUMNS else name: value for name, value in fields}
            lines.append({"id": hit.id, "distance": hit.distance, **named})
        return lines


def _frame(lines: list[dict[str, Any]]) -> Any:
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError("to_pandas needs pandas: pip install pandas. to_list needs nothing.") from error
    return pd.DataFrame(lines)
