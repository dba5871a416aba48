"""Make the fits of a frontier that the folder does not hold yet."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from threadpoolctl import threadpool_limits

from hashlearn.bench.frontier.kept import KeptFits, fit_code, fit_name
from hashlearn.bench.frontier.measure import FrontierPoint, K, SplitRows, seconds_per_query, split_scores
from hashlearn.bench.frontier.methods import FrontierMethod, frontier_methods
from hashlearn.bench.machine import machine_facts
from hashlearn.bench.plan import PlanError
from hashlearn.codecs import TwoStageCodec
from hashlearn.data.embedded import Dataset
from hashlearn.data.own import DataSource
from hashlearn.data.pool import Pool
from hashlearn.data.protocols import Split, protocol
from hashlearn.parallel import thread_count
from hashlearn.progress import report

PHASE = "frontier"
QUICK_ROWS, QUICK_QUERIES = 3000, 300
Finished = Callable[[str, float, int, int], None]


@dataclass(frozen=True)
class FrontierPlan:
    """What a frontier covers.

    Parameters
    ----------
    source : DataSource
    sizes : tuple of int
        Bytes per row, for the methods that can choose.
    seeds : int
        Number of splits and fits: seeds 0, 1, 2 …
    quick : bool
        At most 3,000 training rows, 3,000 database rows and 300 queries, and without the slow codecs.
    methods : tuple of str
        Names of methods; empty for all.
    """

    source: DataSource
    sizes: tuple[int, ...] = (8, 16, 32)
    seeds: int = 3
    quick: bool = False
    methods: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.seeds < 1 or not self.sizes or min(self.sizes) < 1:
            raise PlanError("A frontier needs at least one seed, and sizes of at least one byte.")
        names = [method.name for method in frontier_methods()]
        for name in self.methods:
            if name not in names:
                raise PlanError(f"The method must be one of {', '.join(names)}. Got {name!r} instead.")

    def chosen(self, multilabel: bool) -> list[FrontierMethod]:
        """The methods that the plan asks for and that can learn from such labels."""
        return [method for method in frontier_methods() if self._why_not(method, multilabel) is None]

    def left_out(self, multilabel: bool) -> dict[str, list[str]]:
        """What the plan does not measure, by the reason. A method of which only some sizes are missing has these."""
        missing: dict[str, list[str]] = {}
        for method in frontier_methods():
            reason = self._why_not(method, multilabel)
            if reason is not None:
                missing.setdefault(reason, []).append(method.name)
            elif too_small := [size for size in self.sizes if method.sized and size <= method.least_bytes]:
                sizes = ", ".join(map(str, too_small))
                reason = f"it needs more than {method.least_bytes} bytes"
                missing.setdefault(reason, []).append(f"{method.name} of {sizes} bytes")
        return missing

    def _why_not(self, method: FrontierMethod, multilabel: bool) -> str | None:
        if multilabel and not method.label_sets:
            return "it takes classes, not label sets"
        if self.methods:
            return None if method.name in self.methods else "not asked for"
        return "slow" if self.quick and method.slow else None


class Measured(NamedTuple):
    """What a run of a frontier gives.

    ``failed`` has a sentence for each fit that failed; the others are not affected. ``outdated`` has the
    method of each fit that was made by older code and taken as it is.
    """

    points: list[FrontierPoint]
    failed: list[str]
    outdated: list[str]


def run_frontier(
    plan: FrontierPlan,
    folder: str | Path,
    data_dir: str | None = None,
    *,
    threads: int | None = None,
    keep_outdated: bool = False,
    on_finished: Finished | None = None,
) -> Measured:
    """Measure all points of a plan. Fits that the folder holds are not made again.

    Fits of older code are made again unless ``keep_outdated``.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    kept = KeptFits(folder)
    pool = plan.source.pool(data_dir, folder)
    jobs = [
        (seed, method, size)
        for seed in range(plan.seeds)
        for method in plan.chosen(pool.multilabel)
        for size in _sizes(method, plan.sizes, pool)
    ]
    measured = Measured([], [], [])
    splits: list[Split] = []
    rows: list[SplitRows] = []
    drawn = -1
    for number, (seed, method, size) in enumerate(jobs):
        if seed != drawn:
            splits, rows, drawn = _splits(plan, pool, seed), [], seed
        label = f"{method.name}, {f'{size} bytes, ' if method.sized else ''}seed {seed}"
        started = time.perf_counter()
        name = fit_name(method, size, seed, [plan.source.title, plan.quick, [split.hash for split in splits]])
        path = kept.path(name, fit_code(method, size, seed))
        older = kept.outdated(name) if keep_outdated else None
        if path.exists():
            measured.points.extend(kept.read(path))
        elif older is not None:
            measured.points.extend(kept.read(older))
            measured.outdated.append(method.name)
        else:
            rows = rows or [SplitRows.of(split.name, _cut(split.dataset(pool), plan.quick)) for split in splits]
            try:
                with threadpool_limits(threads or thread_count(None)):
                    made = list(_measured(method, size, seed, rows, threads or thread_count(None)))
                kept.write(path, made)
                measured.points.extend(made)
            except Exception as error:  # one method that fails must not stop the others
                measured.failed.append(f"{label}: {_reason(error)}")
        report(PHASE, number + 1, len(jobs))
        if on_finished is not None:
            on_finished(label, time.perf_counter() - started, number + 1, len(jobs))
    return measured


