"""What all routes share: the settings, the collections by name, the work queues, the figures."""

from __future__ import annotations

import asyncio
import contextlib
import math
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from typing import Annotated, Any, Generic, TypeVar

from fastapi import Depends, Request

from hashlearn.collection.health import Health
from hashlearn.data.embed import TextModel
from hashlearn.messages import one_line
from hashlearn.parallel import thread_count
from hashlearn.service.errors import ApiError, collection_errors, log
from hashlearn.service.images import ImageDecoder
from hashlearn.service.metrics import Metrics
from hashlearn.service.middleware import AccessLog
from hashlearn.service.served_collection import ServedCollection, text_features
from hashlearn.service.settings import Limits, ServerSettings

Result = TypeVar("Result")


class WorkQueue:
    """A fixed number of threads; requests take them in the order in which they came.

    A request is refused with 503 and ``Retry-After`` when ``limits.waiting`` others wait already, and when it has
    waited for ``limits.queue_seconds``. A thread counts as busy until its work has ended, also when the client was
    told that it took too long: a thread cannot be stopped, and slow work must not pile up.

    Parameters
    ----------
    name : str
        What ``/metrics`` calls the queue.
    n_threads : int
    limits : Limits
    metrics : Metrics
    advice : str
        What to add to the message when work takes too long.
    """

    def __init__(self, name: str, n_threads: int, limits: Limits, metrics: Metrics, advice: str = "") -> None:
        self._limits = limits
        self._n_threads = n_threads
        self._advice = advice
        self._threads = ThreadPoolExecutor(n_threads, f"hashlearn-{name}")
        self._free = asyncio.Semaphore(n_threads)
        self._waiting = 0
        self._mean_seconds = 0.0
        self._metrics = metrics.of_queue(name)

    async def run(self, work: Callable[..., Result], *arguments: Any) -> Result:
        """Return the result of ``work(*arguments)``, called in one of the threads."""
        await self._take_thread()
        future = asyncio.get_running_loop().run_in_executor(self._threads, work, *arguments)
        future.add_done_callback(partial(self._give_back, time.monotonic()))
        done, _ = await asyncio.wait([future], timeout=self._limits.seconds)
        if not done:
            message = f"This took longer than {self._limits.seconds:g} s, so there is no answer.{self._advice}"
            raise ApiError(503, "too_long", message, {"Retry-After": "10"})
        return future.result()

    async def _take_thread(self) -> None:
        if self._free.locked() and self._waiting >= self._limits.waiting:
            raise self._busy()
        arrived = time.monotonic()
        self._waiting += 1
        self._metrics.waiting.inc()
        try:
            async with asyncio.timeout(self._limits.queue_seconds):
                await self._free.acquire()
        except TimeoutError:
            raise self._busy() from None
        finally:
            self._waiting -= 1
            self._metrics.waiting.dec()
        self._metrics.working.inc()
        self._metrics.wait_seconds.observe(time.monotonic() - arrived)

    def _busy(self) -> ApiError:
        self._metrics.refused.inc()
        wait = self._mean_seconds * self._waiting / self._n_threads
        seconds = str(min(60, max(1, math.ceil(wait))))
        return ApiError(503, "busy", "The server is busy: try again later.", {"Retry-After": seconds})

    def _give_back(self, started: float, future: asyncio.Future[Any]) -> None:
        self._mean_seconds += 0.1 * (time.monotonic() - started - self._mean_seconds)
        self._metrics.working.dec()
        self._free.release()
        if not future.cancelled():
            future.exception()  # asyncio warns about exceptions that nobody looked at

    def close(self) -> None:
        """Wait for the work that has begun."""
        self._threads.shutdown()


