"""Progress of long work, told to whoever listens: nobody, standard error, or a command line's bar."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Listener = Callable[[str, int, int], None]

_listener: ContextVar[Listener | None] = ContextVar("hashlearn_progress", default=None)


def report(phase: str, done: int, total: int) -> None:
    """Say that ``done`` of ``total`` steps of a phase are finished."""
    listener = _listener.get()
    if listener is not None:
        listener(phase, done, total)


@contextmanager
def listening(listener: Listener | None) -> Iterator[None]:
    """Send reports made inside to ``listener``; None leaves the present one in place."""
    if listener is None:
        yield
        return
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


@contextmanager
def verbose_listening(verbose: int | bool) -> Iterator[None]:
    """Lines on standard error for ``verbose`` estimators that nobody listens to otherwise."""
    wanted = bool(verbose) and _listener.get() is None
    with listening(_ErrorLines() if wanted else None):
        yield


class _ErrorLines:
    """At most two lines a second, and always the last one of a phase."""

    def __init__(self) -> None:
        self.last = 0.0

    def __call__(self, phase: str, done: int, total: int) -> None:
        now = time.monotonic()
        if done >= total or now - self.last > 0.5:
            self.last = now
            print(f"[hashlearn] {phase}: {done}/{total}", file=sys.stderr, flush=True)
