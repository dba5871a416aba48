"""A lock that many readers share and a writer holds alone, and that no exception leaves locked.

``threading.Condition`` cannot be used: its methods are written in Python, so Ctrl-C can come after the lock was taken
and before the ``with`` statement is entered. Here every holder is an object, which the lock knows by a weak reference.
A holder that an exception left behind no longer counts once it is garbage, or once its own thread asks for the lock
again. Waiting threads check every few milliseconds, so they need no notification. The state is guarded by a
``threading.Lock`` in a ``with`` statement, which is written in C and has no such gap.
"""

from __future__ import annotations

import threading
import time
import weakref

WAIT_SECONDS = 300.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.0001, 0.005


class SharedLock:
    """A readers-writer lock. New readers wait behind a waiting writer, so that writers are not starved.

    Entering raises TimeoutError after ``WAIT_SECONDS``.
    """

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._holders: set[weakref.ref[_Holder]] = set()  # those inside, and the writers that wait

    def shared(self) -> _Holder:
        """Return a context that other readers may enter too."""
        return _Holder(self, alone=False)

    def alone(self) -> _Holder:
        """Return a context that nobody else may enter."""
        return _Holder(self, alone=True)

    def enters(self, holder: _Holder) -> bool:
        """Let the holder in if nobody keeps it out; a writer that has to wait keeps new readers out from now on."""
        with self._mutex:
            known = [other for reference in self._holders if (other := reference()) is not None]
            others = [other for other in known if other is not holder and not other.left_behind(holder)]
            blocked = any(other.inside if holder.alone else other.alone for other in others)
            kept = [*others, holder] if holder.alone or not blocked else others
            self._holders, holder.inside = {one.reference for one in kept}, not blocked
            return holder.inside

    def leave(self, holder: _Holder) -> None:
        """Forget the holder, whether it is inside, waits or has left already."""
        with self._mutex:
            self._holders.discard(holder.reference)


class _Holder:
    """One reader or writer, as a context manager."""

    def __init__(self, lock: SharedLock, alone: bool) -> None:
        self._lock = lock
        self._thread = threading.get_ident()
        self.alone = alone
        self.inside = False
        self.reference = weakref.ref(self)

    def __enter__(self) -> None:
        end, pause = time.monotonic() + WAIT_SECONDS, _FIRST_PAUSE
        try:
            while not self._lock.enters(self):
                if time.monotonic() > end:
                    raise TimeoutError(f"another thread of this process has used it for more than {WAIT_SECONDS:g} s")
                time.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
        except BaseException:
            self._lock.leave(self)
            raise

    def __exit__(self, *_: object) -> None:
        self._lock.leave(self)

    def left_behind(self, asking: _Holder) -> bool:
        """Return whether an exception left this holder behind: otherwise its thread would wait for itself."""
        return self._thread == asking._thread and (self.alone or asking.alone)
