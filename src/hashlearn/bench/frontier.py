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
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from hashlearn import codecs, metrics
from hashlearn.bench.plan import PlanError
from hashlearn.bench.scoring import OWN_ROWS, K, neighbor_recall, own_row_first
from hashlearn.bench.store import BenchRun, RunDefinition, RunStore, machine_facts, now
from hashlearn.codecs import Codec, HasherCodec
from hashlearn.codecs.base import best_places, unit_rows
from hashlearn.data.own import DataSource
from hashlearn.data.pool import Dataset, Pool
from hashlearn.data.protocols import LEAST_ROWS, Split, protocol
from hashlearn.messages import one_line
from hashlearn.methods import find_method, method_names
from hashlearn.parallel import thread_count
from hashlearn.progress import report
from hashlearn.typing import IntArray, PackedCodes

PHASE = "frontier"
FLOATS, EUCLIDEAN, MATRYOSHKA = "float cosine", "float Euclidean", "Matryoshka, 8 bits"
CENTROIDS = 256
QUICK_ROWS, QUICK_QUERIES = 3000, 300
# The cut-off of NDCG, which is that of the paper.
NDCG_AT = 50
_LEAST_SECONDS = 0.05
# How far the lengths of rows may be from 1 in rows that count as rows of unit length.
_LENGTH_SLACK = 1e-2
# The methods that the default label budgets are measured with, and the largest number of seeds.
BUDGET_METHODS = (FLOATS, "PQ", "posterior floats", "class number + PQ", "LDA + PQ", "gsdhp", "auto", "open")
BUDGET_SEEDS = 3
# Increased when what is measured changes, so that kept runs are made again.
_REVISION = 1
Finished = Callable[[str, float, int, int], None]
Make = Callable[[int, int], Codec]


@dataclass(frozen=True)
class FrontierMethod:
    """A codec of the frontier.

    Parameters
    ----------
    name : str
    make : callable
        Makes the codec from a number of bytes and a seed.
    sized : bool
        Whether the number of bytes can be chosen; otherwise the features or classes decide it.
    least_bytes : int
        The method needs more bytes than this.
    least_rows : int
        The method needs at least this many training rows: one per centroid.
    label_sets : bool
        Whether it can learn from label sets.
    queries : dict
        Ways to ask the codes of a hasher: names of rows, and what ``HasherCodec`` calls these queries.
    missing : str
        Why it cannot be measured here; empty if it can.
    """

    name: str
    make: Make
    sized: bool = True
    least_bytes: int = 0
    least_rows: int = 1
    label_sets: bool = True
    queries: tuple[tuple[str, str], ...] = ()
    missing: str = ""

    @property
    def supervised(self) -> bool:
        """Whether labels change the codec."""
        codec = self.make(self.least_bytes + 2, 0)
        if isinstance(codec, HasherCodec):
            return bool(find_method(codec.method).info.supervised) and codec.labels
        return codec.supervised

    @property
    def revision(self) -> int:
        """Changes when the numbers of the method do."""
        codec = self.make(self.least_bytes + 2, 0)
        own = find_method(codec.method).info.revision if isinstance(codec, HasherCodec) else 1
        return 1000 * _REVISION + own

    def views(self, codec: Codec) -> dict[str, Codec]:
        """Return the ways to search the same codes, by name."""
        if isinstance(codec, HasherCodec):
            return {name: codec.asked(queries) for name, queries in self.queries}
        return {self.name: codec}


