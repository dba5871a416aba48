"""Answers about a whole collection, which take a while: each is computed once per version of the collection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from hashlearn.service.errors import collection_errors
from hashlearn.service.served_collection import ServedCollection
from hashlearn.service.work_queue import WorkQueue

Compute = Callable[[ServedCollection], bytes]


class KeptAnswers:
    """The last answer of each kind, for as long as the collection does not change.

    Requests that come while an answer is computed wait for it, and take no thread of their own. An answer that failed
    is not kept.
    """

    def __init__(self, served: ServedCollection) -> None:
        self._served = served
        self._kept: dict[Compute, tuple[object, asyncio.Task[bytes]]] = {}

    async def answer(self, compute: Compute, threads: WorkQueue) -> bytes:
        """What ``compute`` answers for the collection as it is now."""
        version = await threads.run(self._version)
        known, task = self._kept.get(compute, (None, None))
        if task is None or known != version or _failed(task):
            task = asyncio.create_task(threads.run(compute, self._served))
            task.add_done_callback(_failed)  # asyncio warns about exceptions that nobody looked at
            self._kept[compute] = (version, task)
        return await asyncio.shield(task)  # a client that leaves does not end it for the others

    def _version(self) -> object:
        with collection_errors():
            return self._served.version()


def _failed(task: asyncio.Task[bytes]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)
