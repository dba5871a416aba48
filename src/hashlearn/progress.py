"""Progress reports of long work, sent to a listener: none, standard error, or a progress bar of the command line."""

from __future__ import annotations

import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType
from typing import NamedTuple

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
    with listening(_ErrorLines() if verbose and _listener.get() is None else None):
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


class Stop(NamedTuple):
    """A loop that Ctrl-C ended: its phase, the number of steps done, and the number planned."""

    phase: str
    done: int
    total: int

    def __str__(self) -> str:
        return f"{self.done} of {self.total} steps ({self.phase})"


_kept: ContextVar[list[Stop] | None] = ContextVar("kept", default=None)


@contextmanager
def keep_partial() -> Iterator[list[Stop]]:
    """Keep what ``fit`` has learned so far on Ctrl-C, instead of raising KeyboardInterrupt.

    Inside the block, Ctrl-C ends the current loop after its step, and the fit finishes with the bits, rounds or epochs
    that it has. A second Ctrl-C before that interrupts at once, and so does any Ctrl-C outside such loops, because
    there is no complete state to keep. Later loops in the block run in full. Only the main thread receives Ctrl-C, so
    only it can use this.

    Yields
    ------
    list of (phase, done, total)
        One entry per loop that was ended; empty if all loops were complete.

    Raises
    ------
    RuntimeError
        If it is used outside the main thread.

    Examples
    --------
    >>> import hashlearn as hl
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> with hl.keep_partial() as stops:
    ...     hasher = hl.KSH(n_bits=8, n_samples=200, max_iter=20, random_state=0).fit(X, y)
    >>> stops
    []
    """
    if threading.current_thread() is not threading.main_thread():
        raise RuntimeError("keep_partial works in the main thread only: no other thread receives Ctrl-C.")
    stops: list[Stop] = []
    token = _kept.set(stops)
    try:
        yield stops
    finally:
        _kept.reset(token)


def keeps_partial() -> bool:
    """Whether the caller is inside ``keep_partial``."""
    return _kept.get() is not None


def steps(total: int, phase: str, first: int = 0, note: Callable[[], str] | None = None) -> Iterator[int]:
    """Yield first, ... total - 1 and report each step when it is done. Inside ``keep_partial`` Ctrl-C ends the loop.

    ``note`` returns a short text for the report, such as "loss 0.41".
    """
    with _stopping() as stopped:
        for step in range(first, total):
            yield step
            report(phase, step + 1, total, note)
            if stopped.is_set():
                stop = Stop(phase, step + 1, total)
                stops = _kept.get()
                if stops is not None:
                    stops.append(stop)
                warnings.warn(f"Stopped by Ctrl-C after {stop}; keeping what is learned.", stacklevel=3)
                return


@contextmanager
def _stopping() -> Iterator[threading.Event]:
    """Yield an event that the next Ctrl-C sets instead of interrupting. Outside ``keep_partial`` it is never set.

    A process that ignores Ctrl-C, such as one in the background of a shell, still ignores it. A handler that was not
    set from Python (None) could not be restored, so it is not replaced.
    """
    stopped = threading.Event()
    previous = signal.getsignal(signal.SIGINT)
    # Another thread may run with a copy of the main thread's context.
    in_main = threading.current_thread() is threading.main_thread()
    if not (keeps_partial() and in_main) or previous in (None, signal.SIG_IGN):
        yield stopped
        return

    def stop(number: int, frame: FrameType | None) -> None:
        stopped.set()
        signal.signal(signal.SIGINT, previous)

    signal.signal(signal.SIGINT, stop)
    try:
        yield stopped
    finally:
        signal.signal(signal.SIGINT, previous)


class PhaseTimer:
    """``with timer("learn"): ...`` adds to ``timer.seconds["learn"]``."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, phase: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[phase] = self.seconds.get(phase, 0.0) + time.perf_counter() - start