def frontier_methods() -> list[FrontierMethod]:
    """Return all methods, in the order of the tables."""
    turbo = "" if codecs.TurboCodec.installed() else "it needs turbovec: pip install turbovec"

    def lda_opq(size: int) -> Codec:
        return codecs.MappedCodec(codecs.Discriminant(), codecs.RotatedProductCodec(size))

    def fixed(name: str, make: Callable[[int], Codec], **more: Any) -> FrontierMethod:
        return FrontierMethod(name, lambda _, seed: make(seed), sized=False, **more)

    def sized(name: str, make: Callable[[int], Codec], **more: Any) -> FrontierMethod:
        return FrontierMethod(name, lambda size, _: make(size), **more)

    def rabit(bits: int) -> FrontierMethod:
        least = codecs.RaBitCodec.factor_bytes(bits)
        name = f"RaBitQ, {bits} bit" + ("s" if bits > 1 else "")
        return sized(name, lambda size: codecs.RaBitCodec(size, bits), least_bytes=least + bits - 1)

    return [
        fixed(FLOATS, lambda seed: codecs.FloatCodec()),
        fixed(EUCLIDEAN, lambda seed: codecs.FloatCodec("euclidean")),
        fixed("8 bit scalar", lambda seed: codecs.ScalarCodec(8)),
        fixed("4 bit scalar", lambda seed: codecs.ScalarCodec(4)),
        fixed("TurboQuant, 4 bits", lambda seed: codecs.TurboCodec(4), missing=turbo),
        fixed("TurboQuant, 2 bits", lambda seed: codecs.TurboCodec(2), missing=turbo),
        fixed("sign bits", lambda seed: codecs.SignCodec()),
        fixed("sign bits, float queries", lambda seed: codecs.SignCodec(queries="floats")),
        fixed("sign bits, all rescored by int8", lambda seed: codecs.RescoredSignCodec()),
        fixed("LDA floats", _lda_floats, label_sets=False),
        fixed("posterior floats", lambda seed: codecs.MappedCodec(codecs.Posteriors(seed), codecs.FloatCodec("dot"))),
        fixed(
            "floats in the metric of open",
            lambda seed: codecs.MappedCodec(codecs.OpenMetric(seed), codecs.FloatCodec("dot")),
        ),
        fixed(
            "contrastive adapter floats",
            lambda seed: codecs.MappedCodec(codecs.ContrastiveAdapter(seed), codecs.FloatCodec()),
        ),
        fixed(
            "predicted class, then floats",
            lambda seed: codecs.ClassCodec(lambda _: codecs.FloatCodec(), filtered=True, seed=seed),
            label_sets=False,
        ),
        fixed("class number", lambda seed: codecs.ClassCodec(seed=seed), label_sets=False),
        _beside_class("class number + PQ", codecs.ProductCodec),
        _beside_class("class number + LDA-OPQ", lda_opq),
        sized(
            "LDA + PQ",
            lambda size: codecs.MappedCodec(codecs.Discriminant(), codecs.ProductCodec(size)),
            label_sets=False,
            least_rows=CENTROIDS,
        ),
        FrontierMethod(
            "posteriors + PQ",
            lambda size, seed: codecs.MappedCodec(codecs.Posteriors(seed), codecs.ProductCodec(size)),
            least_rows=CENTROIDS,
        ),
        sized("PQ", codecs.ProductCodec, least_rows=CENTROIDS),
        sized("PQ, 4 bits", lambda size: codecs.ProductCodec(size, 4), least_rows=16),
        sized("OPQ", codecs.RotatedProductCodec, least_rows=CENTROIDS),
        rabit(1),
        rabit(2),
        sized(MATRYOSHKA, codecs.CutCodec),
        sized("PCA + sign", codecs.SignCodec),
        *_hashers(),
        FrontierMethod(
            "open without labels",
            lambda size, seed: HasherCodec("open", size, seed, "alike", labels=False),
            queries=(("open without labels", "alike"),),
        ),
    ]


def _lda_floats(seed: int) -> Codec:
    return codecs.MappedCodec(codecs.Discriminant(), codecs.FloatCodec())


def _beside_class(name: str, make: Callable[[int], Codec]) -> FrontierMethod:
    return FrontierMethod(
        name,
        lambda size, seed: codecs.ClassCodec(make, n_bytes=size, seed=seed),
        least_bytes=2,
        least_rows=CENTROIDS,
        label_sets=False,
    )


