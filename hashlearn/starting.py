"""Ctrl-C while the command line is being imported: an exit code and one line, instead of a traceback.

This module imports next to nothing, so that it is there before anything slow is.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def leaving_at_once() -> Iterator[None]:
    """Inside, Ctrl-C ends the process with exit code 130. For imports alone: nothing is cleaned up.

    A KeyboardInterrupt would not do. Compiled modules that are just being imported print it with its traceback and
    raise an ImportError of their own.
    """
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        # Ctrl-C is ignored, in the background of a shell say, or somebody else's affair.
        yield
        return
    signal.signal(signal.SIGINT, _leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _leave(number: int, frame: FrameType | None) -> None:
    os.write(2, b"hashlearn: interrupted.\n")
    os._exit(130)
