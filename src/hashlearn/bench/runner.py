"""Make the runs of a plan that are not kept yet, one after the other or in several processes."""

from __future__ import annotations

import json
import multiprocessing
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from hashlearn import metrics
from hashlearn.bench.plan import BenchPlan
from hashlearn.bench.scoring import OWN_ROWS, float_cosine, likeness, scores_of
from hashlearn.bench.store import (
    BenchRun,
    RunCodes,
    RunDefinition,
    RunStore,
    machine_facts,
    now,
    peak_memory,
    start_peak_memory,
)
from hashlearn.data.own import DataSource
from hashlearn.data.pool import Dataset, Pool
from hashlearn.data.protocols import Split, protocol
from hashlearn.methods import find_method, make_hasher
from hashlearn.metrics import Rules
from hashlearn.parallel import thread_count
from hashlearn.progress import PhaseTimer, report

PHASE = "bench"
Finished = Callable[[BenchRun, int, int], None]


@dataclass(frozen=True)
class RunTask:
    """A run to make, and where its data and its result are. It is small, because it is sent to another process."""

    definition: RunDefinition
    source: DataSource
    folder: Path
    data_dir: str | None
    threads: int


@dataclass(frozen=True)
class PlanOutcome:
    """The result of a plan: runs that were kept before, runs made now, and those of the latter that failed.

    ``replaced`` are runs of another revision of their method that were made again now.
    """

    kept: list[BenchRun]
    made: list[BenchRun]
    replaced: list[BenchRun] = field(default_factory=list)

    @property
    def failed(self) -> list[BenchRun]:
        return [run for run in self.made if run.error is not None]


