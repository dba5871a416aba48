"""What surrounds every request: headers of the answer, figures, the access log, and who may ask."""

from __future__ import annotations

import json
import logging
import sys
import time
from datetime import UTC, datetime
from logging.handlers import WatchedFileHandler
from typing import Any

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hashlearn.service.errors import ApiError, error_response, log
from hashlearn.service.metrics import Metrics
from hashlearn.service.security import HEADERS
from hashlearn.service.settings import ServerSettings
from hashlearn.service.tokens import find_token, secret_in

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
    """A path for the log. The client chooses it: it may hold line ends, which would forge lines of the log."""
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
            token, given = None, dict(scope["headers"]).get(b"authorization")
            if given is not None:
                token = find_token(self.tokens, secret_in(given.decode("latin-1")))
            scope["state"]["token"] = token
            if token is None and self.needs_token and scope["path"] not in _OPEN_PATHS:
                message = "Give a token of this server: Authorization: Bearer TOKEN."
                app = error_response(ApiError(401, "no_token", message, _ASK_FOR_TOKEN))
        await app(scope, receive, send)
