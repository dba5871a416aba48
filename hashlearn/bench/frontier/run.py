"""Make the fits of a frontier that the folder does not hold yet; each fit is one JSON file with its points."""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from hashlearn.bench.frontier.measure import FrontierPoint, K, SplitRows, seconds_per_query, split_scores
from hashlearn.bench.frontier.methods import FrontierMethod, frontier_methods
from hashlearn.bench.machine import machine_facts
from hashlearn.bench.method_code import method_code, module_code
from hashlearn.bench.plan import PlanError
from hashlearn.bench.store import write_json
from hashlearn.codecs import Codec, HasherCodec, TwoStageCodec
from hashlearn.data.embedded import Dataset
from hashlearn.data.own import DataSource
from hashlearn.data.pool import Pool
from hashlearn.data.protocols import Split, protocol
from hashlearn.parallel import thread_count
from hashlearn.progress import report

PHASE = "frontier"
# Counts up when what is measured changes, so that points of before are measured again.
_FORMAT = 1
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
        return [
            method
            for method in frontier_methods()
            if (method.name in self.methods if self.methods else not (self.quick and method.slow))
            and (method.label_sets or not multilabel)
        ]


def run_frontier(
    plan: FrontierPlan,
    folder: str | Path,
    data_dir: str | None = None,
    *,
    threads: int | None = None,
    on_finished: Finished | None = None,
) -> tuple[list[FrontierPoint], list[str]]:
    """Measure all points of a plan. Fits that the folder holds are not made again.

    Returns
    -------
    points : list of FrontierPoint
    failed : list of str
        A sentence for each fit that failed; the others are not affected.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    pool = plan.source.pool(data_dir, folder)
    jobs = [
        (seed, method, size)
        for seed in range(plan.seeds)
        for method in plan.chosen(pool.multilabel)
        for size in _sizes(method, plan.sizes, pool)
    ]
    points: list[FrontierPoint] = []
    failed: list[str] = []
    splits: list[Split] = []
    rows: list[SplitRows] = []
    drawn = -1
    for number, (seed, method, size) in enumerate(jobs):
        if seed != drawn:
            splits, rows, drawn = _splits(plan, pool, seed), [], seed
        path = folder / "points" / f"{_key(plan, splits, method, size, seed)}.json"
        started = time.perf_counter()
        if path.exists():
            points += _read(path)
        else:
            rows = rows or [SplitRows.of(split.name, _cut(split.dataset(pool), plan.quick)) for split in splits]
            try:
                with threadpool_limits(threads or thread_count(None)):
                    made = list(_measured(method, size, seed, rows, threads or thread_count(None)))
                path.parent.mkdir(exist_ok=True)
                write_json(path, [asdict(point) for point in made])
                points += made
            except Exception as error:  # one method that fails must not stop the others
                failed.append(f"{method.name} at {size} bytes, seed {seed}: {type(error).__name__}: {error}")
        report(PHASE, number + 1, len(jobs))
        if on_finished is not None:
            on_finished(
                f"{method.name}, {size} bytes, seed {seed}", time.perf_counter() - started, number + 1, len(jobs)
            )
    return points, failed


def _measured(
    method: FrontierMethod, size: int, seed: int, splits: list[SplitRows], threads: int
) -> Iterator[FrontierPoint]:
    train_X, train_y = splits[0].rows.train_X, splits[0].rows.train_y
    codec = method.make(size, seed)
    started = time.perf_counter()
    codec.fit(train_X, train_y)
    fit_seconds = time.perf_counter() - started
    queries, database = splits[0].rows.query_X, splits[0].rows.database_X
    for label, view in method.views(codec).items():
        if isinstance(view, TwoStageCodec):
            view.fit(train_X)
        codes = view.encode(database)
        search = view.searcher(codes)
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
            scores={split.name: split_scores(view, split) for split in splits},
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


def _key(plan: FrontierPlan, splits: list[Split], method: FrontierMethod, size: int, seed: int) -> str:
    codec = method.make(max(size, method.least_bytes + 1), seed)
    facts = [_FORMAT, plan.source.title, plan.quick, [split.hash for split in splits], method.name, size, seed]
    digest = hashlib.sha256(json.dumps([*facts, _code(codec)]).encode()).hexdigest()[:16]
    return re.sub(r"[^A-Za-z0-9+-]+", "_", f"{method.name}-{size}B-s{seed}") + f"-{digest}"


def _code(codec: Codec) -> list[str]:
    """Hashes of the code that the points of a codec come from."""
    own = method_code(codec.method) if isinstance(codec, HasherCodec) else module_code(type(codec).__module__)
    return [own, module_code("hashlearn.codecs.two_stage"), module_code("hashlearn.metrics")]


def _read(path: Path) -> list[FrontierPoint]:
    kept: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    return [FrontierPoint(**point) for point in kept]