def run_plan(
    plan: BenchPlan,
    folder: str | Path,
    data_dir: str | None = None,
    *,
    jobs: int = 1,
    threads: int | None = None,
    on_finished: Finished | None = None,
) -> PlanOutcome:
    """Make every run of the plan that the folder does not contain. Runs that failed before are tried again.

    A run of another revision of its method is made again; the older run stays in the folder.

    Parameters
    ----------
    plan : BenchPlan
    folder : str or Path
        Where runs are kept.
    data_dir : str, optional
        The folder of the data sets.
    jobs : int
        Number of processes.
    threads : int or None
        Threads of each process; None divides the cores among the processes.
    on_finished : callable, optional
        Called after each run with (run, number of finished runs, number of runs to make).

    Returns
    -------
    PlanOutcome
    """
    if jobs < 1 or (threads is not None and threads < 1):
        raise ValueError("jobs and threads must be at least 1.")
    store = RunStore(folder)
    wanted = list(definitions(plan, data_dir, store.folder))
    store.make()
    if jobs > 1:
        forget_data()
    threads = threads or max(1, thread_count(None) // jobs)
    kept: list[BenchRun] = []
    tasks: list[RunTask] = []
    older, replaced = store.newest(), []
    for definition in wanted:
        run = store.get(definition.key)
        if run is not None and run.error is None:
            kept.append(run)
        else:
            tasks.append(RunTask(definition, plan.source, store.folder, data_dir, threads))
            replaced += [run for run in (older.get(definition.any_revision().key),) if run is not None]
    made: list[BenchRun] = []
    report(PHASE, 0, len(tasks))
    for run in _results(tasks, jobs):
        made.append(run)
        report(PHASE, len(made), len(tasks))
        if on_finished is not None:
            on_finished(run, len(made), len(tasks))
    return PlanOutcome(kept, made, replaced)


def kept_runs(plan: BenchPlan, folder: str | Path, data_dir: str | None = None) -> PlanOutcome:
    """Find the runs of the plan that the folder contains, of any revision, without running anything."""
    store = RunStore(folder)
    older = store.newest()
    all_wanted = definitions(plan, data_dir, store.folder)
    found = (store.get(wanted.key) or older.get(wanted.any_revision().key) for wanted in all_wanted)
    return PlanOutcome([run for run in found if run is not None], [])


def definitions(plan: BenchPlan, data_dir: str | None = None, folder: str | Path = ".") -> Iterator[RunDefinition]:
    """Yield the runs of a plan by seed, so that a bench that stops early has all methods for the first seeds."""
    source = plan.source
    for seed in plan.seeds:
        splits = _splits(Rows(source, data_dir, Path(folder)), plan.protocol, seed)
        for bits in plan.bits:
            for variant in plan.variants:
                for split in splits:  # one after the other, because they share a fit
                    yield RunDefinition(
                        data=source.title,
                        protocol=plan.protocol,
                        split=split.name,
                        split_hash=split.hash,
                        seed=seed,
                        label=variant.label,
                        method=variant.method,
                        settings=variant.settings,
                        n_bits=bits,
                        revision=find_method(variant.method).info.revision,
                    )


def _results(tasks: Sequence[RunTask], jobs: int) -> Iterator[BenchRun]:
    if jobs == 1:
        yield from map(perform, tasks)
        return
    left = {task.definition.key: task for task in tasks}
    try:
        for run in _over_processes(list(left.values()), jobs):
            del left[run.key]
            yield run
    except BrokenProcessPool:
        # A process was killed, for example because memory ran out, and this ended the whole pool. It is not known which
        # run was the cause, so each run that is left gets its own process: then only that run fails.
        for task in left.values():
            try:
                yield from _over_processes([task], 1)
            except BrokenProcessPool:
                run = BenchRun(
                    task.definition, error="The process of this run was killed; it may have run out of memory."
                )
                RunStore(task.folder).save(run, None)
                yield run


def _over_processes(tasks: list[RunTask], jobs: int) -> Iterator[BenchRun]:
    # Processes are spawned, because a forked process can hang if its parent has BLAS threads.
    pool = ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn"))
    try:
        futures: list[Future[BenchRun]] = [pool.submit(perform, task) for task in tasks]
        for future in as_completed(futures):
            yield future.result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def perform(task: RunTask) -> BenchRun:
    """Make one run and keep it. If the method fails, the error is kept instead."""
    store = RunStore(task.folder)
    try:
        with threadpool_limits(task.threads):
            run, codes = _made(task, store)
        store.save(run, codes)
        scores_of(store, run, n_jobs=task.threads)
    except Exception as error:  # one method that fails must not stop the others
        sentence = f"{type(error).__name__}: {' '.join(str(error).split())}"
        run = BenchRun(
            task.definition,
            error=sentence,
            machine=machine_facts(task.threads),
            finished=now(),
            traceback=traceback.format_exc(),
        )
        store.save(run, None)
    return run


def _made(task: RunTask, store: RunStore) -> tuple[BenchRun, RunCodes]:
    definition = task.definition
    rows = Rows(task.source, task.data_dir, task.folder)
    dataset = _dataset(rows, definition.protocol, definition.split, definition.seed)
    if definition.protocol != "mixed":
        _fitted.cache_clear()  # its memory would count as that of this run
    settings = json.dumps({"n_bits": definition.n_bits, **definition.settings})
    start_peak_memory()
    hasher, fit_seconds = _fitted(rows, definition.protocol, definition.seed, definition.method, settings, task.threads)
    timer = PhaseTimer()
    timer.seconds["fit"] = fit_seconds
    with timer("encode queries"):
        query = hasher.encode_queries(dataset.query_X)
    with timer("encode database"):
        hashed = hasher.encode(dataset.database_X)
    memory = peak_memory()
    if dataset.database_is_train:
        codes = RunCodes(query, hashed, hasher.codes_)
    else:
        codes = RunCodes(query, hashed, None, hasher.expected_bits(dataset.query_X))
    run = BenchRun(
        definition,
        labels=store.save_labels(dataset.query_y, dataset.database_y),
        parameters={name: _plain(value) for name, value in hasher.get_params(deep=False).items()},
        seconds=timer.seconds,
        phases={name: float(value) for name, value in getattr(hasher, "seconds_", {}).items()},
        peak_memory_bytes=memory,
        rows={
            "train": len(dataset.train_X),
            "query": len(query),
            "database": len(hashed),
            "features": int(dataset.train_X.shape[1]),
        },
        trace=_trace(hasher),
        measured=_measured(hasher, dataset, codes, definition),
        machine=machine_facts(task.threads),
        source=asdict(task.source) | {"data_dir": task.data_dir},
        finished=now(),
    )
    float_cosine(store, run, Rules(), dataset)
    return run, codes


def _measured(hasher: Any, dataset: Dataset, codes: RunCodes, what: RunDefinition) -> dict[str, float]:
    """Return what needs the rows or their real-valued outputs, which are too large to keep."""
    own = np.random.default_rng(what.seed).permutation(len(codes.hashed))[:OWN_ROWS]
    own_codes = hasher.encode_queries(dataset.database_X[own])
    found = likeness(codes, own_codes, own, dataset, what.n_bits)
    return found | (_ball_scores(hasher, dataset, codes) if what.protocol.endswith("-deep") else {})


def _ball_scores(hasher: Any, dataset: Dataset, codes: RunCodes) -> dict[str, float]:
    """Return MAP within radius 2, also in the form of the released deep evaluators, which needs real-valued outputs."""
    # The released networks end in tanh. Ours end before it, which gives the same bits.
    outputs = tuple(np.tanh(hasher.decision_function(X)) for X in (dataset.query_X, dataset.database_X))
    problem = (codes.query, codes.hashed, dataset.query_y, dataset.database_y)
    strict = metrics.map_within_radius(*problem, radius=2)
    official = metrics.map_within_radius(*problem, radius=2, form="official", projections=outputs)
    return {"radius_map": strict.map, "official_radius_map": official.map, "empty_balls": strict.empty}


def _trace(hasher: Any) -> dict[str, list[float]]:
    """Objective and number of changed bits after each round, if the method records them."""
    trace = {}
    for name in ("objective", "changes"):
        values = np.asarray(getattr(hasher, f"{name}_", ()), dtype=np.float64)
        if values.ndim == 1 and len(values) and np.isfinite(values).all():
            trace[name] = values.tolist()
    return trace


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, (bool, int, float, str)) else repr(value)


