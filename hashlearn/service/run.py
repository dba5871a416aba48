"""Serving until told to stop: the socket, the signals, and finishing what was accepted."""

from __future__ import annotations

import gc
import os
import signal
import socket
import ssl
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn

from hashlearn.service.app import make_app
from hashlearn.service.errors import log
from hashlearn.service.service import Service
from hashlearn.service.settings import ServerSettings

_BACKLOG = 512
_MAX_HEADER_BYTES = 64 * 1024


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens; port 0 takes a free one."""
    address = host.strip("[]")
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    # asyncio turns off the delay of small packets (TCP_NODELAY) only for sockets that were made with this protocol
    # number. With the delay, every answer of two pieces would take 40 ms longer.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if os.name == "posix":
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((address, port))
        listening.listen(_BACKLOG)
    except OSError as error:
        listening.close()
        raise OSError(f"Cannot listen on {host}:{port}: {error.strerror or error}.") from error
    return listening


def url_of(listening: socket.socket, settings: ServerSettings) -> str:
    """The address of the page, for a browser on this machine."""
    host, port = listening.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    scheme = "http" if settings.tls_certificate is None else "https"
    return f"{scheme}://[{host}]:{port}/" if ":" in host else f"{scheme}://{host}:{port}/"


def new_server(service: Service, on_start: Callable[[], None] | None = None) -> uvicorn.Server:
    """A server for these collections, which it closes when it ends."""
    settings, limits = service.settings, service.limits
    config = uvicorn.Config(
        make_app(service, on_start),
        http="h11",
        ws="none",
        loop="asyncio",
        lifespan="on",
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=limits.connections,
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
    return uvicorn.Server(config)


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
