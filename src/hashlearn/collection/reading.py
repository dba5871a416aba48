"""How rows of a collection are read: the methods ``get``, ``peek``, ``scan``, ``to_pandas`` and ``to_arrow``."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import numpy as np

from hashlearn.collection.store import Payload, StoredRows, Vectors
from hashlearn.collection.where import Where, condition_of
from hashlearn.index import tables
from hashlearn.index.inputs import checked_count
from hashlearn.typing import PackedCodes

if TYPE_CHECKING:
    from hashlearn.collection.collection import Collection

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


@overload
def get(self: Collection, ids: OneId, vectors: bool = True) -> Item | None: ...
@overload
def get(self: Collection, ids: Iterable[Any], vectors: bool = True) -> list[Item | None]: ...
@overload
def get(
    self: Collection, ids: None = None, vectors: bool = True, *, where: Where | None = None, limit: int | None = None
) -> Items: ...
def get(
    self: Collection, ids: Any = None, vectors: bool = True, *, where: Where | None = None, limit: int | None = None
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
        raise ValueError("Give ids, or where= and limit=, to get rows. To read all rows, iterate over the collection.")
    if chosen:
        return _matching(self, where, limit, vectors)
    wanted = self._wanted(ids)
    numbers = np.unique(self._ids.numbers(wanted))
    rows = self._ids.shown(self._store.get(numbers, vectors and self.vector_size is not None))
    found = {item.id: item for item in items_of(rows)}
    items = [found.get(one) for one in wanted.tolist()]
    return items[0] if self._ids.is_single(ids) else items


def _matching(self: Collection, where: Where | None, limit: int | None, vectors: bool) -> Items:
    if limit is None:
        items = Items(item for rows in self.scan(where=where, vectors=vectors) for item in items_of(rows))
    else:
        first = next(self.scan(checked_count(limit, "limit", 1), where, vectors), None)
        items = Items() if first is None else Items(items_of(first))
    self._check_filter(condition_of(where), bool(items), depth=2)
    return items


def peek(self: Collection, limit: int = 10) -> Items:
    """Return the first rows without their vectors, to see what there is. A notebook shows them as a table."""
    return self.get(vectors=False, limit=limit)


def scan(
    self: Collection, batch_rows: int = 10_000, where: Where | None = None, vectors: bool = False
) -> Iterator[StoredRows]:
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


def to_pandas(self: Collection, where: Where | None = None) -> Any:
    """Return a data frame of pandas with one line per row, or per row that matches: id and the fields of payloads.

    A field with the name "id" becomes ``payload.id``. Codes and vectors are not in it; ``scan`` has them.
    """
    return _matching(self, where or {}, None, vectors=False).to_pandas()


def to_arrow(self: Collection, where: Where | None = None) -> Any:
    """Return a table of PyArrow with the columns of ``to_pandas``. UUIDs are text in it."""
    return _matching(self, where or {}, None, vectors=False).to_arrow()


def items_of(rows: StoredRows) -> Iterator[Item]:
    vectors = [None] * len(rows.ids) if rows.vectors is None else rows.vectors
    return map(Item, rows.ids.tolist(), rows.codes, rows.payloads, vectors)
