"""What all routes share: the settings, the collections by name, threads for their work, figures and the access log."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
import logging
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial, wraps
from itertools import pairwise
from logging.handlers import WatchedFileHandler
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import urlsplit

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

from hashlearn.collection.health import Health
from hashlearn.data import embed
from hashlearn.messages import one_line
from hashlearn.parallel import thread_count
from hashlearn.service.errors import ApiError, collection_errors, log
from hashlearn.service.images import ImageDecoder
from hashlearn.service.served_collection import ServedCollection
from hashlearn.service.settings import Limits, ServerSettings, Token

Result = TypeVar("Result")

_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_HEALTH = {
    "rows": "Rows of a collection.",
    "queries": "Queries by vectors, texts or pictures since the start.",
    "near_threshold": "Share of query bits that are 60 : 40 at best.",
    "confidence": "Mean size of the expected bits of queries, 0 to 1.",
    "trained_confidence": "The same on training rows.",
    "distinct_codes": "Distinct codes of the first 10,000 rows.",
}


class Metrics:
    """Figures for Prometheus. One registry per server: the figures of several servers in one process do not mix."""

    def __init__(self) -> None:
        registry = self._registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        gauge, counter = partial(Gauge, registry=registry), partial(Counter, registry=registry)
        seconds = partial(Histogram, registry=registry, buckets=_BUCKETS)
        self._requests = counter("hashlearn_requests", "Requests answered.", ("method", "route", "status"))
        self._seconds = seconds("hashlearn_request_seconds", "Seconds to answer.", ("method", "route"))
        self.under_way = gauge("hashlearn_requests_under_way", "Requests not yet answered.")
        self.failed_logins = counter("hashlearn_failed_logins", "Requests with a wrong token.")
        self.held_bytes = gauge("hashlearn_held_bytes", "Bytes of request bodies in memory.")
        self.waiting = gauge("hashlearn_queue_waiting", "Requests that wait for a thread.", ("queue",))
        self.working = gauge("hashlearn_queue_working", "Threads that work.", ("queue",))
        self.refused = counter("hashlearn_queue_refused", "Requests refused as busy.", ("queue",))
        self.wait_seconds = seconds("hashlearn_queue_wait_seconds", "Seconds until a thread is free.", ("queue",))
        self._health = {
            name: gauge(f"hashlearn_collection_{name}", text, ("collection",)) for name, text in _HEALTH.items()
        }

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request."""
        # Whatever a client sends as a method must not make a new time series.
        known = method if method in _METHODS else "other"
        self._requests.labels(known, route, str(status)).inc()
        self._seconds.labels(known, route).observe(seconds)

    def text(self, health: dict[str, Health]) -> bytes:
        """Return all figures in Prometheus' text format; ``health`` is that of every collection."""
        for name, gauge in self._health.items():
            gauge.clear()
            for collection, figures in health.items():
                if (value := getattr(figures, name)) is not None:
                    gauge.labels(collection).set(value)
        return generate_latest(self._registry)


