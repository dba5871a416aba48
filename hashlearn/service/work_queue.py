"""Threads for blocking work, and the queue of requests that wait for one of them."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

from hashlearn.service.errors import ApiError
from hashlearn.service.metrics import Metrics
from hashlearn.service.settings import Limits

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
        """The result of ``work(*arguments)``, called in one of the threads."""
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
