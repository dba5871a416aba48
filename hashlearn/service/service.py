"""What all routes share: the settings, the collections by name, the work queues, the figures."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated

from fastapi import Depends, Request

from hashlearn.collection.health import Health
from hashlearn.parallel import thread_count
from hashlearn.service.errors import ApiError, collection_errors, log
from hashlearn.service.image_decoding import ImageDecoder
from hashlearn.service.kept_answers import KeptAnswers
from hashlearn.service.metrics import Metrics
from hashlearn.service.middleware import AccessLog
from hashlearn.service.probe import Probe
from hashlearn.service.served_collection import ServedCollection
from hashlearn.service.settings import ServerSettings
from hashlearn.service.work_queue import WorkQueue


class Service:
    """Collections under their names, and what is needed to answer for them.

    Searches share several threads and writes are done by one. ``/readyz`` and ``/metrics`` have threads of their own.
    """

    def __init__(self, collections: Sequence[ServedCollection], settings: ServerSettings | None = None) -> None:
        self.settings = settings or ServerSettings()
        self.collections = {served.name: served for served in collections}
        if len(self.collections) < len(collections):
            names = sorted(served.name for served in collections)
            twice = next(name for name, after in pairwise(names) if name == after)
            raise ValueError(f"Two collections are called {twice!r}: name one of them, NAME=FOLDER.")
        limits = self.limits = self.settings.limits
        self.metrics = Metrics()
        advice = " It may still be done: look before you ask again."
        self.reads = WorkQueue("read", thread_count(None) + 4, limits, self.metrics)
        self.writes = WorkQueue("write", 1, limits, self.metrics, advice)
        self.search_probe = Probe("search-probe", self.search_all)
        self.health_probe = Probe("health-probe", self.all_health)
        self.decoder = ImageDecoder(limits)
        path = self.settings.access_log
        self.access_log = None if path is None else AccessLog(path)
        self._kept: dict[ServedCollection, KeptAnswers] = {}
        self.ready = False
        self.closed = False
        self._closing = False

    def start(self) -> None:
        """Search every collection once in the background, so that the first client need not wait for the codes."""
        threading.Thread(target=self._warm_up, name="hashlearn-warm-up", daemon=True).start()

    def _warm_up(self) -> None:
        try:
            self.search_all()
            self.ready = True
        except Exception as error:
            if not self._closing:
                log.error("A collection cannot be searched: %s", error)

    def search_all(self) -> None:
        """Search every collection once; what fails raises."""
        with collection_errors():
            for served in list(self.collections.values()):
                served.probe()

    def all_health(self) -> dict[str, Health]:
        """Rows, distinct codes and queries of every collection."""
        with collection_errors():
            return {name: served.health() for name, served in list(self.collections.items())}

    def kept(self, served: ServedCollection) -> KeptAnswers:
        """The answers about all rows of a collection that are kept."""
        return self._kept.setdefault(served, KeptAnswers(served))

    def forget(self, served: ServedCollection) -> None:
        """Serve a collection no longer."""
        del self.collections[served.name]
        self._kept.pop(served, None)

    async def close(self) -> None:
        """Wait for the work that has begun, for ``limits.close_seconds`` at most, and close the collections."""
        self._closing, self.ready = True, False
        loop, ended = asyncio.get_running_loop(), asyncio.Event()

        def close() -> None:
            self.close_now()
            loop.call_soon_threadsafe(ended.set)

        # A daemon thread: others would keep the process from ending for as long as they wait.
        threading.Thread(target=close, name="hashlearn-close", daemon=True).start()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.limits.close_seconds):
                await ended.wait()

    def close_now(self) -> None:
        """Wait for the work that has begun, however long, and close the collections."""
        for threads in (self.writes, self.reads, self.search_probe, self.health_probe):
            threads.close()
        for served in self.collections.values():
            served.collection.close()
        if self.access_log is not None:
            self.access_log.close()
        self.closed = True


# These are coroutines because the framework calls plain functions in a thread, which takes longer than they do.


async def the_service(request: Request) -> Service:
    """The service that a request came to."""
    service: Service = request.app.state.service
    return service


async def the_collection(request: Request, collection: str) -> ServedCollection:
    """The collection that the address of a request names."""
    service: Service = request.app.state.service
    served = service.collections.get(collection)
    if served is None:
        raise ApiError(404, "no_collection", f"There is no collection {collection[:64]!r} here.")
    return served


ServiceDep = Annotated[Service, Depends(the_service)]
CollectionDep = Annotated[ServedCollection, Depends(the_collection)]
