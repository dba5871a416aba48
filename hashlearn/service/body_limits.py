"""Request bodies: no larger and no slower than allowed, and read to their end before an answer ends."""

from __future__ import annotations

import asyncio

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hashlearn.service.errors import ApiError, error_response
from hashlearn.service.metrics import Metrics
from hashlearn.service.settings import Limits

_CLOSE = {"Connection": "close"}


class BodyLimitMiddleware:
    """Keeps the limits on request bodies, those of one request and those of all together."""

    def __init__(self, app: ASGIApp, limits: Limits, metrics: Metrics) -> None:
        self.app = app
        self.limits = limits
        self.held_bytes = 0
        metrics.held_bytes.set_function(lambda: self.held_bytes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        lengths = headers.keys() & {b"content-length", b"transfer-encoding"}
        if not lengths:
            await self.app(scope, receive, send)
            return
        body = _Body(self, headers, receive, send)
        announced, app = headers.get(b"content-length", b"0"), self.app
        if len(lengths) == 2:
            # A proxy before us may believe the other one of the two, and take a part of the body for a request.
            message = "A request has Content-Length or Transfer-Encoding, not both."
            app = error_response(ApiError(400, "bad_http", message, _CLOSE))
        elif announced.isdigit() and int(announced) > body.limit:
            app = error_response(body.too_large())
        try:
            await app(scope, body.receive, body.send)
        finally:
            self.held_bytes -= body.size


class _Body:
    """The body of one request."""

    def __init__(self, owner: BodyLimitMiddleware, headers: dict[bytes, bytes], receive: Receive, send: Send) -> None:
        self._owner = owner
        self._receive = receive
        self._send = send
        self._deadline = asyncio.get_running_loop().time() + owner.limits.body_seconds
        self._ended = False
        self._client_waits = b"expect" in headers  # for our answer, before it sends anything
        self.size = 0
        kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
        self.limit = owner.limits.body_bytes
        if kind == b"application/json":
            self.limit = owner.limits.json_bytes
        elif kind.startswith(b"image/"):
            self.limit = owner.limits.image_bytes

    async def receive(self) -> Message:
        if self._ended:
            return await self._receive()  # this waits for the client to leave, however long
        try:
            async with asyncio.timeout_at(self._deadline):
                message = await self._receive()
        except TimeoutError:
            why = f"The body did not arrive within {self._owner.limits.body_seconds:g} s."
            raise ApiError(408, "too_slow", why, _CLOSE) from None
        self._ended = message["type"] != "http.request" or not message.get("more_body", False)
        size = len(message.get("body", b""))
        self.size += size
        self._owner.held_bytes += size
        if self.size > self.limit:
            raise self.too_large()
        if self._owner.held_bytes > self._owner.limits.held_bytes:
            why = "The server holds too many large requests: try again in a second."
            raise ApiError(503, "busy", why, {"Retry-After": "1", **_CLOSE})
        return message

    async def send(self, message: Message) -> None:
        is_last = message["type"] == "http.response.body" and not message.get("more_body", False)
        if is_last and not self._ended:
            # The server closes the connection after the last message. If the client were still sending then, its
            # system would drop the answer and report a reset connection instead.
            await self._send({**message, "more_body": True})
            await self._read_to_end()
            message = {"type": "http.response.body", "body": b"", "more_body": False}
        await self._send(message)

    async def _read_to_end(self) -> None:
        if self._client_waits and not self.size:
            return
        try:
            async with asyncio.timeout_at(self._deadline):
                while not self._ended:
                    message = await self._receive()
                    self._ended = message["type"] != "http.request" or not message.get("more_body", False)
        except TimeoutError:
            pass  # it had its time

    def too_large(self) -> ApiError:
        return ApiError(413, "too_large", f"The body may have at most {self.limit:,} bytes.", _CLOSE)
