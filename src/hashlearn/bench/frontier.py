"""Accuracy per byte: hashers, quantizers, what a skeptic builds from labels, and floats, in one mixed database.

The database holds rows of known classes and of classes without labels. Queries of both are scored separately, and so
is everything that labels alone cannot give: the neighbors by the floats, the stored row itself, distinct codes.
"""

from __future__ import annotations

import hashlib
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn import metrics
from hashlearn.bench.plan import PlanError
from hashlearn.bench.runner import Finished, Rows, forget_data, make_runs, pool_of, splits_of
from hashlearn.bench.scoring import FLOAT_COSINE, OWN_ROWS, K, neighbor_recall, own_row_first
from hashlearn.bench.store import BenchRun, RunDefinition, RunStore
from hashlearn.codecs import (
    ClassCodec,
    Codec,
    ContrastiveAdapter,
    CutCodec,
    Discriminant,
    FloatCodec,
    HasherCodec,
    MappedCodec,
    OpenMetric,
    Posteriors,
    ProductCodec,
    RaBitCodec,
    RescoredSignCodec,
    RotatedProductCodec,
    ScalarCodec,
    SignCodec,
    TurboCodec,
)
from hashlearn.codecs.base import best_places, unit_rows
from hashlearn.codecs.labeled import RowMap
from hashlearn.data.own import DataSource
from hashlearn.data.pool import Dataset, Pool
from hashlearn.data.protocols import LEAST_ROWS, protocol
from hashlearn.typing import IntArray, Metric, PackedCodes

MATRYOSHKA = "Matryoshka, 8 bits"
QUICK_ROWS, QUICK_QUERIES = 3000, 300
# The cut-off of NDCG, which is that of the paper.
NDCG_AT = 50
_LEAST_SECONDS = 0.05
# The methods that the default label budgets are measured with, and the largest number of seeds.
BUDGET_METHODS = (FLOAT_COSINE, "PQ", "posterior floats", "class number + PQ", "LDA + PQ", "gsdhp", "auto", "open")
BUDGET_SEEDS = 3
# Increased when what is measured changes, so that kept runs are made again.
_REVISION = 1
# The ways to ask the codes of a hasher: names of rows, and what ``HasherCodec`` calls these queries.
_QUERIES = {"Hamming": "bits", "real-valued queries": "real"}
_OPEN_QUERIES = {"alike": "alike", "auto": "auto", "label": "label"}
Make = Callable[[int, int], Codec]


class FrontierMethod(NamedTuple):
    """A codec of the frontier.

    ``make`` makes it from a number of bytes and a seed. If it is not ``sized``, the features or classes decide the
    number of bytes.
    """

    name: str
    make: Make
    sized: bool = True

    @property
    def supervised(self) -> bool:
        """Whether labels change the codec."""
        return self._sample.supervised

    @property
    def revision(self) -> int:
        """Changes when the numbers of the method do."""
        return 1000 * _REVISION + self._sample.revision

    @property
    def _sample(self) -> Codec:
        return self.make(64, 0)  # every codec can have 64 bytes

    def views(self, codec: Codec) -> dict[str, Codec]:
        """Return the ways to search the same codes, by name."""
        if not isinstance(codec, HasherCodec) or not codec.labels:
            return {self.name: codec}
        ways = _OPEN_QUERIES if codec.method == "open" else _QUERIES
        return {f"{self.name}, {words}": codec.asked(queries) for words, queries in ways.items()}


def _floats_of(row_map: RowMap, metric: Metric = "cosine") -> Codec:
    return MappedCodec(row_map, FloatCodec(metric))


