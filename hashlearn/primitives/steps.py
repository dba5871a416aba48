"""Steps of a long loop: reported, and ended cleanly between two of them by Ctrl-C where the caller asked for that."""

from __future__ import annotations

import signal
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType
from typing import NamedTuple

from hashlearn.progress import report


class Stop(NamedTuple):
    """A loop that Ctrl-C ended: what it did, the steps it made, and those it would have made."""

    phase: str
    done: int
    total: int

    def __str__(self) -> str:
        return f"{self.done} of {self.total} steps ({self.phase})"


_kept: ContextVar[list[Stop] | None] = ContextVar("kept", default=None)


@contextmanager
def keep_partial() -> Iterator[list[Stop]]:
    """Keep what is learned so far when Ctrl-C comes, instead of raising KeyboardInterrupt out of ``fit``.

    Inside, Ctrl-C ends the loop under way after its step, and the fit finishes with what it has: some of the bits,
    rounds or epochs. A second Ctrl-C before that interrupts at once, and so does any Ctrl-C outside of such loops,
    because there is no good state to keep. Later loops of the block run in full. Only the main thread hears Ctrl-C, so
    only it can ask for this.

    Yields
    ------
    list of (phase, done, total), one for each loop that was ended; empty while everything is complete

    Examples
    --------
    >>> import hashlearn as hl
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> with hl.keep_partial() as stops:
    ...     hasher = hl.KSH(n_bits=8, n_samples=200, max_steps=20, random_state=0).fit(X, y)
    >>> stops
    []
    """
    if threading.current_thread() is not threading.main_thread():
        raise RuntimeError("keep_partial works in the main thread only: no other thread hears Ctrl-C.")
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
    """first, ... total - 1, each reported when it is made. Inside ``keep_partial`` Ctrl-C ends the loop after a step.

    ``note`` says how it goes, "loss 0.41" say, to whoever listens.
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
    """An event that the next Ctrl-C sets instead of interrupting, inside ``keep_partial``; it is never set elsewhere.

    Where the process ignores Ctrl-C, as in the background of a shell, it goes on being ignored. A handler that is not
    Python's (None) could not be put back, so it stays.
    """
    stopped = threading.Event()
    previous = signal.getsignal(signal.SIGINT)
    # The context of the main thread may have been handed to another one.
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
