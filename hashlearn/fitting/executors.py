"""Who does the work: threads of this process, any concurrent.futures executor, or a Dask cluster; one way to ask."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor, CancelledError
from itertools import chain
from typing import Any

from hashlearn.parallel import in_order, one_blas_thread, ordered_map, thread_count

RETRIES = 5
"""How often a cluster may try a task again when its worker died, and a lost set-up is sent again."""

Work = Callable[[Any, Any], Any]

# For ``dask.config.set({"distributed.nanny.pre-spawn-environ": WORKER_ENVIRONMENT})`` before workers start. Dask has
# them give memory back after every block, and getting it again costs a third of the speed.
WORKER_ENVIRONMENT = {
    "OMP_NUM_THREADS": 1,
    "OPENBLAS_NUM_THREADS": 1,
    "MKL_NUM_THREADS": 1,
    "MALLOC_TRIM_THRESHOLD_": 2**30,
    "MALLOC_MMAP_THRESHOLD_": 2**28,
}


class WorkersLost(RuntimeError):
    """The workers died and cannot be replaced; what was done is lost unless a checkpoint holds it."""


def run(
    function: Work,
    shared: Any,
    tasks: Iterable[Any],
    executor: Any,
    n_jobs: int | None,
) -> Iterator[Any]:
    """``function(shared, task)`` for every task, in order, a few ahead at a time.

    ``function`` must be importable by name and depend on nothing else, so that a task can be done again elsewhere.
    ``shared`` is sent to every worker once on a cluster, and beside every task to other executors.
    """
    if executor is None:
        yield from ordered_map(lambda task: function(shared, task), tasks, n_jobs)
        return
    client = _dask_client(executor)
    if client is not None:
        yield from _on_cluster(client, function, shared, tasks)
        return
    if not callable(getattr(executor, "submit", None)):
        raise TypeError(
            "executor must be None (threads), a concurrent.futures executor, a Dask client or client.get_executor(). "
            f"Got {type(executor).__name__} instead."
        )
    payload = _packed(shared)
    digest = hashlib.sha256(payload).hexdigest()
    ahead = 2 * getattr(executor, "_max_workers", thread_count(None))
    try:
        yield from in_order(lambda task: executor.submit(_do, function, payload, digest, task), tasks, ahead)
    except BrokenExecutor as error:
        raise WorkersLost(
            "A worker process died, and with it the pool: out of memory perhaps. Make a new pool and fit again; with "
            "the same checkpoint= folder it goes on where it stopped."
        ) from error


def _packed(shared: Any) -> bytes:
    try:
        return pickle.dumps(shared, protocol=pickle.HIGHEST_PROTOCOL)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise TypeError(
            f"This cannot be sent to other processes: {error}. A loss or relevance of your own must be a function of a "
            "module, not a lambda or a local one."
        ) from error


_last: tuple[str, Any] = ("", None)


def _do(function: Work, payload: bytes, digest: str, task: Any) -> Any:
    """One task in a worker, which keeps the set-up that came last."""
    global _last
    name, shared = _last
    if name != digest:
        shared = pickle.loads(payload)
        _last = (digest, shared)
    with one_blas_thread():
        return function(shared, task)


def _dask_client(executor: Any) -> Any:
    """The Dask client behind an executor, or None."""
    if not type(executor).__module__.startswith("distributed"):
        return None
    return getattr(executor, "_client", executor)


def _on_cluster(client: Any, function: Work, shared: Any, tasks: Iterable[Any]) -> Iterator[Any]:
    """Tasks on a Dask cluster, which does them again when a worker dies.

    What was scattered cannot be computed again: when the last worker that holds it is gone, it is sent once more with
    the tasks that needed it.
    """
    from distributed.scheduler import KilledWorker

    source, lost = iter(tasks), 0
    again: list[Any] = []
    sent: list[Any] = []
    while True:
        place = client.scatter(shared, broadcast=True, hash=False)
        threads = max(1, sum(client.nthreads().values()))

        def submit(task: Any, place: Any = place) -> Any:
            sent.append(task)
            # Futures among the arguments are what the cluster replaces by their rows, and waits for.
            held = [part.future for part in _held(task)]
            return client.submit(_do_here, function, place, held, task, pure=False, retries=RETRIES)

        waiting, again = again, []
        sent.clear()
        try:
            for result in in_order(submit, chain(waiting, source), 2 * threads):
                sent.pop(0)
                yield result
            return
        except CancelledError as error:
            lost += 1
            if lost > RETRIES:
                raise WorkersLost("The cluster lost its workers again and again; is there memory enough?") from error
            again = list(sent)
        except KilledWorker as error:
            raise WorkersLost(
                "A task took several workers down with it: out of memory perhaps. Give workers more memory, or use "
                "fewer threads a worker; with the same checkpoint= folder the fit goes on where it stopped."
            ) from error


def _held(task: Any) -> list[Any]:
    """Parts of a task whose rows the cluster holds; a task is a cut, or a cut and more."""
    cut = task[0] if isinstance(task, tuple) else task
    return cut.held() if hasattr(cut, "held") else []


def _do_here(function: Work, shared: Any, held: list[Any], task: Any) -> Any:
    for part, rows in zip(_held(task), held, strict=True):
        part.rows = rows
    with one_blas_thread():
        return function(shared, task)
