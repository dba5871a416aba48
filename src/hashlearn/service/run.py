"""Running the server: sockets, connections, signals."""

from __future__ import annotations

import asyncio
import errno
import gc
import os
import signal
import socket
import ssl
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from hashlearn.service.app import make_app
from hashlearn.service.errors import ApiError, error_response, log
from hashlearn.service.service import Service
from hashlearn.service.settings import Limits, ServerSettings

try:
    import resource
except ImportError:  # Windows, which has no such limit
    resource = None  # type: ignore[assignment]

KEPT_PER_COLLECTION = 5  # files that stay open: the database and its log for two connections, and their shared index
_FILES_PER_THREAD = 4  # that a thread has open while it works
ACCEPTED_AT_ONCE = 100  # connections that asyncio may accept before it looks at them
_WAITING = 2048  # connections that the system keeps until they are accepted; it may refuse or reset others
_OTHER_FILES = 64 + 2 * ACCEPTED_AT_ONCE  # libraries, logs, pictures; connections just accepted and just closed
_FEWEST = 8
_OUT_OF_RESOURCES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


def connection_cap(wanted: int, n_collections: int, n_threads: int) -> int:
    """Return how many connections of clients the limit on open files allows, and ``wanted`` at most."""
    if resource is None or (limit := resource.getrlimit(resource.RLIMIT_NOFILE)[0]) == resource.RLIM_INFINITY:
        return wanted
    needed = _OTHER_FILES + KEPT_PER_COLLECTION * n_collections + _FILES_PER_THREAD * n_threads
    if limit - needed < _FEWEST:
        raise ValueError(
            f"This process may open {limit:,} files, and {n_collections:,} collections with {_FEWEST} connections need "
            f"{needed + _FEWEST:,}: raise the limit (ulimit -n) or serve fewer collections."
        )
    return min(wanted, limit - needed)


class LogOncePerSecond:
    """Writes at most one warning per second, so that a flood of connections does not fill the disk."""

    def __init__(self) -> None:
        self._next = 0.0

    def __call__(self, message: str, *values: Any) -> None:
        now = time.monotonic()
        if now >= self._next:
            self._next = now + 1.0
            log.warning(message, *values)


def limited_protocol(cap: int, limits: Limits) -> type[H11Protocol]:
    """Return the protocol class of a server with at most ``cap`` connections.

    A connection is idle while no request is under way on it. When there are too many connections, the one that has
    been idle for longest is closed; if none is idle, the new connection gets an answer with status 503.
    """
    idle: dict[LimitedProtocol, None] = {}  # the longest idle one first
    warn = LogOncePerSecond()

    class LimitedProtocol(H11Protocol):
        _head_timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            if len(self.connections) > cap:
                warn("More than %d connections: the longest idle ones are closed.", cap)
                # One whose answer is not yet sent would stay open.
                longest = next((one for one in idle if one.transport.get_write_buffer_size() == 0), None)
                if longest is None:
                    transport.write(_refusal())
                    transport.close()
                    return
                longest._leave_idle()
                longest.transport.close()
                self.connections.discard(longest)
            self._become_idle()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self._under_way():
                self._leave_idle()
            elif self._head_timer is None and not self.transport.is_closing():
                # The first bytes of a further request: its head has the same time to arrive.
                self._become_idle()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            if not self.transport.is_closing() and not self._under_way():
                idle[self] = None  # uvicorn's own timer closes it unless another request begins

        def connection_lost(self, exc: Exception | None) -> None:
            self._leave_idle()
            super().connection_lost(exc)

        def _under_way(self) -> bool:
            return self.cycle is not None and not self.cycle.response_complete

        def _become_idle(self) -> None:
            idle[self] = None
            self._head_timer = self.loop.call_later(limits.head_seconds, self.transport.close)

        def _leave_idle(self) -> None:
            idle.pop(self, None)
            if self._head_timer is not None:
                self._head_timer.cancel()
                self._head_timer = None

    return LimitedProtocol