class AccessLog:
    """One JSON object per line and request, in a file or, for "-", on standard error.

    Queries and headers are left out: filters and tokens are private. The file may be moved away while the server
    runs; the next line begins a new one.
    """

    def __init__(self, path: str) -> None:
        self._handler: logging.StreamHandler[Any]
        try:
            self._handler = (
                logging.StreamHandler(sys.stderr) if path == "-" else WatchedFileHandler(path, encoding="utf-8")
            )
        except OSError as error:
            raise OSError(f"Cannot write the access log {path}: {error.strerror}.") from error

    def write(self, **values: Any) -> None:
        line = json.dumps({"time": datetime.now(UTC).isoformat(timespec="milliseconds"), **values})
        self._handler.handle(logging.LogRecord("hashlearn.access", logging.INFO, "", 0, line, None, None))

    def close(self) -> None:
        self._handler.close()


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
        self._advice = advice
        self._threads = ThreadPoolExecutor(n_threads, f"hashlearn-{name}")
        self._free = asyncio.Semaphore(n_threads)
        self._n_waiting = 0
        self._waiting = metrics.waiting.labels(name)
        self._working = metrics.working.labels(name)
        self._refused = metrics.refused.labels(name)
        self._wait_seconds = metrics.wait_seconds.labels(name)

    async def run(self, work: Callable[..., Result], *arguments: Any, **named: Any) -> Result:
        """Return the result of ``work``, called in one of the threads. What a collection raises becomes an answer."""
        await self._take_thread()
        call = partial(collection_errors()(work), *arguments, **named)
        future = asyncio.get_running_loop().run_in_executor(self._threads, call)
        future.add_done_callback(self._give_back)
        done, _ = await asyncio.wait([future], timeout=self._limits.seconds)
        if not done:
            message = f"This took longer than {self._limits.seconds:g} s, so there is no answer.{self._advice}"
            raise ApiError(503, "too_long", message, {"Retry-After": "10"})
        return future.result()

    async def _take_thread(self) -> None:
        if self._free.locked() and self._n_waiting >= self._limits.waiting:
            raise self._busy()
        arrived = time.monotonic()
        self._n_waiting += 1
        self._waiting.inc()
        try:
            async with asyncio.timeout(self._limits.queue_seconds):
                await self._free.acquire()
        except TimeoutError:
            raise self._busy() from None
        finally:
            self._n_waiting -= 1
            self._waiting.dec()
        self._working.inc()
        self._wait_seconds.observe(time.monotonic() - arrived)

    def _busy(self) -> ApiError:
        self._refused.inc()
        return ApiError(503, "busy", "The server is busy: try again later.", {"Retry-After": "1"})

    def _give_back(self, future: asyncio.Future[Any]) -> None:
        self._working.dec()
        self._free.release()
        _look_at(future)

    def close(self) -> None:
        """Wait for the work that has begun."""
        self._threads.shutdown()


def _look_at(future: asyncio.Future[Any]) -> None:
    """Look at the exception of a future that has ended: asyncio warns about exceptions that nobody looked at."""
    if not future.cancelled():
        future.exception()


Compute = Callable[[ServedCollection], bytes]


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
        self._probe_threads = ThreadPoolExecutor(2, "hashlearn-probe")
        self._probes: dict[str, asyncio.Future[Any]] = {}
        self.decoder = ImageDecoder(limits)
        path = self.settings.access_log
        self.access_log = None if path is None else AccessLog(path)
        self._kept: dict[tuple[ServedCollection, Compute], tuple[object, asyncio.Task[bytes]]] = {}
        self._text_models: dict[str, embed.TextModel] = {}
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

    async def probe(self, check: Callable[[], Result]) -> Result:
        """Return what a check returns; TimeoutError when it takes longer than ``limits.probe_seconds``.

        Requests that come while it runs share its result. So a check that hangs keeps one thread busy, however often
        it is asked for.
        """
        running = self._probes.get(check.__name__)
        if running is None or running.done():
            running = asyncio.get_running_loop().run_in_executor(self._probe_threads, check)
            running.add_done_callback(_look_at)
            self._probes[check.__name__] = running
        done, _ = await asyncio.wait([running], timeout=self.limits.probe_seconds)
        if not done:
            raise TimeoutError
        return running.result()

    async def kept(self, served: ServedCollection, compute: Compute) -> bytes:
        """Return what ``compute`` answers about all rows of a collection as it is now.

        The answer is kept for as long as the collection does not change. Requests that come while it is computed wait
        for it, and take no thread of their own. An answer that failed is not kept.
        """
        version = await self.reads.run(served.version)
        known, task = self._kept.get((served, compute), (None, None))
        failed = task is not None and task.done() and (task.cancelled() or task.exception() is not None)
        if task is None or known != version or failed:
            task = asyncio.create_task(self.reads.run(compute, served))
            task.add_done_callback(_look_at)
            self._kept[served, compute] = (version, task)
        return await asyncio.shield(task)  # a client that leaves does not end it for the others

    def load_text_model(self, served: ServedCollection) -> str | None:
        """Load the text model that a collection's hasher names; return why it cannot be, as one sentence."""
        name = getattr(served.hasher, "text_model_", None)
        if name is None or not self.settings.search_texts:
            return None
        try:
            if name not in self._text_models:  # which several hashers may share
                self._text_models[name] = embed.text_model(name)
            embed.check_fits(self._text_models[name], served.hasher)
        except (ImportError, ValueError) as error:
            return f"{served.name} cannot be searched by texts: {one_line(error)}"
        served.texts = self._text_models[name]
        return None

    def follow_hasher(self, served: ServedCollection) -> None:
        """Note the hasher that a client has set, and load its text model in the background, which may take seconds."""
        served.look_at_hasher()
        if served.texts is None and served.collection.text_model is not None:

            def load() -> None:
                if (why := self.load_text_model(served)) is not None:
                    log.warning("%s", why)

            threading.Thread(target=load, name="hashlearn-text-model", daemon=True).start()

    def forget(self, served: ServedCollection) -> None:
        """Serve a collection no longer."""
        del self.collections[served.name]
        for key in [key for key in self._kept if key[0] is served]:
            del self._kept[key]

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
        self.writes.close()
        self.reads.close()
        self._probe_threads.shutdown()
        for served in self.collections.values():
            served.collection.close()
        if self.access_log is not None:
            self.access_log.close()
        self.closed = True


