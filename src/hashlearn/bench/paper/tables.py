"""The paper's tables and figures as plans: the data, protocol, methods, bit lengths and measure of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hashlearn.bench.paper import numbers
from hashlearn.bench.paper.numbers import PublishedScores
from hashlearn.bench.plan import BenchPlan, PlanError, Variant
from hashlearn.data.catalog import DATA_SETS, data_set, here
from hashlearn.methods import DEEP_METHODS, METHODS, find_method, method_names
from hashlearn.metrics import Rules
from hashlearn.pairwise.gsdhp import GSDHP

BITS = (8, 16, 32, 64)
DEEP_RANKED_BITS, DEEP_BALL_BITS = (12, 24, 32, 48), (16, 32, 48, 64)
FIGURE_BITS = (8, 16, 32, 64, 96, 128)
# The end of a label whose row is run at our defaults instead of the paper's settings.
DEFAULTS = ", defaults"
POSITIONS = (5, 10, 20, 50, 100, 200)
BATCHES, BETAS = (1, 10, 100, 1000), (0.0, 1.0, 10.0, 1e2, 1e3, 1e4, 1e5)
# The number of training rows in Figure 1, all of which are anchors.
_FIGURE_1_ROWS = 5000
_FIGURE_1_BATCHES, _FIGURE_1_ROUNDS = (10, 100, 1000, 5000), (1, 2, 5, 10, 20)
STAND_INS = {"nuswide": "corel16k", "coco": "coco18"}
TITLES = {"cifar10-gist": "CIFAR-10 GIST", "nuswide": "NUS-WIDE", "coco": "COCO", "coco18": "COCO-18"} | {
    "corel16k": "Corel16k",
    "coco18-without-person": "COCO-18 without person",
    "cifar10-lite2": "CIFAR-10 EfficientNet-Lite2",
}

_DISCRETE = ("sdhp", "gsdhp", "ksh", "cca-itq", "sdh", "cosdish", "ksdh", "adgh")
# Rows of the paper whose name is not a method of ours, because they have another loss or function.
_SETTINGS: dict[str, tuple[str, dict[str, Any]]] = {
    "gsdhp-bre": ("gsdhp", {"loss": "bre-released"}),
    "gsdhp-hinge": ("gsdhp", {"loss": "hinge"}),
    "gsdhp+trees": ("gsdhp", {"function": "trees"}),
    "gsdhp-bre+trees": ("gsdhp", {"loss": "bre-released", "function": "trees"}),
    "gsdhp-hinge+trees": ("gsdhp", {"loss": "hinge", "function": "trees"}),
    "fasth-ksh": ("fasth", {"loss": "ksh"}),
    "fasth-bre": ("fasth", {"loss": "bre"}),
    "fasth-hinge": ("fasth", {"loss": "hinge"}),
    "ksh-large": ("ksh", {"n_samples": None, "n_landmarks": 1000, "max_iter": 40}),
    "cca-itq-rbf": ("cca-itq", {"kernel": "rbf"}),
}
_OTHERS = (*METHODS, "gsdhp-bre", "gsdhp-hinge", "gsdhp+trees", "ksh-large", "cca-itq-rbf")
# Variants that are slow although their method is not.
_SLOW_VARIANTS = {"ksh-large", "gsdhp+trees"}


@dataclass(frozen=True)
class PaperPart:
    """The runs of one split of a table or figure, and the paper's numbers for it.

    ``others`` are methods that the paper has no row for.
    """

    protocol: str
    data: str
    variants: tuple[Variant, ...]
    bits: tuple[int, ...]
    score: str
    paper: Mapping[str, PublishedScores] = field(default_factory=dict)
    others: tuple[Variant, ...] = ()


@dataclass(frozen=True)
class PaperItem:
    """A table or figure. ``drawn`` names further plots; ``deep`` has the paper's numbers of Tables 3 and 5.

    ``tabled`` says whether there is a table with a cell for each run; figures of many settings have plots only.
    """

    name: str
    about: str
    rules: Rules
    parts: tuple[PaperPart, ...] = ()
    drawn: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    tabled: bool = True
    deep: numbers.DeepScores = field(default_factory=dict)


def variant(label: str) -> Variant:
    """Return the variant of a row of the paper, by its name in this module."""
    method, settings = _SETTINGS.get(label, (label, {}))
    return Variant(label, method, _printed(method) | settings)


def with_defaults(variants: Sequence[Variant]) -> tuple[Variant, ...]:
    """Return variants, each followed by the same row at our defaults if these are not the paper's settings."""
    found: list[Variant] = []
    for one in variants:
        found.append(one)
        method, settings = _SETTINGS.get(one.label, (one.label, {}))
        if _printed(method):
            found.append(Variant(f"{one.label}{DEFAULTS}", method, settings))
    return tuple(found)


