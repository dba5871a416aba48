"""Make the runs that are not kept yet, one after the other or in several processes."""

from __future__ import annotations

import json
import multiprocessing
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, Protocol

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
from hashlearn.messages import one_line
from hashlearn.methods import find_method, make_hasher
from hashlearn.metrics import Rules
from hashlearn.parallel import thread_count
from hashlearn.progress import PhaseTimer, report

PHASE = "bench"
Finished = Callable[[BenchRun, int, int], None]


class Rows(NamedTuple):
    """The rows of a bench: where they come from, the folder of data sets, and the folder of embeddings of texts."""

    source: DataSource
    data_dir: str | None
    folder: Path


class Task(Protocol):
    """A run to make. It is small, because it may be sent to another process."""

    @property
    def definition(self) -> RunDefinition: ...

    def make(self, store: RunStore, threads: int) -> tuple[BenchRun, RunCodes | None]:
        """Make the run, and return it with its codes if these are kept."""
        ...


@dataclass(frozen=True)
class HasherTask:
    """A hasher to fit on a split, whose codes are kept and scored."""

    definition: RunDefinition
    rows: Rows

    def make(self, store: RunStore, threads: int) -> tuple[BenchRun, RunCodes]:
        what = self.definition
        dataset = _dataset(self.rows, what.protocol, what.split, what.seed)
        if what.protocol != "mixed":
            _fitted.cache_clear()  # its memory would count as that of this run
        settings = json.dumps({"n_bits": what.n_bits, **what.settings})
        start_peak_memory()
        hasher, fit_seconds = _fitted(self.rows, what.protocol, what.seed, what.method, settings, threads)
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
        sizes = {"train": len(dataset.train_X), "query": len(query), "database": len(hashed)}
        run = BenchRun(
            what,
            labels=store.save_labels(dataset.query_y, dataset.database_y),
            parameters={name: _plain(value) for name, value in hasher.get_params(deep=False).items()},
            seconds=timer.seconds,
            phases={name: float(value) for name, value in getattr(hasher, "seconds_", {}).items()},
            peak_memory_bytes=memory,
            rows=sizes | {"features": int(dataset.train_X.shape[1])},
            trace=_trace(hasher),
            measured=_measured(hasher, dataset, codes, what),
            source=asdict(self.rows.source) | {"data_dir": self.rows.data_dir},
        )
        float_cosine(store, run, Rules(), dataset)
        return run, codes


class PlanOutcome(NamedTuple):
    """The result of a plan: runs that were kept before, and runs made now."""

    kept: list[BenchRun]
    made: list[BenchRun]

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
    rows = Rows(plan.source, data_dir, Path(folder))
    tasks = [HasherTask(definition, rows) for definition in definitions(plan, rows)]
    return make_runs(tasks, RunStore(folder), jobs, threads, on_finished)


def kept_runs(plan: BenchPlan, folder: str | Path, data_dir: str | None = None) -> PlanOutcome:
    """Find the runs of the plan that the folder contains, of any revision, without running anything."""
    store = RunStore(folder)
    older = store.newest()
    all_wanted = definitions(plan, Rows(plan.source, data_dir, store.folder))
    found = (store.get(wanted.key) or older.get(wanted.any_revision().key) for wanted in all_wanted)
    return PlanOutcome([run for run in found if run is not None], [])


