"""Run tasks by threads of this process, by any concurrent.futures executor, or on a Dask cluster."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor, CancelledError
from functools import partial
from itertools import chain
from typing import Any

from hashlearn.fitting.dask_parts import ClusterPart
from hashlearn.fitting.sources import RowRange
from hashlearn.parallel import in_order, one_blas_thread, ordered_map, thread_count

RETRIES = 5
"""How often a cluster repeats a task whose worker died, and how often the shared plan is sent again after a loss."""

TaskFunction = Callable[[Any, Any], Any]

# For ``dask.config.set({"distributed.nanny.pre-spawn-environ": WORKER_ENVIRONMENT})`` before workers start. By default
# Dask makes them return memory to the system after every block, and getting it back costs a third of the speed.
WORKER_ENVIRONMENT = {
    "OMP_NUM_THREADS": 1,
    "OPENBLAS_NUM_THREADS": 1,
    "MKL_NUM_THREADS": 1,
    "MALLOC_TRIM_THRESHOLD_": 2**30,
    "MALLOC_MMAP_THRESHOLD_": 2**28,
}


class WorkersLost(RuntimeError):
    """The workers died and cannot be replaced. What they did is lost unless a checkpoint holds it."""


def run(function: TaskFunction, plan: Any, tasks: Iterable[Any], executor: Any, n_jobs: int | None) -> Iterator[Any]:
    """Compute ``function(plan, task)`` for every task and return the results in the order of the tasks.

    Parameters
    ----------
    function : callable
        It must be importable by name and depend on its arguments only, so that a task can be repeated elsewhere.
    plan : what all tasks need
        It is sent once to every worker of a cluster, and with every task to other executors.
    tasks : iterable
        Row ranges, or tuples that begin with one. Only a few are taken ahead of the result that is waited for.
    executor : None, concurrent.futures executor or Dask client
        None for ``n_jobs`` threads of this process.
    """
    if executor is None:
        return ordered_map(partial(function, plan), tasks, n_jobs)
    client = _dask_client(executor)
    if client is not None:
        return _run_on_cluster(client, function, plan, tasks)
    if not callable(getattr(executor, "submit", None)):
        raise TypeError(
            "executor must be None (threads), a concurrent.futures executor, a Dask client or client.get_executor(). "
            f"Got {type(executor).__name__} instead."
        )
    return _run_on_executor(executor, function, plan, tasks)


def _run_on_executor(executor: Any, function: TaskFunction, plan: Any, tasks: Iterable[Any]) -> Iterator[Any]:
    payload = _pickled(plan)
    digest = hashlib.sha256(payload).hexdigest()
    ahead = 2 * getattr(executor, "_max_workers", thread_count(None))
    try:
        yield from in_order(partial(executor.submit, _run_task, function, payload, digest), tasks, ahead)
    except BrokenExecutor as error:
        raise WorkersLost(
            "A worker process died, and with it the pool: out of memory perhaps. Make a new pool and fit again; with "
            "the same checkpoint= folder it goes on where it stopped."
        ) from error


def _pickled(plan: Any) -> bytes:
    try:
        return pickle.dumps(plan, protocol=pickle.HIGHEST_PROTOCOL)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise TypeError(
            f"This cannot be sent to other processes: {error}. A loss or relevance of your own must be a function of a "
            "module, not a lambda or a local one."
        ) from error


_last_plan: tuple[str, Any] = ("", None)


def _run_task(function: TaskFunction, payload: bytes, digest: str, task: Any) -> Any:
    """Run one task in a worker. The worker keeps the last plan, because the next tasks have the same one."""
    global _last_plan
    known, plan = _last_plan
    if known != digest:
        plan = pickle.loads(payload)
        _last_plan = (digest, plan)
    with one_blas_thread():
        return function(plan, task)


def _dask_client(executor: Any) -> Any:
    """Return the Dask client behind an executor; None if there is none."""
    if not type(executor).__module__.startswith("distributed"):
        return None
    return getattr(executor, "_client", executor)


def _run_on_cluster(client: Any, function: TaskFunction, plan: Any, tasks: Iterable[Any]) -> Iterator[Any]:
    """Run tasks on a Dask cluster, which repeats them when a worker dies.

    The cluster cannot compute the scattered plan again. When the last worker that holds it is gone, the plan is sent
    once more, with the tasks that needed it.
    """
    from distributed.scheduler import KilledWorker

    remaining, losses = iter(tasks), 0
    repeated: list[Any] = []
    submitted: list[Any] = []
    while True:
        scattered = client.scatter(plan, broadcast=True, hash=False)
        threads = max(1, sum(client.nthreads().values()))

        def submit(task: Any, scattered: Any = scattered) -> Any:
            submitted.append(task)
            # The cluster waits for futures among the arguments, and replaces them by their rows.
            futures = [part.future for part in _cluster_parts(task)]
            return client.submit(_run_cluster_task, function, scattered, futures, task, pure=False, retries=RETRIES)

        waiting, repeated = repeated, []
        submitted.clear()
        try:
            for result in in_order(submit, chain(waiting, remaining), 2 * threads):
                submitted.pop(0)
                yield result
            return
        except CancelledError as error:
            losses += 1
            if losses > RETRIES:
                raise WorkersLost("The cluster lost its workers again and again; is there memory enough?") from error
            repeated = list(submitted)
        except KilledWorker as error:
            raise WorkersLost(
                "A task took several workers down with it: out of memory perhaps. Give workers more memory, or use "
                "fewer threads per worker; with the same checkpoint= folder the fit goes on where it stopped."
            ) from error


def _cluster_parts(task: Any) -> list[ClusterPart]:
    """Return the parts of a task whose rows the cluster holds."""
    rows = task[0] if isinstance(task, tuple) else task
    parts = rows.parts() if isinstance(rows, RowRange) else []
    return [part for part in parts if isinstance(part, ClusterPart)]


def _run_cluster_task(function: TaskFunction, plan: Any, rows: list[Any], task: Any) -> Any:
    """Run one task in a worker of a cluster, with the rows that the cluster held for it."""
    for part, own_rows in zip(_cluster_parts(task), rows, strict=True):
        part.rows = own_rows
    with one_blas_thread():
        return function(plan, task)
