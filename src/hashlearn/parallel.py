"""Row blocks of fixed size on threads: the same sums in the same order on any number of threads.

BLAS runs on one thread inside, because its own threads would split sums differently for every thread count. The row
blocks provide the parallelism instead.
"""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sized
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache, partial
from typing import Any, TypeVar

import threadpoolctl
from threadpoolctl import ThreadpoolController

Task = TypeVar("Task")
Result = TypeVar("Result")

BLOCK_ROWS = 2048


def thread_count(n_jobs: int | None) -> int:
    """Return the number of threads for scikit-learn's ``n_jobs``; None means every core this process may use."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if n_jobs is None:
        return cores
    if n_jobs == 0:
        raise ValueError("n_jobs must be a positive number of threads, or None for all cores. Got 0 instead.")
    return n_jobs if n_jobs > 0 else max(1, cores + 1 + n_jobs)


def row_blocks(n_rows: int, size: int = BLOCK_ROWS) -> list[slice]:
    """Return slices of ``size`` rows that cover all rows; the last one may be shorter."""
    return [slice(start, min(start + size, n_rows)) for start in range(0, n_rows, size)]


@lru_cache(maxsize=1)
def _controller(n_modules: int) -> ThreadpoolController:
    """Find the BLAS libraries of this process.

    The search takes milliseconds. Only an import can load another library, so the result is kept for as long as the
    number of imported modules stays the same.
    """
    return ThreadpoolController()


@lru_cache(maxsize=1)
def _libraries_with_thread_limits(controller: ThreadpoolController) -> list[Any]:
    """Return the BLAS libraries whose limit belongs to the calling thread: MKL, and OpenBLAS built on OpenMP."""
    libraries = [lib for lib in controller.lib_controllers if lib.user_api == "blas"]
    return [lib for lib in libraries if lib.internal_api == "mkl" or getattr(lib, "threading_layer", "") == "openmp"]


# The limit of all other libraries belongs to the process: the threads inside ``one_blas_thread`` share it.
_lock = threading.Lock()
_threads_inside = 0
_process_limit: Any = None


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread, so that results do not depend on the number of cores.

    Every thread that calls BLAS must enter. The limit of the process ends when the last thread leaves: a thread that
    leaves earlier must not lift it for the others.
    """
    global _threads_inside, _process_limit
    controller = _controller(len(sys.modules))
    limits = [(library, library.get_num_threads()) for library in _libraries_with_thread_limits(controller)]
    with _lock:
        if _threads_inside == 0:
            _take_control()
            _process_limit = controller.limit(limits=1, user_api="blas")
            _process_limit.__enter__()
        _threads_inside += 1
    try:
        for library, _ in limits:
            library.set_num_threads(1)
        yield
    finally:
        with _lock:
            _threads_inside -= 1
            if _threads_inside == 0:
                _take_control()
                _process_limit.__exit__(None, None, None)
                _take_control()
        # After the limit of the process, whose end sets this thread's limits to those of the thread that entered first.
        for library, before in limits:
            library.set_num_threads(before)


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit BLAS, and OpenMP in this thread, to one thread.

    For code of scikit-learn whose own threads add up rows in an order that depends on their number. Import it first,
    because a library that is not loaded yet cannot be limited. The limit of OpenMP belongs to each thread, so other
    threads are not affected when it ends.
    """
    with one_blas_thread(), _controller(len(sys.modules)).limit(limits=1, user_api="openmp"):
        yield


def _take_control() -> None:
    """Allow this thread to change the limit of OpenBLAS.

    threadpoolctl 3.8 and later accept changes only from the thread that made the first one and silently ignore others.
    """
    clear = getattr(getattr(threadpoolctl, "OpenBLASController", None), "clear_controlling_thread", None)
    if clear is not None:
        clear(force=True)


def ordered_map(
    function: Callable[[Task], Result], tasks: Iterable[Task], n_jobs: int | None = None
) -> Iterator[Result]:
    """Yield the results of ``function`` in the order of ``tasks``, computed by threads.

    Only a few tasks are started ahead of the result that is waited for, so results do not pile up.
    """
    threads = thread_count(n_jobs)
    if isinstance(tasks, Sized):
        threads = min(threads, max(1, len(tasks)))
    with one_blas_thread():
        if threads == 1:
            yield from map(function, tasks)
            return
        with ThreadPoolExecutor(threads) as pool:
            limited: Any = one_blas_thread()(function)  # as a decorator, which enters once for every task
            yield from in_order(partial(pool.submit, limited), tasks, 2 * threads)


def map_blocks(
    function: Callable[[Any], Result], X: Any, n_jobs: int | None, size: int = BLOCK_ROWS
) -> Iterator[Result]:
    """Yield the results of ``function`` for blocks of ``size`` rows of X in order, computed by threads."""
    return ordered_map(lambda block: function(X[block]), row_blocks(X.shape[0], size), n_jobs)


def in_order(submit: Callable[[Task], Any], tasks: Iterable[Task], ahead: int) -> Iterator[Any]:
    """Yield the results of submitted tasks in order.

    At most ``ahead`` tasks are submitted besides the one that is waited for. When the caller stops or a task fails,
    the tasks that have not started are canceled.
    """
    waiting: deque[Any] = deque()
    try:
        for task in tasks:
            waiting.append(submit(task))
            if len(waiting) > ahead:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for future in waiting:
            future.cancel()
