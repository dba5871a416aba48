"""What surrounds every request: limits on bodies, headers of the answer, figures, the access log, and who may ask."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import time
from datetime import UTC, datetime
from logging.handlers import WatchedFileHandler
from typing import Annotated, Any
from urllib.parse import urlsplit

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hashlearn.service.errors import ApiError, bad, error_response, log
from hashlearn.service.metrics import Metrics
from hashlearn.service.settings import Limits, ServerSettings, Token, find_token, secret_in

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
# The report of a bench contains its styles and drawings, and no scripts.
REPORT_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_BEARER = HTTPBearer(auto_error=False, description="A token of --token-file or HASHLEARN_TOKEN that may write.")


async def require_writer(
    request: Request, bearer: Annotated[HTTPAuthorizationCredentials | None, Depends(_BEARER)]
) -> None:
    """Refuse requests without a token that may write.

    The token must come as a bearer: no page elsewhere can make a browser send that, while a browser adds a password
    that it has stored to every request by itself.
    """
    settings: ServerSettings = request.app.state.service.settings
    token: Token | None = request.state.token
    if not settings.may_write:
        raise ApiError(403, "read_only", "Writing is off: start the server with --token-file or HASHLEARN_TOKEN.")
    if token is None or bearer is None:
        message = "Writing needs a token of this server: Authorization: Bearer TOKEN."
        raise ApiError(401, "no_token", message, {"WWW-Authenticate": 'Bearer realm="hashlearn"'})
    if not token.can_write:
        raise ApiError(403, "read_only_token", f"The token {token.name!r} may read and not write.")
    origin = request.headers.get("origin")
    if origin is not None and urlsplit(origin).netloc != request.headers.get("host"):
        raise ApiError(403, "wrong_origin", "Pages of other servers may not write here.")


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


_CLIENT_LEFT = 499  # nginx's number for a client that did not wait for its answer
_ENCODED_HEADERS = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
_OPEN_PATHS = ("/healthz",)
_ASK_FOR_TOKEN = {"WWW-Authenticate": 'Bearer realm="hashlearn", Basic realm="hashlearn", charset="UTF-8"'}


class RecordingMiddleware:
    """The outermost layer: completes every answer, counts it and writes it to the access log.

    HEAD is answered as GET without a body.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics, access_log: AccessLog | None) -> None:
        self.app = app
        self.metrics = metrics
        self.access_log = access_log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return
        exchange = _Exchange(scope, send)
        self.metrics.under_way.inc()
        try:
            await self.app(exchange.scope, receive, exchange.send)
        except ClientDisconnect:
            exchange.status = _CLIENT_LEFT
        except Exception:
            # The framework raises the exception again after it has answered with 500.
            log.exception("%s %s failed", scope["method"], _one_line(scope["path"]))
            if not exchange.ended:
                raise
        finally:
            self.metrics.under_way.dec()
            self._record(exchange)

    def _record(self, exchange: _Exchange) -> None:
        scope, seconds = exchange.scope, time.perf_counter() - exchange.started
        route = getattr(scope.get("route"), "path", "other").replace(":path}", "}")
        self.metrics.answered(exchange.method, route, exchange.status, seconds)
        client = (scope.get("client") or ("unknown",))[0]
        if exchange.status == 401 and any(name == b"authorization" for name, _ in scope["headers"]):
            self.metrics.failed_logins.inc()
            log.warning("Failed login from %s: %s %s", client, exchange.method, _one_line(scope["path"]))
        if self.access_log is not None:
            token = scope["state"].get("token")
            self.access_log.write(
                client=client,
                method=exchange.method,
                path=scope["path"],
                status=exchange.status,
                seconds=round(seconds, 6),
                bytes=exchange.size,
                token=None if token is None else token.name,
            )


def _one_line(path: str) -> str:
    """Return a path for the log. The client chooses it: it may hold line ends, which would forge lines of the log."""
    return ascii(path[:200])[1:-1]


class _Exchange:
    """One request and what is sent as its answer."""

    def __init__(self, scope: Scope, send: Send) -> None:
        self.method = scope["method"]
        # A copy: the server looks into its own one to leave out the body of an answer to HEAD.
        self.scope: dict[str, Any] = {**scope, "method": "GET" if self.method == "HEAD" else self.method}
        self.scope["state"] = dict(scope.get("state", {}))
        self.started = time.perf_counter()
        self.status = 500
        self.size = 0
        self.ended = False
        self._send = send

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            given = message.get("headers", [])
            names = {name.lower() for name, _ in given}
            message["headers"] = [*given, *(pair for pair in _ENCODED_HEADERS if pair[0] not in names)]
        elif message["type"] == "http.response.body":
            if self.method == "HEAD":
                message = {**message, "body": b""}
            self.size += len(message.get("body", b""))
            self.ended = not message.get("more_body", False)
        await self._send(message)


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


class TokenMiddleware:
    """Finds out which token a request brings, and refuses requests that need one and bring none."""

    def __init__(self, app: ASGIApp, settings: ServerSettings) -> None:
        self.app = app
        self.tokens = settings.tokens
        self.needs_token = settings.reading_needs_token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self.app
        if scope["type"] == "http":
            given = [value for name, value in scope["headers"] if name == b"authorization"]
            token = find_token(self.tokens, secret_in(given[0].decode("latin-1"))) if given else None
            scope["state"]["token"] = token
            if len(given) > 1:
                # Two readers of the request could choose different ones, and a rule could be met by one alone.
                app = error_response(bad("bad_request", "A request may have only one Authorization header."))
            elif token is None and self.needs_token and scope["path"] not in _OPEN_PATHS:
                message = "Give a token of this server: Authorization: Bearer TOKEN."
                app = error_response(ApiError(401, "no_token", message, _ASK_FOR_TOKEN))
        await app(scope, receive, send)
