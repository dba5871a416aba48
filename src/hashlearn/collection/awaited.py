"""AsyncCollection: the methods of a collection for programs that await."""

from __future__ import annotations

import asyncio
import functools
import os
from collections.abc import AsyncIterator, Callable, Coroutine
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from hashlearn.collection.collection import Collection
from hashlearn.collection.ids import IdKind
from hashlearn.collection.reading import Item
from hashlearn.collection.store import StoredRows

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def _awaited(
    method: Callable[Concatenate[Collection, Arguments], Result],
) -> Callable[Concatenate[AsyncCollection, Arguments], Coroutine[Any, Any, Result]]:
    """Return a method that calls one of ``Collection`` in a thread."""

    @functools.wraps(method)
    async def call(self: AsyncCollection, *arguments: Arguments.args, **options: Arguments.kwargs) -> Result:
        return await asyncio.to_thread(method, self._collection, *arguments, **options)

    return call


def _made(
    make: Callable[Arguments, Collection],
) -> Callable[Concatenate[type[AsyncCollection], Arguments], Coroutine[Any, Any, AsyncCollection]]:
    """Return a class method that calls one of ``Collection`` in a thread and returns the collection to await."""

    # ``make`` is bound to Collection, so help would leave out the next argument in place of ``cls``.
    @functools.wraps(getattr(make, "__func__", make))
    async def call(
        cls: type[AsyncCollection], *arguments: Arguments.args, **options: Arguments.kwargs
    ) -> AsyncCollection:
        return cls(await asyncio.to_thread(make, *arguments, **options))

    return call


class AsyncCollection:
    """A ``Collection`` whose methods are awaited: the same arguments, results and errors.

    Each call runs in a thread, so other tasks go on meanwhile, and several calls may be under way at the same time. A
    call that has begun ends by itself when its task is canceled.

    Examples
    --------
    >>> import asyncio
    >>> import numpy as np
    >>> from hashlearn import AsyncCollection
    >>> async def main():
    ...     async with await AsyncCollection.create(":memory:", n_bits=8) as shop:
    ...         await shop.add(codes=np.array([[0], [1], [7]], dtype=np.uint8))
    ...         hits = await shop.search(codes=np.array([[1]], dtype=np.uint8), k=2)
    ...         return hits.ids.tolist(), await shop.count()
    >>> asyncio.run(main())
    ([[1, 0]], 3)
    """

    def __init__(self, collection: Collection) -> None:
        self._collection = collection

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"Async{self._collection!r}"

    async def __aiter__(self) -> AsyncIterator[Item]:
        """Iterate over all rows; ``scan`` gives batches."""
        rows = iter(self._collection)
        while (item := await asyncio.to_thread(next, rows, None)) is not None:
            yield item

    async def scan(self, *arguments: Any, **options: Any) -> AsyncIterator[StoredRows]:
        """Iterate over all rows in batches; see ``Collection.scan``."""
        batches = self._collection.scan(*arguments, **options)
        while (rows := await asyncio.to_thread(next, batches, None)) is not None:
            yield rows

    async def copy(self, *arguments: Any, **options: Any) -> Self:
        """Copy all rows to another place and return the copy; see ``Collection.copy``."""
        return type(self)(await asyncio.to_thread(self._collection.copy, *arguments, **options))

    @staticmethod
    async def drop(uri: str | os.PathLike[str], *, token: str | None = None) -> None:
        """Remove a collection for good; see ``Collection.drop``."""
        await asyncio.to_thread(Collection.drop, uri, token=token)

    create = classmethod(_made(Collection.create))
    open = classmethod(_made(Collection.open))
    from_texts = classmethod(_made(Collection.from_texts))
    restore = classmethod(_made(Collection.restore))

    @property
    def uri(self) -> str:
        return self._collection.uri

    @property
    def n_bits(self) -> int:
        return self._collection.n_bits

    @property
    def id_kind(self) -> IdKind:
        return self._collection.id_kind

    @property
    def vector_size(self) -> int | None:
        return self._collection.vector_size

    @property
    def hasher(self) -> Any:
        return self._collection.hasher

    @property
    def text_model(self) -> str | None:
        return self._collection.text_model

    @property
    def text_field(self) -> str | None:
        return self._collection.text_field

    @property
    def label_field(self) -> str | None:
        return self._collection.label_field

    close = _awaited(Collection.close)
    info = _awaited(Collection.info)
    search = _awaited(Collection.search)
    within = _awaited(Collection.within)
    encode_queries = _awaited(Collection.encode_queries)
    health = _awaited(Collection.health)
    count = _awaited(Collection.count)
    filter_advice = _awaited(Collection.filter_advice)
    get = _awaited(Collection.get)
    peek = _awaited(Collection.peek)
    to_pandas = _awaited(Collection.to_pandas)
    to_arrow = _awaited(Collection.to_arrow)
    add = _awaited(Collection.add)
    update_payload = _awaited(Collection.update_payload)
    delete = _awaited(Collection.delete)
    export = _awaited(Collection.export)
    verify = _awaited(Collection.verify)
    migrate = _awaited(Collection.migrate)
    undo_migration = _awaited(Collection.undo_migration)
    learn_labels = _awaited(Collection.learn_labels)
    set_text_model = _awaited(Collection.set_text_model)
    compact = _awaited(Collection.compact)
    backup = _awaited(Collection.backup)