# What routes depend on. These are coroutines because the framework calls plain functions in a thread, which takes
# longer than they do.


async def the_service(request: Request) -> Service:
    """Return the service that a request came to."""
    service: Service = request.app.state.service
    return service


ServiceDep = Annotated[Service, Depends(the_service)]


async def the_collection(service: ServiceDep, collection: str) -> ServedCollection:
    """Return the collection that the address of a request names."""
    served = service.collections.get(collection)
    if served is None:
        raise ApiError(404, "no_collection", f"There is no collection {collection[:64]!r} here.")
    return served


CollectionDep = Annotated[ServedCollection, Depends(the_collection)]


async def the_writable_collection(served: CollectionDep) -> ServedCollection:
    """Refuse to change a collection that was opened to be read only."""
    if not served.writable:
        raise ApiError(403, "read_only", f"The collection {served.name} was opened to be read only.")
    return served


WritableDep = Annotated[ServedCollection, Depends(the_writable_collection)]
_BEARER = HTTPBearer(auto_error=False, description="A token of --token-file or HASHLEARN_TOKEN that may write.")


async def require_writer(
    request: Request, service: ServiceDep, bearer: Annotated[HTTPAuthorizationCredentials | None, Depends(_BEARER)]
) -> None:
    """Refuse requests without a token that may write.

    The token must come as a bearer: no page elsewhere can make a browser send that, while a browser adds a password
    that it has stored to every request by itself.
    """
    token: Token | None = request.state.token
    if not service.settings.may_write:
        raise ApiError(403, "read_only", "Writing is off: start the server with --token-file or HASHLEARN_TOKEN.")
    if token is None or bearer is None:
        message = "Writing needs a token of this server: Authorization: Bearer TOKEN."
        raise ApiError(401, "no_token", message, {"WWW-Authenticate": 'Bearer realm="hashlearn"'})
    if not token.can_write:
        raise ApiError(403, "read_only_token", f"The token {token.name!r} may read and not write.")
    origin = request.headers.get("origin")
    if origin is not None and urlsplit(origin).netloc != request.headers.get("host"):
        raise ApiError(403, "wrong_origin", "Pages of other servers may not write here.")


Work = Callable[..., Result]
Route = Callable[..., Awaitable[Result]]


def _in_thread(queue: Literal["reads", "writes"], work: Work[Result]) -> Route[Result]:
    async def route(service: Service, **given: Any) -> Result:
        threads: WorkQueue = getattr(service, queue)
        return await threads.run(work, service, **given)

    route.__name__, route.__doc__ = work.__name__, work.__doc__
    route.__signature__ = inspect.signature(work, eval_str=True)  # type: ignore[attr-defined]
    return route


def reading(work: Work[Result]) -> Route[Result]:
    """Make a route, or what a route depends on, of a function that a thread for reading calls."""
    return _in_thread("reads", work)


def writing(work: Work[Result]) -> Route[Result]:
    """As ``reading``, by the one thread that writes, unless the collection was dropped while the request waited."""

    @wraps(work)
    def if_there(service: Service, **given: Any) -> Result:
        served = given.get("served")
        if served is not None and service.collections.get(served.name) is not served:
            raise ApiError(404, "no_collection", f"There is no collection {served.name!r} here any more.")
        return work(service, **given)

    return _in_thread("writes", if_there)
