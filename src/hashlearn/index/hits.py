"""What a search returns: the nearest rows of queries, with payloads if they come from a collection."""

from __future__ import annotations

import operator
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.index.tables import Table, fields_as_columns
from hashlearn.typing import Ids, PackedCodes


class Hit(NamedTuple):
    """One row that a query found.

    ``payload``, ``vector`` and ``code`` are None where there are none, or none were asked for.
    """

    id: Any
    distance: float
    payload: dict[str, Any] | None = None
    vector: NDArray[np.float32] | None = None
    code: PackedCodes | None = None


class RowDetails(NamedTuple):
    """What a store tells about rows, in increasing order of their numbers there; None for what was not asked for."""

    numbers: Ids
    payloads: Sequence[dict[str, Any]] | None = None
    vectors: NDArray[np.float32] | None = None
    codes: PackedCodes | None = None


class Found(Table):
    """Base of ``Hits`` and ``RangeHits``: what several queries found."""

    columns = ("query", "id", "distance")
    _arrays: ClassVar[tuple[str, ...]]
    """What unpacking gives."""

    def __init__(
        self,
        ids: NDArray[Any],
        distances: NDArray[Any],
        details: RowDetails | None = None,
        numbers: Ids | None = None,
        skipped: Ids | None = None,
    ) -> None:
        self.ids, self.distances, self.skipped = ids, distances, skipped
        self._details = details
        self._numbers = ids if numbers is None else numbers  # of the rows in the store

    def __iter__(self) -> Iterator[NDArray[Any]]:
        """Iterate over the arrays, so that they can be unpacked; ``per_query`` iterates over the queries."""
        return (getattr(self, name) for name in self._arrays)

    def __repr__(self) -> str:
        if self._details is not None and self._details.payloads is not None:
            return self._as_text()
        arrays = ", ".join(f"{name}={getattr(self, name)!r}" for name in self._arrays)
        return f"{type(self).__name__}({arrays})"

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of queries."""

    @abstractmethod
    def _of_query(self, number: int) -> tuple[NDArray[Any], NDArray[Any], Ids]:
        """Return ids, distances and numbers in the store of the rows that a query found."""

    def __getitem__(self, query: int) -> HitList:
        """Return the rows of one query."""
        number = operator.index(query)
        if not -len(self) <= number < len(self):
            raise IndexError(f"There are {len(self)} queries. Got number {number}.")
        ids, distances, numbers = self._of_query(number % len(self))
        if self._details is None:
            return HitList(ids, distances)
        known, payloads, vectors, codes = self._details
        places = np.searchsorted(known, numbers)
        return HitList(
            ids,
            distances,
            None if payloads is None else [payloads[place] for place in places.tolist()],
            None if vectors is None else vectors[places],
            None if codes is None else codes[places],
        )

    def per_query(self) -> Iterator[HitList]:
        """Iterate over the queries."""
        return (self[number] for number in range(len(self)))

    def to_list(self) -> list[list[dict[str, Any]]]:
        """Return a list per query, of one dict per row: id, distance and what else was asked for."""
        return [one.to_list() for one in self.per_query()]

    def lines(self) -> list[dict[str, Any]]:
        return [{"query": number, **line} for number, one in enumerate(self.per_query()) for line in one.lines()]


class Hits(Found):
    """The k nearest rows of every query, nearest first.

    ``hits[0]`` are the rows of the first query, ``hits.to_list()`` are those of all queries as dicts, and
    ``hits.to_pandas()`` and ``hits.to_arrow()`` as a table; none of these has empty places. Unpacking gives the two
    arrays, as in ``ids, distances = index.search(...)``, so it is ``hits.per_query()`` that iterates over queries.

    The hits of a collection have payloads, and vectors and codes where those were asked for.

    Attributes
    ----------
    ids : int64 array (queries, k)
        There are fewer columns if no query found k rows. -1 where a query found fewer rows than others. In a collection
        whose ids are texts or UUIDs, an array of objects with None there.
    filled : bool array (queries, k)
        Where there is a row.
    distances : array (queries, k)
        Hamming distances are int32 with -1 in empty places. By tables or real-valued queries they are minus the
        scores: float32. Rescored distances are float64. These two have infinity in empty places.
    scores : float array (queries, k)
        Minus the distances, so that higher is better; -infinity in empty places.
    skipped : int64 array (queries,) or None
        How many rows of the index were not looked at because their group could not hold any of the k best.
    """

    _arrays = ("ids", "distances")

    @property
    def filled(self) -> NDArray[np.bool_]:
        return self._numbers >= 0

    @property
    def scores(self) -> NDArray[Any]:
        return np.where(self.filled, -self.distances, -np.inf)

    def __len__(self) -> int:
        return len(self.ids)

    def after(self, offset: int) -> Hits:
        """Return the hits without the first ``offset`` rows of each query."""
        kept = np.s_[:, offset:]
        return Hits(self.ids[kept], self.distances[kept], self._details, self._numbers[kept], self.skipped)

    def _of_query(self, number: int) -> tuple[NDArray[Any], NDArray[Any], Ids]:
        filled = self.filled[number]
        return self.ids[number][filled], self.distances[number][filled], self._numbers[number][filled]


class RangeHits(Found):
    """All rows within a radius of every query, sorted by (distance, id).

    ``ball[0]`` are the rows of the first query, ``ball.to_list()`` are those of all queries as dicts, and
    ``ball.to_pandas()`` and ``ball.to_arrow()`` as a table. Unpacking gives the three arrays, as in
    ``offsets, ids, distances = index.within(...)``.

    Attributes
    ----------
    offsets : int64 array (queries + 1,)
        The rows of query i are at ``offsets[i]:offsets[i + 1]`` of the other two.
    ids : int64 array, or objects where ids are texts or UUIDs
    distances : int32 array, or float32 where queries have scores
    scores : array
        Minus the distances.
    found : int64 array (queries,)
        How many rows each query found, also those that a limit cut off.
    """

    _arrays = ("offsets", "ids", "distances")

    def __init__(
        self,
        offsets: Ids,
        ids: NDArray[Any],
        distances: NDArray[Any],
        details: RowDetails | None = None,
        numbers: Ids | None = None,
        skipped: Ids | None = None,
        found: Ids | None = None,
    ) -> None:
        super().__init__(ids, distances, details, numbers, skipped)
        self.offsets, self.found = offsets, np.diff(offsets) if found is None else found

    @property
    def scores(self) -> NDArray[Any]:
        return -self.distances

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def _of_query(self, number: int) -> tuple[NDArray[Any], NDArray[Any], Ids]:
        rows = slice(self.offsets[number], self.offsets[number + 1])
        return self.ids[rows], self.distances[rows], self._numbers[rows]


class HitList(Table):
    """The rows that one query found, nearest first, without empty places. Iterating gives a ``Hit`` per row.

    Attributes
    ----------
    ids : int64 array (n,), or objects where ids are texts or UUIDs
    distances : array (n,)
    payloads : list of dicts or None
        None for an index, which has no payloads.
    vectors : float32 array (n, size) or None
        None unless they were asked for.
    codes : uint8 array (n, bytes) or None
        None unless they were asked for.
    """

    columns = ("id", "distance")

    def __init__(
        self,
        ids: NDArray[Any],
        distances: NDArray[Any],
        payloads: list[dict[str, Any]] | None = None,
        vectors: NDArray[np.float32] | None = None,
        codes: PackedCodes | None = None,
    ) -> None:
        self.ids, self.distances = ids, distances
        self.payloads, self.vectors, self.codes = payloads, vectors, codes

    def __repr__(self) -> str:
        return f"HitList({list(self)!r})" if self.payloads is None else self._as_text()

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, place: int) -> Hit:
        place = operator.index(place)
        payload = None if self.payloads is None else self.payloads[place]
        vector = None if self.vectors is None else self.vectors[place]
        code = None if self.codes is None else self.codes[place]
        return Hit(self.ids[place : place + 1 or None].tolist()[0], self.distances[place].item(), payload, vector, code)

    def __iter__(self) -> Iterator[Hit]:
        return (self[place] for place in range(len(self)))

    def to_list(self) -> list[dict[str, Any]]:
        """Return one dict per row: id, distance and what else was asked for (payload, vector, code)."""
        given = {"payload": self.payloads, "vector": self.vectors, "code": self.codes}
        missing = {name for name, values in given.items() if values is None}
        return [{name: value for name, value in hit._asdict().items() if name not in missing} for hit in self]

    def lines(self) -> list[dict[str, Any]]:
        return [
            {"id": hit.id, "distance": hit.distance, **fields_as_columns(hit.payload, Found.columns)} for hit in self
        ]