class Probe(Generic[Result]):
    """A check that has its own thread. Requests that come while it runs share its result.

    So a check that hangs keeps one thread busy, however often it is asked for.
    """

    def __init__(self, name: str, check: Callable[[], Result]) -> None:
        self._check = check
        self._thread = ThreadPoolExecutor(1, f"hashlearn-{name}")
        self._running: asyncio.Future[Result] | None = None

    async def result(self, seconds: float) -> Result:
        """Return what the check returns; TimeoutError when it takes longer than ``seconds``."""
        if self._running is None or self._running.done():
            self._running = asyncio.get_running_loop().run_in_executor(self._thread, self._check)
            # asyncio warns about exceptions that nobody looked at.
            self._running.add_done_callback(lambda future: future.cancelled() or future.exception())
        running = self._running
        done, _ = await asyncio.wait([running], timeout=seconds)
        if not done:
            raise TimeoutError
        return running.result()

    def close(self) -> None:
        """Wait for a check that has begun."""
        self._thread.shutdown()


Compute = Callable[[ServedCollection], bytes]


class ResponseCache:
    """The last answer of each kind, for as long as the collection does not change.

    Requests that come while an answer is computed wait for it, and take no thread of their own. An answer that failed
    is not kept.
    """

    def __init__(self, served: ServedCollection) -> None:
        self._served = served
        self._kept: dict[Compute, tuple[object, asyncio.Task[bytes]]] = {}

    async def answer(self, compute: Compute, threads: WorkQueue) -> bytes:
        """Return what ``compute`` answers for the collection as it is now."""
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
        n_readers = thread_count(None) + 4
        self.n_threads = n_readers + 3  # that read, one that writes, and those of /readyz and /metrics
        self.reads = WorkQueue("read", n_readers, limits, self.metrics)
        self.writes = WorkQueue("write", 1, limits, self.metrics, advice)
        self.search_probe = Probe("search-probe", self.search_all)
        self.health_probe = Probe("health-probe", self.all_health)
        self.decoder = ImageDecoder(limits)
        path = self.settings.access_log
        self.access_log = None if path is None else AccessLog(path)
        self._kept: dict[ServedCollection, ResponseCache] = {}
        self._text_models: dict[str, TextModel] = {}
        self.ready = False
        self.closed = False
        self._closing = False

    @property
    def most_collections(self) -> int:
        """How many collections may be open at the same time."""
        served = len(self.collections)
        return served if self.settings.create_in is None else max(served, self.limits.collections)

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
        """Return rows, distinct codes and queries of every collection."""
        with collection_errors():
            return {name: served.health() for name, served in list(self.collections.items())}

    def load_text_model(self, served: ServedCollection) -> str | None:
        """Load the text model that a collection's hasher names; return why it cannot be, as one sentence."""
        try:
            served.texts = text_features(served.hasher, self._text_models) if self.settings.search_texts else None
        except (ImportError, ValueError) as error:
            return f"{served.name} cannot be searched by texts: {one_line(error)}"
        return None

    def follow_hasher(self, served: ServedCollection) -> None:
        """Note the hasher that a client has set, and load its text model in the background, which may take seconds."""
        served.look_at_hasher()
        if served.texts is None and served.collection.text_model is not None:

            def load() -> None:
                if (why := self.load_text_model(served)) is not None:
                    log.warning("%s", why)

            threading.Thread(target=load, name="hashlearn-text-model", daemon=True).start()

    def kept(self, served: ServedCollection) -> ResponseCache:
        """Return the answers about all rows of a collection that are kept."""
        return self._kept.setdefault(served, ResponseCache(served))

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
    """Return the service that a request came to."""
    service: Service = request.app.state.service
    return service


async def the_collection(request: Request, collection: str) -> ServedCollection:
    """Return the collection that the address of a request names."""
    service: Service = request.app.state.service
    served = service.collections.get(collection)
    if served is None:
        raise ApiError(404, "no_collection", f"There is no collection {collection[:64]!r} here.")
    return served


ServiceDep = Annotated[Service, Depends(the_service)]
CollectionDep = Annotated[ServedCollection, Depends(the_collection)]
