"""Checks on behalf of ``/readyz`` and ``/metrics``, which must be answered also when all other threads are busy."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

Result = TypeVar("Result")


class Probe(Generic[Result]):
    """A check with a thread of its own. Requests that come while it runs share its result.

    So a check that hangs keeps one thread busy, however often it is asked for.
    """

    def __init__(self, name: str, check: Callable[[], Result]) -> None:
        self._check = check
        self._thread = ThreadPoolExecutor(1, f"hashlearn-{name}")
        self._running: asyncio.Future[Result] | None = None

    async def result(self, seconds: float) -> Result:
        """What the check returns; TimeoutError when that takes longer than so many seconds."""
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