def frontier_methods() -> list[FrontierMethod]:
    """Return all methods, in the order of the tables."""

    def lda_opq(size: int) -> Codec:
        return MappedCodec(Discriminant(), RotatedProductCodec(size))

    # What has as many bytes as the features or classes give it.
    fixed: dict[str, Make] = {
        FLOAT_COSINE: lambda size, seed: FloatCodec(),
        "float Euclidean": lambda size, seed: FloatCodec("euclidean"),
        "8 bit scalar": lambda size, seed: ScalarCodec(8),
        "4 bit scalar": lambda size, seed: ScalarCodec(4),
        "TurboQuant, 4 bits": lambda size, seed: TurboCodec(4),
        "TurboQuant, 2 bits": lambda size, seed: TurboCodec(2),
        "sign bits": lambda size, seed: SignCodec(),
        "sign bits, float queries": lambda size, seed: SignCodec(queries="floats"),
        "sign bits, all rescored by int8": lambda size, seed: RescoredSignCodec(),
        "LDA floats": lambda size, seed: _floats_of(Discriminant()),
        "posterior floats": lambda size, seed: _floats_of(Posteriors(seed), "dot"),
        "floats in the metric of open": lambda size, seed: _floats_of(OpenMetric(seed), "dot"),
        "contrastive adapter floats": lambda size, seed: _floats_of(ContrastiveAdapter(seed)),
        "predicted class, then floats": lambda size, seed: ClassCodec(lambda _: FloatCodec(), filtered=True, seed=seed),
        "class number": lambda size, seed: ClassCodec(seed=seed),
    }
    sized: dict[str, Make] = {
        "class number + PQ": lambda size, seed: ClassCodec(ProductCodec, n_bytes=size, seed=seed),
        "class number + LDA-OPQ": lambda size, seed: ClassCodec(lda_opq, n_bytes=size, seed=seed),
        "LDA + PQ": lambda size, seed: MappedCodec(Discriminant(), ProductCodec(size)),
        "posteriors + PQ": lambda size, seed: MappedCodec(Posteriors(seed), ProductCodec(size)),
        "PQ": lambda size, seed: ProductCodec(size),
        "PQ, 4 bits": lambda size, seed: ProductCodec(size, 4),
        "OPQ": lambda size, seed: RotatedProductCodec(size),
        "RaBitQ, 1 bit": lambda size, seed: RaBitCodec(size, 1),
        "RaBitQ, 2 bits": lambda size, seed: RaBitCodec(size, 2),
        MATRYOSHKA: lambda size, seed: CutCodec(size),
        "PCA + sign": lambda size, seed: SignCodec(size),
        "itq": lambda size, seed: HasherCodec("itq", size, seed),
        "gsdhp": lambda size, seed: HasherCodec("gsdhp", size, seed),
        "auto": lambda size, seed: HasherCodec("auto", size, seed),
        "open": lambda size, seed: HasherCodec("open", size, seed),
        "open without labels": lambda size, seed: HasherCodec("open", size, seed, "alike", labels=False),
    }

    return [
        *(FrontierMethod(name, make, sized=False) for name, make in fixed.items()),
        *(FrontierMethod(name, make) for name, make in sized.items()),
    ]


@dataclass(frozen=True)
class LabelBudget:
    """What is left of the training labels: at most ``per_class`` of each class, a share ``wrong`` of them at random.

    With ``absent`` the rows without labels, which are those of unknown classes, are taken out of training: their
    classes come to the database later.
    """

    per_class: int | None = None
    wrong: float = 0.0
    absent: bool = False

    def __str__(self) -> str:
        if self.absent:
            return "unlabeled rows absent from training"
        labels = "all labels" if self.per_class is None else f"{self.per_class} labels per class"
        return labels + (f", {self.wrong:.0%} wrong" if self.wrong else "")

    def apply(self, y: NDArray[Any], seed: int) -> NDArray[Any]:
        """Return labels (NaN where there is none) with those over the budget hidden and some replaced.

        A wrong label is that of another row, drawn among the labeled rows that have another label.
        """
        rng = np.random.default_rng([seed, 17])
        y = np.array(y, dtype=np.float64)
        if self.per_class is not None:
            for label in np.unique(y[~np.isnan(y)]):
                rows = rng.permutation(np.flatnonzero(y == label))
                y[rows[self.per_class :]] = np.nan
        labeled = np.flatnonzero(~np.isnan(y))
        true = y.copy()
        for row in rng.permutation(labeled)[: round(self.wrong * len(labeled))]:
            others = labeled[true[labeled] != true[row]]
            if len(others):
                y[row] = true[rng.choice(others)]
        return y


