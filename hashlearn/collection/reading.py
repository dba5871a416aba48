"""Reading the rows of a collection: by id, by filter, one after the other, as a table."""

from __future__ import annotations

import html
import uuid
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hashlearn.collection.filter_advice import Asked, filter_advice, warn_of_filter
from hashlearn.collection.hashed_store import HashedStore
from hashlearn.collection.store import Payload, Store, StoredRows, Vectors
from hashlearn.collection.validation import refuse_filter
from hashlearn.collection.where import Condition, parse
from hashlearn.index import tables
from hashlearn.index.inputs import checked_count
from hashlearn.typing import PackedCodes

Where = Mapping[str, Any]
OneId = int | str | uuid.UUID


class Item(NamedTuple):
    """One row of a collection. ``id`` is an int, a str or a uuid.UUID, by the kind of ids of the collection.

    ``vector`` is None when the collection keeps none or none was asked for.
    """

    id: Any
    code: PackedCodes
    payload: Payload
    vector: Vectors | None


class Items(list[Item], tables.Table):
    """Rows of a collection: a list that can be shown as a table of ids and the fields of payloads."""

    columns = ("id",)

    def lines(self) -> list[dict[str, Any]]:
        return [{"id": item.id, **tables.fields_as_columns(item.payload, self.columns)} for item in self]


class ReadableRows(HashedStore):
    """Base of ``Collection``: what reads rows and changes nothing."""

    warns_of_filters = True
    """Whether a filter that finds nothing warns of fields that cannot match. ``filter_advice`` tells them."""

    def __init__(self, uri: str, store: Store, hasher: Any = None) -> None:
        super().__init__(uri, store, hasher)
        self._told: set[Asked] = set()

    def __len__(self) -> int:
        return self.count()

    def __bool__(self) -> bool:
        return True  # otherwise an empty collection would count as false, because its length is 0

    def __contains__(self, one: Any) -> bool:
        """Whether there is a row with this id."""
        return self.get([one], vectors=False)[0] is not None

    def __iter__(self) -> Iterator[Item]:
        """Iterate over all rows, in the order of ids that are numbers; ``scan`` gives batches, and vectors too."""
        return (item for rows in self.scan() for item in _items(rows))

    def count(self, where: Where | None = None) -> int:
        """Return how many rows there are, or how many match."""
        condition = condition_of(where)
        found = self._store.count(condition)
        self._check_filter(condition, found > 0, 2)
        return found

    def filter_advice(self, where: Where) -> list[str]:
        """Return one sentence per field of a filter that cannot match, with why: no payload has it, or its values are
        of another kind (numbers for text, lists for one value).

        ``search`` and other methods warn so by themselves if a filter finds nothing. Only the first 20 fields of the
        filter are looked for.
        """
        return filter_advice(self._store, parse(where))

    @overload
    def get(self, ids: OneId, vectors: bool = True) -> Item | None: ...
    @overload
    def get(self, ids: Iterable[Any], vectors: bool = True) -> list[Item | None]: ...
    @overload
    def get(
        self, ids: None = None, vectors: bool = True, *, where: Where | None = None, limit: int | None = None
    ) -> Items: ...
    def get(
        self, ids: Any = None, vectors: bool = True, *, where: Where | None = None, limit: int | None = None
    ) -> Any:
        """Read rows by their ids, or the rows whose payload matches.

        Parameters
        ----------
        ids : one id, or a list, default=None
        vectors : bool, default=True
            Whether to read kept vectors too.
        where : dict, default=None
            In place of ids: a filter, as in ``search``.
        limit : int, default=None
            In place of ids: the most rows to read, the first ones in the order of ``scan``.

        Returns
        -------
        Item or None, or a list
            For one id the row, or None if there is none. For a list of ids, a list of them. For a filter or a limit,
            a list of rows that also has ``to_pandas`` and ``to_arrow``.
        """
        chosen = where is not None or limit is not None
        if (ids is not None) == chosen:
            raise ValueError(
                "Give ids, or where= and limit=, to get rows. To read all rows, iterate over the collection."
            )
        refuse_filter(ids)
        if chosen:
            return self._matching(where, limit, vectors)
        single = self._ids.is_single(ids)
        wanted = self._ids.array([ids] if single else ids)
        numbers = np.unique(self._ids.numbers(wanted))
        rows = self._ids.shown(self._store.get(numbers, vectors and self.vector_size is not None))
        found = {item.id: item for item in _items(rows)}
        items = [found.get(one) for one in wanted.tolist()]
        return items[0] if single else items

    def _matching(self, where: Where | None, limit: int | None, vectors: bool) -> Items:
        if limit is None:
            items = Items(item for rows in self.scan(where=where, vectors=vectors) for item in _items(rows))
        else:
            first = next(self.scan(checked_count(limit, "limit", 1), where, vectors), None)
            items = Items() if first is None else Items(_items(first))
        self._check_filter(condition_of(where), bool(items), 3)
        return items

    def peek(self, limit: int = 10) -> Items:
        """Return the first rows without their vectors, to see what there is. A notebook shows them as a table."""
        return self.get(vectors=False, limit=limit)

    def _repr_html_(self) -> str:
        if self._closed:
            return f"<p>{html.escape(repr(self))}, closed</p>"
        return f"<p>{html.escape(repr(self))}, {len(self):,} rows</p>{self.peek(5)._repr_html_()}"

    def scan(self, batch_rows: int = 10_000, where: Where | None = None, vectors: bool = False) -> Iterator[StoredRows]:
        """Iterate over all rows in batches, in the order of ids that are numbers.

        Parameters
        ----------
        batch_rows : int, default=10000
            The most rows of a batch.
        where : dict, default=None
            A filter, as in ``search``.
        vectors : bool, default=False

        Yields
        ------
        StoredRows
            ids, codes, payloads, and vectors or None.
        """
        wanted = vectors and self.vector_size is not None
        batches = self._store.scan(checked_count(batch_rows, "batch_rows", 1), condition_of(where), wanted)
        return (self._ids.shown(rows) for rows in batches)

    def to_pandas(self, where: Where | None = None) -> Any:
        """Return a data frame of pandas with one line per row, or per row that matches: id and the fields of payloads.

        A field with the name "id" becomes ``payload.id``. Codes and vectors are not in it; ``scan`` has them.
        """
        return self._all_items(where).to_pandas()

    def to_arrow(self, where: Where | None = None) -> Any:
        """Return a table of PyArrow with the columns of ``to_pandas``. UUIDs are text in it."""
        return self._all_items(where).to_arrow()

    def _all_items(self, where: Where | None) -> Items:
        return self._matching({} if where is None else where, None, vectors=False)

    def ids_array(self, ids: ArrayLike) -> NDArray[Any]:
        """Return ids as an array of the collection's kind: int64, or objects. ValueError for what is no such id."""
        return self._ids.array(ids)

    def _check_filter(self, condition: Condition | None, found: bool, stacklevel: int) -> None:
        """Warn of fields that cannot match if a filter found nothing, once per field and kind of values."""
        if condition is not None and not found and self.warns_of_filters:
            warn_of_filter(self._store, condition, self._told, stacklevel + 1)


def condition_of(where: Where | None) -> Condition | None:
    """Return the checked filter; None when every row matches."""
    if where is None:
        return None
    condition = parse(where)
    return condition if where else None


def _items(rows: StoredRows) -> Iterator[Item]:
    vectors = [None] * len(rows.ids) if rows.vectors is None else rows.vectors
    return map(Item, rows.ids.tolist(), rows.codes, rows.payloads, vectors)
