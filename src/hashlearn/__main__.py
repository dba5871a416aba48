"""``python -m hashlearn`` and the command ``hashlearn``: the command line.

This module imports almost nothing, so that it handles Ctrl-C before any slow import.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


def main() -> int:
    """Run the command line of this process and return its exit code."""
    with exit_on_interrupt():
        # "from hashlearn import cli" would ask hashlearn for the attribute first, which imports every method.
        import hashlearn.cli as cli

        cli.import_called(sys.argv[1:])
    return cli.main()


@contextmanager
def exit_on_interrupt() -> Iterator[None]:
    """End the process with exit code 130 on Ctrl-C inside the block. Use it only for imports: nothing is cleaned up.

    A KeyboardInterrupt does not suffice, because compiled modules that are being imported print its traceback and raise
    an ImportError instead.
    """
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        # Ctrl-C is ignored (in the background of a shell, for example), or other code handles it.
        yield
        return
    signal.signal(signal.SIGINT, _exit)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _exit(number: int, frame: FrameType | None) -> None:
    os.write(2, b"hashlearn: interrupted.\n")
    os._exit(130)


if __name__ == "__main__":
    sys.exit(main())