ALL_LABELS = LabelBudget()
BUDGETS = (
    ALL_LABELS,
    *(LabelBudget(count) for count in (5, 20, 100)),
    *(LabelBudget(None, share) for share in (0.2, 0.4)),
    LabelBudget(absent=True),
)


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
        At most 3,000 training rows, 3,000 database rows and 300 queries of each kind.
    methods : tuple of str
        Names of methods; empty for all.
    budgets : tuple of LabelBudget
        The label budgets; methods without labels are measured once. Label sets have the full budget only. All budgets
        but the first are measured at the middle size, on at most three seeds, with ``methods`` or, if these are
        not given, with some that learn from labels.
    matryoshka : bool
        Whether the first dimensions of a row alone mean something, as those of models made for that do.
    """

    source: DataSource
    sizes: tuple[int, ...] = (8, 16, 32)
    seeds: int = 5
    quick: bool = False
    methods: tuple[str, ...] = ()
    budgets: tuple[LabelBudget, ...] = (ALL_LABELS,)
    matryoshka: bool = False

    def __post_init__(self) -> None:
        if self.seeds < 1 or not self.sizes or min(self.sizes) < 2:
            raise PlanError("A frontier needs at least one seed, and sizes of at least two bytes.")
        for budget in self.budgets:
            if (budget.per_class is not None and budget.per_class < 1) or not 0 <= budget.wrong < 1:
                raise PlanError(
                    "A label budget needs at least one label per class, and a share of wrong labels from 0 to below 1. "
                    f"Got {budget.per_class} and {budget.wrong} instead."
                )
        names = [method.name for method in frontier_methods()]
        for name in self.methods:
            if name not in names:
                raise PlanError(f"The method must be one of {', '.join(names)}. Got {name!r} instead.")

    @property
    def middle_size(self) -> int:
        """The size at which label budgets are measured."""
        return sorted(self.sizes)[len(self.sizes) // 2]

    @property
    def chosen(self) -> list[FrontierMethod]:
        """The methods that the plan asks for; without names all but that for models made to be cut."""
        if self.methods:
            return [method for method in frontier_methods() if method.name in self.methods]
        return [method for method in frontier_methods() if self.matryoshka or method.name != MATRYOSHKA]

    def fits(self, protocol_name: str) -> Iterator[tuple[int, LabelBudget, FrontierMethod, int]]:
        """Yield seed, budget, method and size of all fits on data that is searched by this protocol."""
        mixed = protocol_name == "mixed"
        for seed in range(self.seeds):
            for budget in self.budgets:
                first = budget == self.budgets[0]
                if not first and (seed >= BUDGET_SEEDS or (budget.absent and not mixed)):
                    continue
                sizes = self.sizes if first else (self.middle_size,)
                for method in self.chosen:
                    asked = method.name in (self.methods or BUDGET_METHODS) and (method.supervised or budget.absent)
                    if first or asked:
                        yield from ((seed, budget, method, size) for size in (sizes if method.sized else sizes[:1]))


@dataclass(frozen=True)
class FrontierTask:
    """A codec to fit, whose codes are searched in every way that it has. The codes are not kept."""

    rows: Rows
    protocol: str
    seed: int
    budget: LabelBudget
    method: FrontierMethod
    size: int
    quick: bool

    @cached_property
    def definition(self) -> RunDefinition:
        hashes = "".join(split.hash for split in splits_of(self.rows, self.protocol, self.seed))
        settings: dict[str, Any] = {"quick": self.quick}
        if self.protocol == "new":  # what is searched by label sets is scored by NDCG
            settings |= {"ndcg at": NDCG_AT}
        if self.method.supervised:
            settings |= {"labels per class": self.budget.per_class, "wrong labels": self.budget.wrong}
        if self.budget.absent:
            settings |= {"absent": True}
        return RunDefinition(
            data=self.rows.source.title,
            protocol=self.protocol,
            split="frontier",
            split_hash=hashlib.sha256(hashes.encode()).hexdigest(),
            seed=self.seed,
            label=self.method.name,
            method=self.method.name,
            settings=settings,
            n_bits=8 * self.size if self.method.sized else 0,
            revision=self.method.revision,
        )

    def make(self, store: RunStore, threads: int) -> tuple[BenchRun, None]:
        seed, searches = self.seed, _searches(self.rows, self.protocol, self.seed, self.quick)
        first = searches[0].rows
        train_X, train_y = first.train_X, first.train_y
        if self.budget.absent:
            train_X, train_y = train_X[~np.isnan(train_y)], train_y[~np.isnan(train_y)]
        elif self.budget != ALL_LABELS:
            train_y = self.budget.apply(train_y, seed)
        codec = self.method.make(self.size, seed)
        started = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # what the page says of the data, once for every fit
            codec.fit(train_X, train_y)
        fit_seconds = time.perf_counter() - started
        codes = codec.encode(first.database_X)
        shared = {
            "bytes": codec.bytes_per_row,
            "model bytes": codec.model_bytes,
            "fit seconds": fit_seconds,
            "encode seconds": _seconds_per_row(codec.encode, first.query_X),
        }
        if codec.shows_codes:
            shared["distinct"] = len(np.unique(codes, axis=0)) / len(codes)
        own = np.random.default_rng(seed).permutation(len(codes))[:OWN_ROWS]
        views = {}
        for label, view in self.method.views(codec).items():
            found = own_row_first(view.scores(first.database_X[own], codes), own)
            views[label] = {**shared, "own row first": float(found.mean())}
            for search in searches:
                stored = codes if search.whole else codec.encode(search.rows.database_X)
                views[label] |= _scores(view, search, stored)
        return BenchRun(self.definition, views=views, seconds={"fit": fit_seconds}), None


class Measured(NamedTuple):
    """The fits of a frontier in the order of the plan, with their runs; and sentences about the data."""

    fits: list[tuple[FrontierTask, BenchRun]]
    protocol: str
    label_sets: bool
    notes: list[str]

    @property
    def runs(self) -> list[BenchRun]:
        return [run for _, run in self.fits]

    @property
    def failed(self) -> list[BenchRun]:
        """Runs that failed, without those whose codec does not suit the data."""
        return [run for run in self.runs if run.error is not None and not run.unsuited]


def run_frontier(
    plan: FrontierPlan,
    folder: str | Path,
    data_dir: str | None = None,
    *,
    threads: int | None = None,
    on_finished: Finished | None = None,
) -> Measured:
    """Measure all points of a plan. Fits that ``folder``/runs holds are not made again."""
    store, rows = RunStore(Path(folder) / "runs"), Rows(plan.source, data_dir, Path(folder))
    store.make()
    forget_data()  # a file may have other rows now
    _searches.cache_clear()
    pool = pool_of(rows)
    name, notes = _protocol_for(pool)
    if pool.multilabel:
        plan = replace(plan, budgets=plan.budgets[:1])
    tasks = [FrontierTask(rows, name, *fit, plan.quick) for fit in plan.fits(name)]
    lonely = "; ".join(found for seed in range(plan.seeds) for found in _lonely_queries(rows, name, seed))
    if lonely:
        notes.append(f"No row of the database is relevant to {lonely}: these count 0 for every method.")
    outcome = make_runs(tasks, store, threads=threads, on_finished=on_finished)
    runs = {run.key: run for run in (*outcome.kept, *outcome.made)}
    return Measured([(task, runs[task.definition.key]) for task in tasks], name, pool.multilabel, notes)


def _protocol_for(pool: Pool) -> tuple[str, list[str]]:
    """Return the protocol that fits the data, and sentences about rows that are treated specially.

    Raises a PlanError if nothing can be measured.
    """
    notes = []
    unlabeled = int((~pool.labeled).sum())
    if unlabeled:
        notes.append(
            f"{unlabeled:,} of {len(pool):,} rows have no label. They take part in training and in the database, "
            "and are never queries; MAP leaves them out, because nobody knows whether they are relevant."
        )
    if (not pool.multilabel and len(pool.classes) < 2) or len(pool) < LEAST_ROWS:
        raise PlanError(
            f"A frontier needs at least {LEAST_ROWS} rows and two classes, or label sets. {pool.name} has "
            f"{len(pool)} rows and {len(pool.classes)} classes."
        )
    if pool.multilabel:
        return "new", notes
    try:
        protocol("mixed").splits(pool)
    except ValueError as error:
        return "new", [*notes, f"No class is unknown here, because {error}"]
    return "mixed", notes


def _lonely_queries(rows: Rows, protocol_name: str, seed: int) -> Iterator[str]:
    """Yield how many queries of each split have no relevant row in the database, if there are some."""
    pool = pool_of(rows)
    for split in splits_of(rows, protocol_name, seed):
        asked, stored = pool.y[split.query], pool.y[split.database]
        if pool.multilabel:
            count = int((asked @ stored.any(axis=0).astype(asked.dtype) == 0).sum())
        else:
            count = int((~np.isin(asked, stored)).sum())
        if count:
            yield f"{count} of {len(asked)} queries of seed {split.seed} ({split.name})"


class Search(NamedTuple):
    """A split, the nearest database rows of its queries by the cosine of the floats, and whose database it has."""

    name: str
    rows: Dataset
    neighbors: IntArray
    whole: bool


@lru_cache(maxsize=1)
def _searches(rows: Rows, protocol_name: str, seed: int, quick: bool) -> list[Search]:
    """Return the searches of a seed; all fits of the seed share them."""
    splits, searches = splits_of(rows, protocol_name, seed), []
    for split in splits:
        found = split.dataset(pool_of(rows))
        if quick:
            found = replace(
                found,
                train_X=found.train_X[:QUICK_ROWS],
                train_y=found.train_y[:QUICK_ROWS],
                query_X=found.query_X[:QUICK_QUERIES],
                query_y=found.query_y[:QUICK_QUERIES],
                database_X=found.database_X[:QUICK_ROWS],
                database_y=found.database_y[:QUICK_ROWS],
            )
        neighbors = best_places(unit_rows(found.query_X) @ unit_rows(found.database_X).T, K)
        searches.append(Search(split.name, found, neighbors, split.database is splits[0].database))
    return searches


def _scores(codec: Codec, search: Search, codes: PackedCodes) -> dict[str, float]:
    """Return MAP of the whole ranking, NDCG@50, and recall@10 of the float neighbors."""
    rows = search.rows
    scores = codec.scores(rows.query_X, codes)
    found = metrics.evaluate_scores(scores, rows.query_y, rows.database_y, at=None, ndcg_at=NDCG_AT)
    recall = float(neighbor_recall(scores, search.neighbors).mean())
    return {f"map {search.name}": found.map, f"ndcg {search.name}": found.ndcg, f"recall {search.name}": recall}


def _seconds_per_row(work: Callable[[NDArray[Any]], Any], rows: NDArray[Any]) -> float:
    """Return the shortest time per row of several calls, because other work on the machine only makes calls longer."""
    best, spent = float("inf"), 0.0
    while spent < _LEAST_SECONDS or best == float("inf"):
        started = time.perf_counter()
        work(rows)
        took = time.perf_counter() - started
        best, spent = min(best, took), spent + took
    return best / len(rows)
