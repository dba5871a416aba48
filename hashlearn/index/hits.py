"""What a search returns: the nearest rows of queries, with payloads if they come from a collection."""

from __future__ import annotations

import operator
from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.index.tables import Table, fields_as_columns
from hashlearn.typing import Ids


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


class Found(Table):
    """Base of ``Hits`` and ``Ball``: what several queries found.

    Payloads and vectors of a collection are read when they are first asked for, those of all queries at once.
    """

    columns = ("query", "id", "distance")

    def __init__(self, read_details: Callable[[Ids], RowDetails] | None) -> None:
        self._read_details = read_details
        self._details: RowDetails | None = None

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of queries."""

    @abstractmethod
    def _of_query(self, number: int) -> tuple[NDArray[Any], NDArray[Any], Ids]:
        """Return ids, distances and numbers in the store of the rows that a query found."""

    @abstractmethod
    def _all_numbers(self) -> Ids:
        """Return the numbers in the store of the rows that all queries found."""

    def __getitem__(self, query: int) -> HitList:
        """Return the rows of one query."""
        number = operator.index(query)
        if not -len(self) <= number < len(self):
            raise IndexError(f"There are {len(self)} queries. Got number {number}.")
        ids, distances, numbers = self._of_query(number % len(self))
        details = self._known_details()
        if details is None:
            return HitList(ids, distances)
        rows = numbers.tolist()
        kept = [details.vectors[one] for one in rows if one in details.vectors]
        return HitList(ids, distances, [details.payloads.get(one) for one in rows], np.array(kept) if kept else None)

    def __getstate__(self) -> dict[str, Any]:
        """Read what has not been read yet, because a copy in another process cannot."""
        self._known_details()
        return {**self.__dict__, "_read_details": None}

    def _known_details(self) -> RowDetails | None:
        if self._details is None and self._read_details is not None:
            self._details = self._read_details(np.unique(self._all_numbers()))
        return self._details

    def per_query(self) -> Iterator[HitList]:
        """Iterate over the queries."""
        return (self[number] for number in range(len(self)))

    def to_list(self) -> list[list[dict[str, Any]]]:
        """Return a list per query, of one dict per row: id, distance and, from a collection, payload (and vector)."""
        return [one.to_list() for one in self.per_query()]

    def lines(self) -> list[dict[str, Any]]:
        return [{"query": number, **line} for number, one in enumerate(self.per_query()) for line in one.lines()]


class Hits(Found):
    """The k nearest rows of every query, nearest first.

    ``hits[0]`` are the rows of the first query, ``hits.to_list()`` are those of all queries as dicts, and
    ``hits.to_pandas()`` and ``hits.to_arrow()`` as a table; none of these has empty places. Unpacking gives the two
    arrays, as in ``ids, distances = index.search(...)``, so it is ``hits.per_query()`` that iterates over queries.

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
        super().__init__(read_details)
        self.ids, self.distances = ids, distances
        self._numbers = ids if numbers is None else numbers  # of the rows in the store

    @property
    def filled(self) -> NDArray[np.bool_]:
        return self._numbers >= 0

    def __repr__(self) -> str:
        return f"Hits(ids={self.ids!r}, distances={self.distances!r})"

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[NDArray[Any]]:
        """Iterate over the two arrays, for ``ids, distances = hits``; see ``per_query``."""
        return iter((self.ids, self.distances))

    def _of_query(self, number: int) -> tuple[NDArray[Any], NDArray[Any], Ids]:
        filled = self.filled[number]
        return self.ids[number][filled], self.distances[number][filled], self._numbers[number][filled]

    def _all_numbers(self) -> Ids:
        return self._numbers[self.filled]


class Ball(Found):
    """All rows within a radius of every query, sorted by (distance, id).

    ``ball[0]`` are the rows of the first query, ``ball.to_list()`` are those of all queries as dicts, and
    ``ball.to_pandas()`` and ``ball.to_arrow()`` as a table. Unpacking gives the three arrays, as in
    ``lims, ids, distances = index.within(...)``.

    Attributes
    ----------
    lims : int64 array (queries + 1,)
        The rows of query i are at ``lims[i]:lims[i + 1]`` of the other two.
    ids : int64 array, or objects where ids are texts or UUIDs
    distances : int32 array
    """

    def __init__(
        self,
        lims: Ids,
        ids: NDArray[Any],
        distances: NDArray[np.int32],
        read_details: Callable[[Ids], RowDetails] | None = None,
        numbers: Ids | None = None,
    ) -> None:
        super().__init__(read_details)
        self.lims, self.ids, self.distances = lims, ids, distances
        self._numbers = ids if numbers is None else numbers

    def __repr__(self) -> str:
        return f"Ball(lims={self.lims!r}, ids={self.ids!r}, distances={self.distances!r})"

    def __len__(self) -> int:
        return len(self.lims) - 1

    def __iter__(self) -> Iterator[NDArray[Any]]:
        """Iterate over the three arrays, for ``lims, ids, distances = ball``; see ``per_query``."""
        return iter((self.lims, self.ids, self.distances))

    def _of_query(self, number: int) -> tuple[NDArray[Any], NDArray[Any], Ids]:
        rows = slice(self.lims[number], self.lims[number + 1])
        return self.ids[rows], self.distances[rows], self._numbers[rows]

    def _all_numbers(self) -> Ids:
        return self._numbers


class HitList(Table):
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

    columns = ("id", "distance")

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

    def lines(self) -> list[dict[str, Any]]:
        return [
            {"id": hit.id, "distance": hit.distance, **fields_as_columns(hit.payload, Found.columns)} for hit in self
        ]
