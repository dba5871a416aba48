"""Bodies no larger and no slower than allowed, and threads that do the work, no more than there are places."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from hashlearn.parallel import thread_count
from hashlearn.service.errors import ApiError
from hashlearn.service.settings import Limits

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Result = TypeVar("Result")

_CLOSE = {"Connection": "close"}  # what the client still sends is not read


class Workers:
    """Threads for what waits on storage or counts bits: many that read, and one that writes.

    A place is taken until the thread has ended, also when the client was told that it took too long: a thread cannot
    be stopped, and slow requests must not pile up.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._readers = ThreadPoolExecutor(thread_count(None) + 4, "hashlearn-read")
        self._writer = ThreadPoolExecutor(1, "hashlearn-write")
        self.working = 0

    async def read(self, work: Callable[..., Result], *arguments: Any) -> Result:
        return await self._run(self._readers, work, arguments, "")

    async def write(self, work: Callable[..., Result], *arguments: Any) -> Result:
        return await self._run(self._writer, work, arguments, " It may still be done: look before you ask again.")

    async def _run(
        self, pool: ThreadPoolExecutor, work: Callable[..., Result], arguments: tuple[Any, ...], warning: str
    ) -> Result:
        if self.working >= self._limits.working:
            raise ApiError(503, "busy", "The server is busy: try again in a second.", {"Retry-After": "1"})
        self.working += 1
        future = asyncio.get_running_loop().run_in_executor(pool, work, *arguments)
        future.add_done_callback(self._ended)
        done, _ = await asyncio.wait([future], timeout=self._limits.seconds)
        if not done:
            message = f"This took longer than {self._limits.seconds:g} s, so there is no answer.{warning}"
            raise ApiError(503, "too_long", message, {"Retry-After": "10"})
        return future.result()

    def _ended(self, future: asyncio.Future[Any]) -> None:
        self.working -= 1
        if not future.cancelled():
            future.exception()  # seen, though nobody may be waiting for it any more

    def close(self) -> None:
        """Wait for what was begun, writes above all."""
        self._writer.shutdown()
        self._readers.shutdown()


class Bodies:
    """Counts the bytes of request bodies, with and without a Content-Length, and the seconds that they take."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._held = 0

    def limit_of(self, headers: dict[bytes, bytes]) -> int:
        kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
        if kind.startswith(b"image/"):
            return self._limits.image_bytes
        return self._limits.json_bytes if kind == b"application/json" else self._limits.body_bytes

    async def guarded(
        self,
        scope: Message,
        receive: Receive,
        send: Send,
        inner: Callable[[Message, Receive, Send], Awaitable[None]],
    ) -> None:
        """Call ``inner`` with a ``receive`` that keeps the limits."""
        headers = dict(scope["headers"])
        limit = self.limit_of(headers)
        announced = headers.get(b"content-length", b"0")
        if announced.isdigit() and int(announced) > limit:
            raise _too_large(limit)
        held, finished = 0, False
        deadline = asyncio.get_running_loop().time() + self._limits.body_seconds

        async def limited() -> Message:
            nonlocal held, finished
            if finished:
                return await receive()  # waits for the client to leave, however long
            try:
                async with asyncio.timeout_at(deadline):
                    message = await receive()
            except TimeoutError:
                why = f"The body did not arrive within {self._limits.body_seconds:g} s."
                raise ApiError(408, "too_slow", why, _CLOSE) from None
            size = len(message.get("body", b""))
            held += size
            self._held += size
            if held > limit:
                raise _too_large(limit)
            if self._held > self._limits.held_bytes:
                headers = {"Retry-After": "1", **_CLOSE}
                raise ApiError(503, "busy", "The server holds too many large requests: try again in a second.", headers)
            finished = message["type"] != "http.request" or not message.get("more_body", False)
            return message

        try:
            await inner(scope, limited, send)
        finally:
            self._held -= held


def _too_large(limit: int) -> ApiError:
    return ApiError(413, "too_large", f"The body may have at most {limit:,} bytes.", _CLOSE)