def _reason(error: Exception) -> str:
    """Why a fit failed, without the place in faiss's source where it noticed."""
    few = re.search(
        r"training points \((\d+)\) should be at least as large as number of clusters \((\d+)\)", str(error)
    )
    if few is not None:
        return f"it learns {few[2]} centroids from at least as many rows, and there are {few[1]} to train on."
    return f"{type(error).__name__}: {error}"


def _measured(
    method: FrontierMethod, size: int, seed: int, splits: list[SplitRows], threads: int
) -> Iterator[FrontierPoint]:
    train_X, train_y = splits[0].rows.train_X, splits[0].rows.train_y
    codec = method.make(size, seed)
    started = time.perf_counter()
    codec.fit(train_X, train_y)
    fit_seconds = time.perf_counter() - started
    queries = splits[0].rows.query_X
    for label, view in method.views(codec).items():
        if isinstance(view, TwoStageCodec):
            view.fit(train_X)
        codes = [view.encode(split.rows.database_X) for split in splits]
        search = view.searcher(codes[0])
        yield FrontierPoint(
            label=label,
            method=method.name,
            asked_bytes=size,
            seed=seed,
            supervised=method.supervised,
            bytes=view.bytes_per_row,
            model_bytes=view.model_bytes,
            fit_seconds=fit_seconds,
            encode_seconds=seconds_per_query(view.encode, queries),
            search_seconds=seconds_per_query(partial(search, k=K), queries),
            scores={split.name: split_scores(view, split, own) for split, own in zip(splits, codes, strict=True)},
            machine=machine_facts(threads),
        )


def _sizes(method: FrontierMethod, sizes: tuple[int, ...], pool: Pool) -> list[int]:
    if not method.sized:
        return [-(-int(pool.X.shape[1]) // 8)]  # sign bits of all dimensions; the others ignore it
    return [size for size in sizes if size > method.least_bytes]


def _splits(plan: FrontierPlan, pool: Pool, seed: int) -> list[Split]:
    return protocol("new" if pool.multilabel else "new-unseen").splits(pool, seed)


def _cut(rows: Dataset, quick: bool) -> Dataset:
    if not quick:
        return rows
    return replace(
        rows,
        train_X=rows.train_X[:QUICK_ROWS],
        train_y=rows.train_y[:QUICK_ROWS],
        query_X=rows.query_X[:QUICK_QUERIES],
        query_y=rows.query_y[:QUICK_QUERIES],
        database_X=rows.database_X[:QUICK_ROWS],
        database_y=rows.database_y[:QUICK_ROWS],
    )
