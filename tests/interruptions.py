"""Calls that an exception ends at a chosen line, for tests of what Ctrl-C and a lack of memory leave behind."""

import contextlib
import dis
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import Any

import hashlearn

_PACKAGE = hashlearn.__path__[0]
_NOTHING_CAN_BE_RAISED = {dis.opmap["NOP"], dis.opmap["YIELD_VALUE"]}

Place = tuple[str, int, str, int]
"""File, line and event ("line", or "return" after the last line); in contextlib also the line of the caller."""


def places(call: Callable[[], Any], rooms: Sequence[str]) -> list[Place]:
    """Return where in folders and files of the package, and in contextlib, a call passes, each place once."""
    found: dict[Place, None] = {}
    folders = tuple(os.path.join(_PACKAGE, room) for room in rooms)

    def note(place: Place) -> None:
        if place[0].startswith(folders) or place[0] == contextlib.__file__:
            found[place] = None

    with _traced(note):
        call()
    return list(found)


def interrupted(call: Callable[[], Any], place: Place, error: type[BaseException]) -> BaseException | None:
    """Let a call raise an error when it first comes to a place; return what it raised in the end."""
    left = [place]

    def stop(here: Place) -> None:
        if left and here == place:
            left.clear()
            raise error("here")

    try:
        with _traced(stop):
            call()
    except BaseException as raised:
        return raised
    return None


@contextlib.contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Raise RuntimeError in the main thread if the block takes longer, so that a lock left behind does not hang."""

    def give_up(*_: object) -> None:
        raise RuntimeError(f"waited for more than {seconds} s")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextlib.contextmanager
def _traced(visit: Callable[[Place], None]) -> Iterator[None]:
    def trace(frame: FrameType, event: str, _: object) -> Any:
        name = frame.f_code.co_filename
        if not name.startswith(_PACKAGE) and name != contextlib.__file__:
            return None
        # Nothing can be raised but by this function at a NOP, as which "try:" is compiled, and at a "yield", which
        # Python would then leave without its "finally". In contextlib the line after it is a place.
        if event in ("line", "return") and frame.f_code.co_code[frame.f_lasti] not in _NOTHING_CAN_BE_RAISED:
            # A place in contextlib is another one for each "with" statement that leads there.
            caller = frame.f_back if name == contextlib.__file__ else None
            visit((name, frame.f_lineno, event, 0 if caller is None else caller.f_lineno))
        return trace

    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(None)