def _printed(method: str) -> dict[str, Any]:
    """Return the settings of the paper for a method whose defaults are others."""
    return {"gsdhp": GSDHP.PAPER, "cca-itq": {"ridge": 1e-4}}.get(method, {})


def remark(label: str) -> str:
    """Return a remark on how a row of ours differs from the paper's, or an empty string."""
    if label in numbers.VARIANT_REMARKS:
        return numbers.VARIANT_REMARKS[label]
    return find_method(label).info.remark if label in method_names() else ""


def _table(
    table: Mapping[str, Mapping[str, PublishedScores]], data: str, score: str, others: Sequence[str] = ()
) -> tuple[PaperPart, ...]:
    parts = []
    for protocol, rows in table.items():
        variants = with_defaults(tuple(map(variant, rows)))
        # Methods without a row in the paper that are fast enough and can learn from such labels.
        fitting = tuple(one for name in others if name not in rows and _fits(one := variant(name), protocol, score))
        parts.append(PaperPart(protocol, data, variants, BITS, score, rows, fitting))
    # The same methods on a database that training never saw, for which the paper has no numbers.
    return (*parts, replace(parts[0], protocol="new", paper={}))


def _fits(one: Variant, protocol: str, score: str) -> bool:
    info = METHODS[one.method].info
    # The paper does not run slow methods on all rows either.
    too_slow = protocol.endswith("-full") and (one.label in _SLOW_VARIANTS or info.slow)
    return not too_slow and (info.multilabel or score != "ndcg")


def _curves(protocol: str, data: str, score: str, methods: Sequence[str]) -> tuple[PaperPart, ...]:
    return (PaperPart(protocol, data, tuple(map(variant, methods)), FIGURE_BITS, score),)


def _over_batches(
    batches: Sequence[int], word: str, parameter: str, values: Sequence[float], **shared: int
) -> tuple[Variant, ...]:
    """Return both algorithms over batch sizes and the values of another parameter, which labels call ``word``."""
    return tuple(
        Variant(
            f"{method} batch {batch} {word} {value:g}",
            method,
            _printed(method) | shared | {"solver__batch_size": batch, parameter: value},
        )
        for method in ("sdhp", "gsdhp")
        for batch in batches
        for value in values
    )


def _deep_item(name: str, about: str, protocol: str, data: str, paper: numbers.DeepScores) -> PaperItem:
    """Return Table 3 or 5 with heads trained on features of another network: the paper's weights are not available."""
    bits = tuple(sorted({*DEEP_RANKED_BITS, *DEEP_BALL_BITS}))
    variants = tuple(variant(label) for label in DEEP_METHODS)
    notes = (
        "Not the paper's setting: a head trained on the features of one network, not AlexNet trained end to end, "
        "and the database is hashed.",
        "Strict: every query counts, by Hamming distance, ties at their expected value. Official: as the evaluators "
        "released with DHN and DCH, which drop queries whose ball holds nothing relevant and order the ball by real "
        "outputs.",
    )
    rules = Rules.paper(at=5000)
    return PaperItem(name, about, rules, (PaperPart(protocol, data, variants, bits, "map"),), notes=notes, deep=paper)


def _tables() -> tuple[PaperItem, ...]:
    paper = Rules.paper()
    first = _table(numbers.TABLE_1, "cifar10-gist", "map", _OTHERS)
    second = _table(numbers.TABLE_2, "cifar10-gist", "map")
    fourth = _table(numbers.TABLE_4, "nuswide", "ndcg", _OTHERS)
    sixth = _table(numbers.TABLE_6, "coco", "ndcg", _OTHERS)
    return (
        PaperItem("table 1", "MAP@500 of discrete and ranking methods", paper, first),
        PaperItem(
            "table 2",
            "MAP@1000 of losses and functions",
            Rules.paper(at=1000),
            second,
            notes=("The paper's numbers are means of ten draws, which --seeds 10 makes too.",),
        ),
        _deep_item("table 3", "deep codes on CIFAR-10", "cifar10-deep", "cifar10-lite2", numbers.TABLE_3),
        PaperItem("table 4", "NDCG@50 of label sets", paper, fourth),
        _deep_item("table 5", "deep codes on label sets", "label-sets-deep", "coco18", numbers.TABLE_5),
        PaperItem("table 6", "NDCG@50 of label sets", paper, sixth),
    )


