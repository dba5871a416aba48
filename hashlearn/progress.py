"""Progress reports of long work, sent to a listener: none, standard error, or a progress bar of the command line."""

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
    """Report that ``done`` of ``total`` steps of a phase are finished.

    ``note`` returns a short text for the listener, such as the present loss. It is called only if there is one.
    """
    listener = _listener.get()
    if listener is not None:
        _note.set(note() if note is not None else "")
        listener(phase, done, total)


def last_note() -> str:
    """Return the note of the current report, for example "loss 0.41", for listeners that show it."""
    return _note.get()


@contextmanager
def listening(listener: Listener | None) -> Iterator[None]:
    """Send the reports made inside the context to ``listener``; None keeps the present listener."""
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
    """Print reports on standard error if ``verbose`` is set and no other listener is active."""
    wanted = bool(verbose) and _listener.get() is None
    with listening(_ErrorLines() if wanted else None):
        yield


class _ErrorLines:
    """Prints at most two lines per second, and always the last line of a phase."""

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
        """Estimate the remaining time from the pace so far."""
        if done <= self.first or done >= total:
            return ""
        return f"{(now - self.began) / (done - self.first) * (total - done):.0f} s left"