def _refusal() -> bytes:
    """Return the whole answer to a connection that is one too many."""
    answer = error_response(ApiError(503, "busy", "The server has too many connections: try again later."))
    head = [*answer.raw_headers, (b"retry-after", b"1"), (b"connection", b"close")]
    lines = b"".join(name + b": " + value + b"\r\n" for name, value in head)
    return b"HTTP/1.1 503 Service Unavailable\r\n" + lines + b"\r\n" + bytes(answer.body)


def quiet_about_files(loop: asyncio.AbstractEventLoop) -> None:
    """Log one line per second, instead of a traceback per attempt, when no file is left for a new connection."""
    warn = LogOncePerSecond()

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, OSError) and error.errno in _OUT_OF_RESOURCES:
            warn("A connection cannot be accepted: %s.", error.strerror)
        else:
            loop.default_exception_handler(context)

    loop.set_exception_handler(handle)


_MAX_HEADER_BYTES = 64 * 1024


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens; port 0 takes a free one."""
    address = host.strip("[]")
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    # asyncio turns off the delay of small packets (TCP_NODELAY) only for sockets that were made with this protocol
    # number. With the delay, every answer of two pieces would take 40 ms longer.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if os.name == "posix":
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((address, port))
        listening.listen(_WAITING)
    except OSError as error:
        listening.close()
        raise OSError(f"Cannot listen on {host}:{port}: {error.strerror or error}.") from error
    return listening


def url_of(listening: socket.socket, settings: ServerSettings) -> str:
    """Return the address of the page, for a browser on this machine."""
    host, port = listening.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    scheme = "http" if settings.tls_certificate is None else "https"
    return f"{scheme}://[{host}]:{port}/" if ":" in host else f"{scheme}://{host}:{port}/"


class _Server(uvicorn.Server):
    """A server that accepts few connections at once, while many may wait."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listening in sockets or []:
            listening.listen(_WAITING)  # asyncio has listened with room for those that it accepts at once


def new_server(service: Service, on_start: Callable[[], None] | None = None) -> uvicorn.Server:
    """Return a server for these collections, which it closes when it ends."""
    settings, limits = service.settings, service.limits

    def begin() -> None:
        quiet_about_files(asyncio.get_running_loop())
        if on_start is not None:
            on_start()

    cap = connection_cap(limits.connections, service.most_collections, service.n_threads)
    config = uvicorn.Config(
        make_app(service, begin),
        http=limited_protocol(cap, limits),
        ws="none",
        loop="asyncio",
        lifespan="on",
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=ACCEPTED_AT_ONCE,
        timeout_keep_alive=limits.keep_alive_seconds,
        timeout_graceful_shutdown=limits.stop_seconds,
        h11_max_incomplete_event_size=_MAX_HEADER_BYTES,
        ssl_certfile=settings.tls_certificate,
        ssl_keyfile=settings.tls_key,
    )
    try:
        config.load()
    except (OSError, ssl.SSLError) as error:
        raise ValueError(f"The TLS certificate or key cannot be used: {error}.") from error
    return _Server(config)


def serve(service: Service, listening: socket.socket, on_start: Callable[[], None] | None = None) -> None:
    """Answer until SIGTERM or Ctrl-C, and finish what was accepted by then; ``on_start`` is called at the start.

    A thread cannot be stopped. When work goes on after the time to stop has passed, the process ends without it.
    """
    server = new_server(service, on_start)
    _let_threads_take_turns()
    with _signals_ending_quietly():
        server.run([listening])
    if not service.closed:
        log.error("Work that did not end within %s s was given up.", service.limits.stop_seconds)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(1)


def _let_threads_take_turns() -> None:
    """Keep the thread that answers from waiting for long while others read large bodies.

    A body of 8 MiB can make millions of lists. With Python's defaults the garbage collector walks through all of them
    again and again, for seconds in which no other thread runs. And a thread that computes is interrupted every 5 ms,
    while the thread that answers needs several turns per request.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    sys.setswitchinterval(0.001)


@contextmanager
def _signals_ending_quietly() -> Iterator[None]:
    """Let SIGTERM and Ctrl-C end the server with exit code 0.

    uvicorn stops at either signal and raises it again when it has stopped. That second time nothing is left to do.
    """
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, lambda *_: None) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