def _hashers() -> list[FrontierMethod]:
    plain: tuple[tuple[str, str], ...] = (("Hamming", "bits"), ("real-valued queries", "real"))
    asked = dict.fromkeys(("itq", "gsdhp", "auto"), plain)
    asked["open"] = (("alike", "alike"), ("auto", "auto"), ("label", "label"))
    known = method_names()
    return [
        FrontierMethod(
            name,
            lambda size, seed, name=name: HasherCodec(name, size, seed),  # type: ignore[misc]
            queries=tuple((f"{name}, {words}", queries) for words, queries in ways),
        )
        for name, ways in asked.items()
        if name in known
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
class PoolFacts:
    """What of the data decides which protocol and methods fit, and sentences about rows that are treated specially."""

    protocol: str
    label_sets: bool
    unit: bool
    train_rows: int
    labeled_rows: int
    notes: tuple[str, ...] = ()

    @classmethod
    def from_pool(cls, pool: Pool, quick: bool) -> PoolFacts:
        """Look at the pool; raise a PlanError if nothing can be measured on it."""
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
        name = "new"
        if not pool.multilabel:
            try:
                protocol("mixed").splits(pool)
                name = "mixed"
            except ValueError as error:
                notes.append(f"No class is unknown here, because {error}")
        split = protocol(name).splits(pool)[0]
        train = split.train[:QUICK_ROWS] if quick else split.train
        some = pool.features(train[:QUICK_ROWS])
        lengths = np.linalg.norm(some, axis=1)
        unit = bool(np.all(np.abs(lengths - 1) < _LENGTH_SLACK))
        known = (
            pool.labeled[train] if split.hidden is None else pool.labeled[train] & ~np.isin(pool.y[train], split.hidden)
        )
        return cls(name, pool.multilabel, unit, len(train), int(known.sum()), tuple(notes))


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

    def chosen(self, facts: PoolFacts) -> list[FrontierMethod]:
        """Return the methods that the plan asks for and that fit the data."""
        return [method for method in frontier_methods() if self._why_not(method, facts) is None]

    def left_out(self, facts: PoolFacts) -> dict[str, list[str]]:
        """Return what the plan does not measure, by the reason; of some methods only some sizes."""
        missing: dict[str, list[str]] = {}
        for method in frontier_methods():
            reason = self._why_not(method, facts)
            if reason is not None:
                missing.setdefault(reason, []).append(method.name)
            elif too_small := [size for size in self.sizes if method.sized and size <= method.least_bytes]:
                sizes = ", ".join(map(str, too_small))
                reason = f"it needs more than {method.least_bytes} bytes"
                missing.setdefault(reason, []).append(f"{method.name} of {sizes} bytes")
        if facts.label_sets and len(self.budgets) > 1:
            missing["label sets have no budget per class"] = [str(budget) for budget in self.budgets[1:]]
        return missing

    def _why_not(self, method: FrontierMethod, facts: PoolFacts) -> str | None:
        if self.methods and method.name not in self.methods:
            return "not asked for"
        if facts.label_sets and not method.label_sets:
            return "it takes classes, not label sets"
        if method.name == EUCLIDEAN and facts.unit:
            return "rows have unit length, so it is the order by cosine"
        if method.name == MATRYOSHKA and not self.matryoshka:
            return "the first dimensions alone mean something for models made for it only: --matryoshka"
        if facts.train_rows < method.least_rows:
            return (
                f"it learns {method.least_rows} centroids from at least as many rows, and there are "
                f"{facts.train_rows} to train on"
            )
        return method.missing or None


class FrontierPoint(NamedTuple):
    """A way to search the codes of one fit, with all that was measured by name."""

    label: str
    method: FrontierMethod
    size: int
    seed: int
    budget: LabelBudget
    values: dict[str, float]


class Measured(NamedTuple):
    """What a run of a frontier gives.

    ``failed`` has a sentence for each fit that failed, ``lonely`` the numbers of queries without a relevant row.
    """

    points: list[FrontierPoint]
    runs: list[BenchRun]
    failed: list[str]
    facts: PoolFacts
    lonely: list[str]


class Search(NamedTuple):
    """A split, the nearest database rows of its queries by the cosine of the floats, and whose database it has."""

    name: str
    rows: Dataset
    neighbors: IntArray
    whole: bool


def run_frontier(
    plan: FrontierPlan,
    folder: str | Path,
    data_dir: str | None = None,
    *,
    threads: int | None = None,
    on_finished: Finished | None = None,
) -> Measured:
    """Measure all points of a plan. Fits that ``folder``/runs holds are not made again."""
    store = RunStore(Path(folder) / "runs")
    store.make()
    pool = plan.source.pool(data_dir, Path(folder))
    threads = threads or thread_count(None)
    facts = PoolFacts.from_pool(pool, plan.quick)
    jobs = list(_jobs(plan, facts))
    measured = Measured([], [], [], facts, [])
    splits: list[Split] = []
    searches: list[Search] = []
    drawn = -1
    for number, (seed, budget, method, size) in enumerate(jobs):
        if seed != drawn:
            splits, searches, drawn = protocol(facts.protocol).splits(pool, seed), [], seed
            measured.lonely.extend(_lonely_queries(splits, pool))
        definition = _definition(plan, splits, seed, budget, method, size)
        started = time.perf_counter()
        run = store.get(definition.key)
        if run is None or run.error is not None:
            searches = searches or [_search(split, splits[0], pool, plan.quick) for split in splits]
            try:
                with threadpool_limits(threads):
                    views = dict(_views(method, size, seed, budget, searches))
                run = BenchRun(definition, views=views, machine=machine_facts(threads), finished=now())
            except Exception as error:  # one method that fails must not stop the others
                run = BenchRun(
                    definition,
                    error=f"{type(error).__name__}: {one_line(error)}",
                    machine=machine_facts(threads),
                    finished=now(),
                )
            store.save(run, None)
        label = f"{method.name}, {f'{size} bytes, ' if method.sized else ''}seed {seed}"
        label += "" if budget == ALL_LABELS else f", {budget}"
        if run.error is not None:
            measured.failed.append(f"{label}: {run.error}")
        measured.runs.append(run)
        measured.points.extend(
            FrontierPoint(view, method, size, seed, budget, values) for view, values in run.views.items()
        )
        report(PHASE, number + 1, len(jobs))
        if on_finished is not None:
            on_finished(label, time.perf_counter() - started, number + 1, len(jobs))
    return measured


def _jobs(plan: FrontierPlan, facts: PoolFacts) -> Iterator[tuple[int, LabelBudget, FrontierMethod, int]]:
    methods = plan.chosen(facts)
    for seed in range(plan.seeds):
        for budget in plan.budgets[:1] if facts.label_sets else plan.budgets:
            first = budget == plan.budgets[0]
            if not first and (seed >= BUDGET_SEEDS or (budget.absent and facts.protocol != "mixed")):
                continue
            for method in methods:
                asked = first or method.name in (plan.methods or BUDGET_METHODS)
                if asked and (first or method.supervised or budget.absent):
                    if budget.absent and facts.labeled_rows < method.least_rows:
                        continue
                    sizes = plan.sizes if first else (plan.middle_size,)
                    for size in sizes if method.sized else sizes[:1]:
                        if not method.sized or size > method.least_bytes:
                            yield seed, budget, method, size


def _lonely_queries(splits: list[Split], pool: Pool) -> Iterator[str]:
    """Yield how many queries of each split have no relevant row in the database, if there are some."""
    for split in splits:
        asked, stored = pool.y[split.query], pool.y[split.database]
        if pool.multilabel:
            count = int((asked @ stored.any(axis=0).astype(asked.dtype) == 0).sum())
        else:
            count = int((~np.isin(asked, stored)).sum())
        if count:
            yield f"{count} of {len(asked)} queries of seed {split.seed} ({split.name})"


def _definition(
    plan: FrontierPlan, splits: list[Split], seed: int, budget: LabelBudget, method: FrontierMethod, size: int
) -> RunDefinition:
    rows = hashlib.sha256("".join(split.hash for split in splits).encode()).hexdigest()
    settings: dict[str, Any] = {"quick": plan.quick}
    if splits[0].protocol == "new":  # what is searched by label sets is scored by NDCG
        settings |= {"ndcg at": NDCG_AT}
    if method.supervised:
        settings |= {"labels per class": budget.per_class, "wrong labels": budget.wrong}
    if budget.absent:
        settings |= {"absent": True}
    return RunDefinition(
        data=plan.source.title,
        protocol=splits[0].protocol,
        split="frontier",
        split_hash=rows,
        seed=seed,
        label=method.name,
        method=method.name,
        settings=settings,
        n_bits=8 * size if method.sized else 0,
        revision=method.revision,
    )


def _search(split: Split, first: Split, pool: Pool, quick: bool) -> Search:
    rows = split.dataset(pool)
    if quick:
        rows = replace(
            rows,
            train_X=rows.train_X[:QUICK_ROWS],
            train_y=rows.train_y[:QUICK_ROWS],
            query_X=rows.query_X[:QUICK_QUERIES],
            query_y=rows.query_y[:QUICK_QUERIES],
            database_X=rows.database_X[:QUICK_ROWS],
            database_y=rows.database_y[:QUICK_ROWS],
        )
    neighbors = best_places(unit_rows(rows.query_X) @ unit_rows(rows.database_X).T, K)
    return Search(split.name, rows, neighbors, split.database is first.database)


def _views(
    method: FrontierMethod, size: int, seed: int, budget: LabelBudget, searches: list[Search]
) -> Iterator[tuple[str, dict[str, float]]]:
    """Fit the codec, and measure every way to search its codes."""
    first = searches[0].rows
    train_X, train_y = first.train_X, first.train_y
    if budget.absent:
        train_X, train_y = train_X[~np.isnan(train_y)], train_y[~np.isnan(train_y)]
    elif budget != ALL_LABELS:
        train_y = budget.apply(train_y, seed)
    codec = method.make(size, seed)
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
    for label, view in method.views(codec).items():
        values = {**shared, "own row first": own_row_first(view.scores(first.database_X[own], codes), own)}
        for search in searches:
            found = codes if search.whole else codec.encode(search.rows.database_X)
            values |= {f"{name} {search.name}": value for name, value in _scores(view, search, found).items()}
        yield label, values


def _scores(codec: Codec, search: Search, codes: PackedCodes) -> dict[str, float]:
    """Return MAP of the whole ranking, NDCG@50, and recall@10 of the float neighbors."""
    rows = search.rows
    scores = codec.scores(rows.query_X, codes)
    found = metrics.evaluate_scores(scores, rows.query_y, rows.database_y, at=None, ndcg_at=NDCG_AT)
    return {"map": found.map, "ndcg": found.ndcg, "recall": neighbor_recall(scores, search.neighbors)}


def _seconds_per_row(work: Callable[[NDArray[Any]], Any], rows: NDArray[Any]) -> float:
    """Return the shortest time per row of several calls, because other work on the machine only makes calls longer."""
    best, spent = float("inf"), 0.0
    while spent < _LEAST_SECONDS or best == float("inf"):
        started = time.perf_counter()
        work(rows)
        took = time.perf_counter() - started
        best, spent = min(best, took), spent + took
    return best / len(rows)