class Rows(NamedTuple):
    """The rows of a bench: where they come from, the folder of data sets, and the folder of the bench."""

    source: DataSource
    data_dir: str | None
    folder: Path


# A process makes many runs on the same rows, so the last pool and the last split stay in memory.
@lru_cache(maxsize=1)
def _pool(rows: Rows) -> Pool:
    return rows.source.pool(rows.data_dir, rows.folder)


@lru_cache(maxsize=8)
def _splits(rows: Rows, protocol_name: str, seed: int) -> list[Split]:
    return protocol(protocol_name).splits(_pool(rows), seed)


@lru_cache(maxsize=1)
def _dataset(rows: Rows, protocol_name: str, split_name: str, seed: int) -> Dataset:
    splits = {split.name: split for split in _splits(rows, protocol_name, seed)}
    return splits[split_name].dataset(_pool(rows))


# The searches of a mixed database have the same training rows, so the last hasher stays in memory for them.
@lru_cache(maxsize=1)
def _fitted(rows: Rows, protocol_name: str, seed: int, method: str, settings: str, threads: int) -> tuple[Any, float]:
    """Fit a hasher, and return it with the seconds that took."""
    dataset = _dataset(rows, protocol_name, _splits(rows, protocol_name, seed)[0].name, seed)
    hasher: Any = make_hasher(method, json.loads(settings))
    common = {"random_state": seed, "n_jobs": threads}
    own = hasher.get_params(deep=False)
    hasher.set_params(**{name: value for name, value in common.items() if name in own})
    started = time.perf_counter()
    hasher.fit(dataset.train_X, dataset.train_y)
    return hasher, time.perf_counter() - started


def forget_data() -> None:
    """Free the rows in memory. When other processes make the runs, this process does not need them."""
    for kept in (_pool, _splits, _dataset, _fitted):
        kept.cache_clear()