def _figures() -> tuple[PaperItem, ...]:
    paper = Rules.paper()
    # ADGH cannot learn from label sets.
    multi = tuple(name for name in _DISCRETE if name != "adgh")
    cifar, nuswide = ("cifar10-1k", "cifar10-gist", "map"), ("nuswide-10k", "nuswide", "ndcg")
    coco = ("coco-10k", "coco", "ndcg")
    # With several starts, the curve would mix several descents.
    single = {"n_anchors": _FIGURE_1_ROWS, "solver__n_starts": 1}
    rounds = _over_batches(_FIGURE_1_BATCHES, "rounds", "solver__max_iter", _FIGURE_1_ROUNDS, **single)
    grid = _over_batches(BATCHES, "beta", "solver__beta", BETAS)
    of_sets, drawn = "ACG within radius 2 and NDCG", ("acg", "positions")
    return (
        PaperItem(
            "figure 1",
            "convergence and batch size",
            paper,
            (PaperPart("cifar10-fig1", "cifar10-gist", rounds, (64,), "map"),),
            ("convergence", "rounds"),
            ("At 64 bits; our notes on the paper do not give its number of bits. All training rows are anchors.",),
            tabled=False,
        ),
        PaperItem(
            "figure 2",
            "precision and recall within Hamming radius 2",
            paper,
            _curves(*cifar, _DISCRETE),
            ("radius_precision", "radius_recall", "curve"),
        ),
        PaperItem("figure 3", of_sets, paper, _curves(*nuswide, multi), drawn),
        PaperItem("figure 4", of_sets, paper, _curves(*coco, multi), drawn),
        PaperItem(
            "figure 5",
            "batch size and β",
            paper,
            tuple(PaperPart(name, data, grid, (16,), score) for name, data, score in (cifar, nuswide, coco)),
            ("heat",),
            ("Batches are drawn from the 1,000 anchors, so the paper's 5,000 and 10,000 would be the same as 1,000.",),
            tabled=False,
        ),
    )


def items() -> dict[str, PaperItem]:
    """Return all tables and figures by name, ``table 1`` to ``figure 5``."""
    return {item.name: item for item in (*_tables(), *_figures())}


def chosen(tables: Sequence[int], figures: Sequence[int]) -> list[PaperItem]:
    """Return the chosen tables and figures in the paper's order, or all if none is chosen."""
    known = items()
    wanted = [f"table {number}" for number in tables] + [f"figure {number}" for number in figures]
    for name in wanted:
        if name not in known:
            raise PlanError(f"The paper has tables 1 to 6 and figures 1 to 5. Got {name} instead.")
    return [item for name, item in known.items() if name in wanted or not wanted]


def data_for(part: PaperPart, data_dir: str | None) -> tuple[str | None, str]:
    """Return the data set to use and its title, which names a stand-in; or None and why there is no data."""
    title = TITLES.get(part.data, part.data)
    if here(data_set(part.data), data_dir):
        return part.data, title
    other = STAND_INS.get(part.data)
    if other is not None and here(data_set(other), data_dir):
        return other, f"{TITLES[other]} (stand-in for {title})"
    needed = DATA_SETS[part.data].layout + (f", or as a stand-in {DATA_SETS[other].layout}" if other else "")
    return None, f"the data of {title} is not here ({needed})"


def part_plan(
    part: PaperPart,
    data: str,
    seeds: int,
    methods: Sequence[str] | None = None,
    bits: Sequence[int] | None = None,
) -> BenchPlan | None:
    """Return the plan of a part, restricted to some methods and bit lengths; None if nothing is left."""
    variants = tuple(v for v in part.variants if methods is None or v.label in methods or v.method in methods)
    variants += tuple(v for v in part.others if methods is None or v.label in methods)
    lengths = tuple(length for length in part.bits if bits is None or length in bits)
    return BenchPlan(data, part.protocol, variants, lengths, tuple(range(seeds))) if variants and lengths else None
