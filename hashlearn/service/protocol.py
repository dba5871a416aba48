"""HTTP/1.1 as uvicorn speaks it, with the patience that slow or hostile clients get."""

from __future__ import annotations

import asyncio
import socket
from typing import ClassVar

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from hashlearn.service.errors import error_body, to_json
from hashlearn.service.settings import Limits


class PatientProtocol(H11Protocol):
    """Closes connections that send no request or read no answer in time, and those that are too many."""

    limits: ClassVar[Limits]
    _waiting: asyncio.TimerHandle | None = None
    _unread: int = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        # An answer is written in two pieces; without this the second waits 40 ms for the client to confirm the
        # first. asyncio sets it only on sockets that were made with the number of the protocol.
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if len(self.connections) > self.limits.connections:
            transport.write(_whole(503, "Service Unavailable", "busy", "The server has too many connections."))
            transport.close()
            return
        self._expect_request()

    def handle_events(self) -> None:
        before = self.cycle
        super().handle_events()
        if self.cycle is not before and self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def on_response_complete(self) -> None:
        super().on_response_complete()
        # Headers of a next request that began to arrive must be complete in time, too.
        if not self.transport.is_closing() and self.cycle.response_complete:
            self._expect_request()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread = self.transport.get_write_buffer_size()
        self.loop.call_later(self.limits.body_seconds, self._check_reading)

    def _expect_request(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
        self._waiting = self.loop.call_later(self.limits.header_seconds, self._no_request)

    def _no_request(self) -> None:
        self._waiting = None
        if self.transport.is_closing():
            return
        if self.conn.their_state is h11.IDLE and self.transport.get_write_buffer_size() == 0:
            self.transport.write(_whole(408, "Request Timeout", "too_slow", "No whole request arrived in time."))
            self.transport.close()

    def _check_reading(self) -> None:
        """Drop a client that has read nothing of its answer since the last look."""
        left = self.transport.get_write_buffer_size()
        if not left:
            return
        if left >= self._unread:
            self.transport.abort()
            return
        self._unread = left
        self.loop.call_later(self.limits.body_seconds, self._check_reading)

    def send_400_response(self, msg: str) -> None:
        self.transport.write(_whole(400, "Bad Request", "bad_http", "This is no HTTP/1.1 request."))
        self.transport.close()


def protocol_class(limits: Limits) -> type[PatientProtocol]:
    """A protocol that keeps these limits: uvicorn takes a class, and makes one object of it a connection."""
    return type("PatientProtocol", (PatientProtocol,), {"limits": limits})


def _whole(status: int, reason: str, code: str, message: str) -> bytes:
    body = to_json(error_body(code, message))
    head = [
        f"HTTP/1.1 {status} {reason}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        "X-Content-Type-Options: nosniff",
        "Connection: close",
    ]
    return "\r\n".join([*head, "", ""]).encode() + body
