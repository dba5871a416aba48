"""Accuracy per byte: hashers, quantizers, what a skeptic builds from labels, and floats, in one mixed database.

The database holds rows of known classes and of classes without labels. Queries of both are scored separately, and so
is everything that labels alone cannot give: the neighbors by the floats, the stored row itself, distinct codes.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from hashlearn import codecs, metrics
from hashlearn.bench.plan import PlanError
from hashlearn.bench.store import BenchRun, RunDefinition, RunStore, machine_facts, now
from hashlearn.codecs import Codec, HasherCodec
from hashlearn.codecs.base import best_places, unit_rows
from hashlearn.data.own import DataSource
from hashlearn.data.pool import Dataset, Pool
from hashlearn.data.protocols import Split, protocol
from hashlearn.methods import find_method, method_names
from hashlearn.parallel import thread_count
from hashlearn.progress import report
from hashlearn.typing import Float32Array, IntArray, PackedCodes

PHASE = "frontier"
FLOATS = "float cosine"
QUICK_ROWS, QUICK_QUERIES = 3000, 300
K = 10
# Stored rows that are searched for as queries, to see whether they find themselves first.
_OWN_ROWS = 500
_LEAST_SECONDS = 0.05
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
    label_sets: bool = True
    queries: tuple[tuple[str, str], ...] = ()
    missing: str = ""

    @property
    def supervised(self) -> bool:
        """Whether labels change the codec."""
        codec = self.make(self.least_bytes + 2, 0)
        return bool(find_method(codec.method).info.supervised if isinstance(codec, HasherCodec) else codec.supervised)

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
    lda_opq: Callable[[int], Codec] = lambda size: codecs.MappedCodec(  # noqa: E731
        codecs.Discriminant(), codecs.RotatedProductCodec(size)
    )

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
        fixed("8 bit scalar", lambda seed: codecs.ScalarCodec(8)),
        fixed("4 bit scalar", lambda seed: codecs.ScalarCodec(4)),
        fixed("TurboQuant, 4 bits", lambda seed: codecs.TurboCodec(4), missing=turbo),
        fixed("TurboQuant, 2 bits", lambda seed: codecs.TurboCodec(2), missing=turbo),
        fixed("sign bits", lambda seed: codecs.SignCodec()),
        fixed("sign bits, float queries", lambda seed: codecs.SignCodec(queries="floats")),
        fixed("sign bits, all rescored by int8", _rescored_signs),
        fixed("LDA floats", _lda_floats, label_sets=False),
        fixed("posterior floats", lambda seed: codecs.MappedCodec(codecs.Posteriors(seed), codecs.FloatCodec("dot"))),
        fixed(
            "contrastive adapter floats",
            lambda seed: codecs.MappedCodec(codecs.ContrastiveAdapter(seed), codecs.FloatCodec()),
        ),
        fixed(
            "predicted class, then floats",
            lambda seed: codecs.ClassCodec(codecs.FloatCodec(), filtered=True, seed=seed),
            label_sets=False,
        ),
        fixed("class number", lambda seed: codecs.ClassCodec(seed=seed), label_sets=False),
        _beside_class("class number + PQ", codecs.ProductCodec),
        _beside_class("class number + LDA-OPQ", lda_opq),
        sized(
            "LDA + PQ",
            lambda size: codecs.MappedCodec(codecs.Discriminant(), codecs.ProductCodec(size)),
            label_sets=False,
        ),
        FrontierMethod(
            "posteriors + PQ",
            lambda size, seed: codecs.MappedCodec(codecs.Posteriors(seed), codecs.ProductCodec(size)),
        ),
        sized("PQ", codecs.ProductCodec),
        sized("PQ, 4 bits", lambda size: codecs.ProductCodec(size, 4)),
        sized("OPQ", codecs.RotatedProductCodec),
        rabit(1),
        rabit(2),
        sized("PCA + sign", codecs.SignCodec),
        *_hashers(),
    ]


def _rescored_signs(seed: int) -> Codec:
    return codecs.RescoredCodec(codecs.SignCodec(), codecs.ScalarCodec(8))


def _lda_floats(seed: int) -> Codec:
    return codecs.MappedCodec(codecs.Discriminant(), codecs.FloatCodec())


def _beside_class(name: str, make: Callable[[int], Codec]) -> FrontierMethod:
    return FrontierMethod(
        name, lambda size, seed: codecs.ClassCodec(make(size - 1), seed=seed), least_bytes=1, label_sets=False
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
    """What is left of the training labels: at most ``per_class`` of each class, a share ``wrong`` of them at random."""

    per_class: int | None = None
    wrong: float = 0.0

    def __str__(self) -> str:
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
        The label budgets; methods without labels are measured once. Label sets have the full budget only.
    """

    source: DataSource
    sizes: tuple[int, ...] = (8, 16, 32)
    seeds: int = 5
    quick: bool = False
    methods: tuple[str, ...] = ()
    budgets: tuple[LabelBudget, ...] = (ALL_LABELS,)

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

    def chosen(self, multilabel: bool) -> list[FrontierMethod]:
        """Return the methods that the plan asks for and that can learn from such labels."""
        return [method for method in frontier_methods() if self._why_not(method, multilabel) is None]

    def left_out(self, multilabel: bool) -> dict[str, list[str]]:
        """Return what the plan does not measure, by the reason; of some methods only some sizes."""
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
        if self.methods and method.name not in self.methods:
            return "not asked for"
        if multilabel and not method.label_sets:
            return "it takes classes, not label sets"
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
    """What a run of a frontier gives; ``failed`` has a sentence for each fit that failed."""

    points: list[FrontierPoint]
    runs: list[BenchRun]
    failed: list[str]


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
    jobs = list(_jobs(plan, pool))
    measured = Measured([], [], [])
    splits: list[Split] = []
    searches: list[Search] = []
    drawn = -1
    for number, (seed, budget, method, size) in enumerate(jobs):
        if seed != drawn:
            splits, searches, drawn = protocol("new" if pool.multilabel else "mixed").splits(pool, seed), [], seed
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
                run = BenchRun(definition, error=_reason(error), machine=machine_facts(threads), finished=now())
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


