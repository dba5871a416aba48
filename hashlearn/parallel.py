"""Fixed row blocks over threads: the same sums in the same order whatever the number of threads.

BLAS is held to one thread inside, because its own threading splits sums differently for every thread
count; the parallelism comes from the blocks instead.
"""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sized
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
import threadpoolctl
from threadpoolctl import ThreadpoolController

Task = TypeVar("Task")
Result = TypeVar("Result")

BLOCK_ROWS = 2048
LARGEST_KEPT = 2**25 - 2**16  # bytes: glibc never keeps what is larger than 32 MiB with its own few bytes


def thread_count(n_jobs: int | None) -> int:
    """Threads for scikit-learn's ``n_jobs``; None means every core this process may use."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if n_jobs is None:
        return cores
    if n_jobs == 0:
        raise ValueError("n_jobs must be a positive number of threads, or None for all cores. Got 0 instead.")
    return n_jobs if n_jobs > 0 else max(1, cores + 1 + n_jobs)


def row_blocks(n_rows: int, size: int = BLOCK_ROWS) -> list[slice]:
    """Slices that cover all rows, the short rest included."""
    return [slice(start, min(start + size, n_rows)) for start in range(0, n_rows, size)]


@lru_cache(maxsize=1)
def _controller(n_modules: int) -> ThreadpoolController:
    """All BLAS libraries of this process. Looking for them takes milliseconds, and only an import brings new ones."""
    return ThreadpoolController()


@lru_cache(maxsize=1)
def _own_libraries(controller: ThreadpoolController) -> list[Any]:
    """Those of them in which every thread has a limit of its own: MKL, and OpenBLAS on OpenMP."""
    libraries = [lib for lib in controller.lib_controllers if lib.user_api == "blas"]
    return [lib for lib in libraries if lib.internal_api == "mkl" or getattr(lib, "threading_layer", "") == "openmp"]


_holding = threading.Lock()
_holders = 0
_hold: Any = None


def _take_control() -> None:
    """Let this thread change OpenBLAS' limit, which is the whole process's.

    threadpoolctl 3.8 and later leave that to the thread that did it first and ignore all others, without a word.
    """
    clear = getattr(getattr(threadpoolctl, "OpenBLASController", None), "clear_controlling_thread", None)
    if clear is not None:
        clear(force=True)


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Hold BLAS to one thread, for results that do not depend on the machine's core count.

    Every thread that calls BLAS must be inside. Where the limit is the whole process's, it ends with the last of all
    threads inside: the first to leave must not set it free under the others.
    """
    controller = _controller(len(sys.modules))
    own = [(library, library.get_num_threads()) for library in _own_libraries(controller)]
    _enter(controller)
    try:
        for library, _ in own:
            library.set_num_threads(1)
        yield
    finally:
        _leave()
        # Last, because leaving sets this thread's limits to those of the first thread inside.
        for library, before in own:
            library.set_num_threads(before)


@contextmanager
def one_thread() -> Iterator[None]:
    """Hold BLAS, and OpenMP in this thread, to one thread.

    For code of scikit-learn whose own threads add up rows in an order that depends on how many they are. Import it
    before: a library that is not loaded yet cannot be held. OpenMP's limit is each thread's own, so no other thread
    minds when it is given back.
    """
    with one_blas_thread(), _controller(len(sys.modules)).limit(limits=1, user_api="openmp"):
        yield


def _enter(controller: ThreadpoolController) -> None:
    global _holders, _hold
    with _holding:
        if _holders == 0:
            _take_control()
            _hold = controller.limit(limits=1, user_api="blas")
            _hold.__enter__()
        _holders += 1


def _leave() -> None:
    global _holders
    with _holding:
        _holders -= 1
        if _holders == 0:
            _take_control()
            _hold.__exit__(None, None, None)
            _take_control()


def _held(function: Callable[[Task], Result], task: Task) -> Result:
    with one_blas_thread():
        return function(task)


@lru_cache(maxsize=1)
def keep_freed_memory() -> None:
    """Have the allocator keep what a block of rows frees for the next one; getting new pages is a tenth of the work.

    glibc returns memory beyond a threshold at once, and raises it when something large that it had mapped is freed, up
    to this size. The array is never touched. Other allocators do not mind.
    """
    np.empty(LARGEST_KEPT, dtype=np.uint8)


def ordered_map(
    function: Callable[[Task], Result],
    tasks: Iterable[Task],
    n_jobs: int | None = None,
    pool: ThreadPoolExecutor | None = None,
) -> Iterator[Result]:
    """Results of ``function`` in the order of ``tasks``; only a few are under way or waiting at a time.

    By the threads of ``pool`` where there is one already.
    """
    threads = thread_count(n_jobs)
    keep_freed_memory()
    if isinstance(tasks, Sized):
        threads = min(threads, max(1, len(tasks)))
    with one_blas_thread():
        if threads == 1 and pool is None:
            yield from map(function, tasks)
            return
        with nullcontext(pool) if pool is not None else ThreadPoolExecutor(threads) as own:
            yield from in_order(lambda task: own.submit(_held, function, task), tasks, 2 * threads)


def in_order(submit: Callable[[Task], Any], tasks: Iterable[Task], ahead: int) -> Iterator[Any]:
    """Results of submitted tasks in order, with at most ``ahead`` besides the one waited for; the rest is cancelled
    when the caller stops or something fails."""
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
