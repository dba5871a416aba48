"""Progress of long work, told to whoever listens: nobody, standard error, or a command line's bar."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Listener = Callable[[str, int, int], None]

_listener: ContextVar[Listener | None] = ContextVar("hashlearn_progress", default=None)
_note: ContextVar[str] = ContextVar("hashlearn_progress_note", default="")


def report(phase: str, done: int, total: int, note: Callable[[], str] | None = None) -> None:
    """Say that ``done`` of ``total`` steps of a phase are finished; ``note`` tells whoever listens how it goes."""
    listener = _listener.get()
    if listener is not None:
        _note.set(note() if note is not None else "")
        listener(phase, done, total)


def last_note() -> str:
    """The note of the report under way, "loss 0.41" say, for listeners that show it."""
    return _note.get()


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
        self.phase, self.first, self.began = "", 0, 0.0

    def __call__(self, phase: str, done: int, total: int) -> None:
        now = time.monotonic()
        if phase != self.phase or done < self.first:
            self.phase, self.first, self.began = phase, done, now
        if done >= total or now - self.last > 0.5:
            self.last = now
            parts = [f"{done}/{total}", last_note(), self._left(done, total, now)]
            print(f"[hashlearn] {phase}: {', '.join(filter(None, parts))}", file=sys.stderr, flush=True)

    def _left(self, done: int, total: int, now: float) -> str:
        """How long the rest takes at the pace so far, once that is known."""
        if done <= self.first or done >= total:
            return ""
        return f"{(now - self.began) / (done - self.first) * (total - done):.0f} s left"
