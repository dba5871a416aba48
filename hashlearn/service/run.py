"""Serving until told to stop: the socket, the signals, and finishing what was accepted."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn

from hashlearn.service.app import make_app
from hashlearn.service.protocol import protocol_class
from hashlearn.service.service import Service

_BACKLOG = 512


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens; port 0 takes a free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    place = host.strip("[]")
    try:
        return socket.create_server((place, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        raise OSError(f"Cannot listen on {host}:{port}: {os.strerror(error.errno or 0)}.") from error


def url_of(listening: socket.socket) -> str:
    """The address of the page, for a browser on this machine."""
    host, port = listening.getsockname()[:2]
    if host in ("0.0.0.0", "::"):
        host = "127.0.0.1" if host == "0.0.0.0" else "::1"
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


class _Server(uvicorn.Server):
    """SIGTERM and Ctrl-C end it in the ordinary way; a second Ctrl-C does not wait."""

    def __init__(self, config: uvicorn.Config, started: Callable[[], None] | None) -> None:
        super().__init__(config)
        self._tell = started

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield  # only the main thread hears signals
            return
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self._tell is not None and self.started:
            self._tell()


def serve(service: Service, listening: socket.socket, started: Callable[[], None] | None = None) -> None:
    """Answer until SIGTERM or Ctrl-C. What was accepted by then is finished; ``started`` is called when it begins."""
    asyncio.run(new_server(service, started).serve([listening]))


def new_server(service: Service, started: Callable[[], None] | None = None) -> uvicorn.Server:
    """A server for these collections, which it closes when it ends."""
    limits = service.settings.limits
    config = uvicorn.Config(
        make_app(service),
        http=protocol_class(limits),
        ws="none",
        loop="asyncio",
        lifespan="on",
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=int(limits.header_seconds),
        timeout_graceful_shutdown=int(limits.stop_seconds),
        h11_max_incomplete_event_size=64 * 1024,
    )
    return _Server(config, started)
