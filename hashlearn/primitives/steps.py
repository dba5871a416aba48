"""Steps of a long loop: reported, and stopped cleanly between two of them by Ctrl-C."""

from __future__ import annotations

import signal
import threading
import warnings
from collections.abc import Callable, Iterator
from types import FrameType

from hashlearn.progress import report


def steps(total: int, phase: str, first: int = 0, note: Callable[[], str] | None = None) -> Iterator[int]:
    """first, ... total - 1. Ctrl-C ends the loop after the step under way, so the last good state is kept.

    A second Ctrl-C interrupts at once, as usual. ``note`` says how it goes, "loss 0.41" say, to whoever listens.
    Where the process ignores Ctrl-C, as in the background of a shell, the loop does too.
    """
    stopped = threading.Event()
    previous = signal.getsignal(signal.SIGINT)
    # A handler that is not Python's (None) could not be put back.
    hears = threading.current_thread() is threading.main_thread() and previous not in (None, signal.SIG_IGN)
    if hears:

        def stop(number: int, frame: FrameType | None) -> None:
            stopped.set()
            signal.signal(signal.SIGINT, previous)

        signal.signal(signal.SIGINT, stop)
    try:
        for step in range(first, total):
            yield step
            report(phase, step + 1, total, note)
            if stopped.is_set():
                message = f"Stopped by Ctrl-C after {step + 1} of {total} steps ({phase}); keeping what is learned."
                warnings.warn(message, stacklevel=3)
                return
    finally:
        if hears:
            signal.signal(signal.SIGINT, previous)