def definitions(plan: BenchPlan, rows: Rows) -> Iterator[RunDefinition]:
    """Yield the runs of a plan by seed, so that a bench that stops early has all methods for the first seeds."""
    for seed in plan.seeds:
        splits = splits_of(rows, plan.protocol, seed)
        for bits in plan.bits:
            for variant in plan.variants:
                for split in splits:  # one after the other, because they share a fit
                    yield RunDefinition(
                        data=rows.source.title,
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


def make_runs(
    tasks: Sequence[Task],
    store: RunStore,
    jobs: int = 1,
    threads: int | None = None,
    on_finished: Finished | None = None,
) -> PlanOutcome:
    """Make the runs of the tasks that the store does not have, or has as failed."""
    store.make()
    outcome = PlanOutcome([], [])
    missing: list[Task] = []
    for task in tasks:
        run = store.get(task.definition.key)
        if run is None or run.error is not None:
            missing.append(task)
        else:
            outcome.kept.append(run)
    if jobs > 1:
        forget_data()
    report(PHASE, 0, len(missing))
    for run in _results(missing, store.folder, jobs, threads or max(1, thread_count(None) // jobs)):
        outcome.made.append(run)
        report(PHASE, len(outcome.made), len(missing))
        if on_finished is not None:
            on_finished(run, len(outcome.made), len(missing))
    return outcome


def _results(tasks: Sequence[Task], folder: Path, jobs: int, threads: int) -> Iterator[BenchRun]:
    if jobs == 1:
        yield from (perform(task, folder, threads) for task in tasks)
        return
    left = {task.definition.key: task for task in tasks}
    try:
        for run in _over_processes(list(left.values()), folder, jobs, threads):
            del left[run.key]
            yield run
    except BrokenProcessPool:
        # A process was killed, for example because memory ran out, and this ended the whole pool. It is not known which
        # run was the cause, so each run that is left gets its own process: then only that run fails.
        for task in left.values():
            try:
                yield from _over_processes([task], folder, 1, threads)
            except BrokenProcessPool:
                sentence = "The process of this run was killed; it may have run out of memory."
                run = BenchRun(task.definition, error=sentence)
                RunStore(folder).save(run, None)
                yield run


def _over_processes(tasks: Sequence[Task], folder: Path, jobs: int, threads: int) -> Iterator[BenchRun]:
    # Processes are spawned, because a forked process can hang if its parent has BLAS threads.
    pool = ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn"))
    try:
        for future in as_completed([pool.submit(perform, task, folder, threads) for task in tasks]):
            yield future.result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def perform(task: Task, folder: Path, threads: int) -> BenchRun:
    """Make one run and keep it. If the method fails, the error is kept instead."""
    store, machine = RunStore(folder), machine_facts(threads)
    try:
        with threadpool_limits(threads):
            run, codes = task.make(store, threads)
        run = replace(run, machine=machine, finished=now())
        store.save(run, codes)
        if codes is not None:
            scores_of(store, run, n_jobs=threads)
    except Exception as error:  # one method that fails must not stop the others
        sentence = f"{type(error).__name__}: {one_line(error)}"
        trace = traceback.format_exc()
        run = BenchRun(task.definition, error=sentence, machine=machine, finished=now(), traceback=trace)
        store.save(run, None)
    return run


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


# A process makes many runs on the same rows, so the last pool and the last split stay in memory.
@lru_cache(maxsize=1)
def pool_of(rows: Rows) -> Pool:
    """Return all rows of a bench."""
    return rows.source.pool(rows.data_dir, rows.folder)


@lru_cache(maxsize=8)
def splits_of(rows: Rows, protocol_name: str, seed: int) -> list[Split]:
    """Return the splits of a protocol."""
    return protocol(protocol_name).splits(pool_of(rows), seed)


@lru_cache(maxsize=1)
def _dataset(rows: Rows, protocol_name: str, split_name: str, seed: int) -> Dataset:
    splits = {split.name: split for split in splits_of(rows, protocol_name, seed)}
    return splits[split_name].dataset(pool_of(rows))


# The searches of a mixed database have the same training rows, so the last hasher stays in memory for them.
@lru_cache(maxsize=1)
def _fitted(rows: Rows, protocol_name: str, seed: int, method: str, settings: str, threads: int) -> tuple[Any, float]:
    """Fit a hasher, and return it with the seconds that took."""
    dataset = _dataset(rows, protocol_name, splits_of(rows, protocol_name, seed)[0].name, seed)
    hasher: Any = make_hasher(method, json.loads(settings))
    common = {"random_state": seed, "n_jobs": threads}
    own = hasher.get_params(deep=False)
    hasher.set_params(**{name: value for name, value in common.items() if name in own})
    started = time.perf_counter()
    hasher.fit(dataset.train_X, dataset.train_y)
    return hasher, time.perf_counter() - started


def forget_data() -> None:
    """Free the rows in memory: other processes make the runs, or a file has other rows now."""
    for kept in (pool_of, splits_of, _dataset, _fitted):
        kept.cache_clear()