def _jobs(plan: FrontierPlan, pool: Pool) -> Iterator[tuple[int, LabelBudget, FrontierMethod, int]]:
    for seed in range(plan.seeds):
        for budget in plan.budgets[:1] if pool.multilabel else plan.budgets:
            for method in plan.chosen(pool.multilabel):
                if budget == plan.budgets[0] or method.supervised:
                    for size in plan.sizes if method.sized else plan.sizes[:1]:
                        if not method.sized or size > method.least_bytes:
                            yield seed, budget, method, size


def _definition(
    plan: FrontierPlan, splits: list[Split], seed: int, budget: LabelBudget, method: FrontierMethod, size: int
) -> RunDefinition:
    rows = hashlib.sha256("".join(split.hash for split in splits).encode()).hexdigest()
    settings: dict[str, Any] = {"quick": plan.quick}
    if method.supervised:
        settings |= {"labels per class": budget.per_class, "wrong labels": budget.wrong}
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
    train_y = first.train_y if budget == ALL_LABELS else budget.apply(first.train_y, seed)
    codec = method.make(size, seed)
    started = time.perf_counter()
    codec.fit(first.train_X, train_y)
    fit_seconds = time.perf_counter() - started
    codes = codec.encode(first.database_X)
    shared = {
        "bytes": codec.bytes_per_row,
        "model bytes": codec.model_bytes,
        "fit seconds": fit_seconds,
        "encode seconds": _seconds_per_row(codec.encode, first.query_X),
        "distinct": len(np.unique(codes, axis=0)) / len(codes),
    }
    own = np.random.default_rng(seed).permutation(len(codes))[:_OWN_ROWS]
    for label, view in method.views(codec).items():
        values = {**shared, "own row first": own_row_first(view.scores(first.database_X[own], codes), own)}
        for search in searches:
            found = codes if search.whole else codec.encode(search.rows.database_X)
            values |= {f"{name} {search.name}": value for name, value in _scores(view, search, found).items()}
        yield label, values


def _scores(codec: Codec, search: Search, codes: PackedCodes) -> dict[str, float]:
    """Return MAP of the whole ranking, NDCG@10, and recall@10 of the float neighbors."""
    rows = search.rows
    scores = codec.scores(rows.query_X, codes)
    found = metrics.evaluate_scores(scores, rows.query_y, rows.database_y, at=None, ndcg_at=K)
    return {"map": found.map, "ndcg": found.ndcg, "recall": neighbor_recall(scores, search.neighbors)}


def neighbor_recall(scores: Float32Array, neighbors: IntArray) -> float:
    """Return the mean share of the true neighbors among the first rows, expected over random orders of equal scores.

    >>> neighbor_recall(np.array([[3.0, 1.0, 1.0, 1.0]]), np.array([[0, 1]]))
    0.6666666666666666
    """
    count = neighbors.shape[1]
    last = -np.partition(-scores, count - 1, axis=1)[:, [count - 1]]
    above, tied = scores > last, scores == last
    # Some of the tied rows are among the first, each with the same chance.
    chance = (count - above.sum(axis=1)) / tied.sum(axis=1)
    true_above = np.take_along_axis(above, neighbors, axis=1).sum(axis=1)
    true_tied = np.take_along_axis(tied, neighbors, axis=1).sum(axis=1)
    return float(np.mean((true_above + chance * true_tied) / count))


def own_row_first(scores: Float32Array, own: IntArray) -> float:
    """Return how often the stored row that is the query comes first, expected over random orders of equal scores.

    >>> own_row_first(np.array([[2.0, 2.0, 1.0], [0.0, 3.0, 1.0]]), np.array([0, 1]))
    0.75
    """
    best = scores.max(axis=1)
    is_best = scores[np.arange(len(own)), own] == best
    return float(np.mean(is_best / (scores == best[:, None]).sum(axis=1)))


def _seconds_per_row(work: Callable[[NDArray[Any]], Any], rows: NDArray[Any]) -> float:
    """Return the shortest time per row of several calls, because other work on the machine only makes calls longer."""
    best, spent = float("inf"), 0.0
    while spent < _LEAST_SECONDS or best == float("inf"):
        started = time.perf_counter()
        work(rows)
        took = time.perf_counter() - started
        best, spent = min(best, took), spent + took
    return best / len(rows)


def _reason(error: Exception) -> str:
    """Return why a fit failed, without the place in faiss's source where it noticed."""
    few = re.search(
        r"training points \((\d+)\) should be at least as large as number of clusters \((\d+)\)", str(error)
    )
    if few is not None:
        return f"it learns {few[2]} centroids from at least as many rows, and there are {few[1]} to train on."
    return f"{type(error).__name__}: {' '.join(str(error).split())}"
