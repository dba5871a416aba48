"""The page of a frontier: the picture of accuracy against bytes, the table, and paired comparisons over the seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hashlearn.bench.frontier import (
    NDCG_AT,
    QUICK_QUERIES,
    QUICK_ROWS,
    FrontierPlan,
    FrontierTask,
    LabelBudget,
    Measured,
    frontier_methods,
)
from hashlearn.bench.plots import LinePlot, Panels, svg
from hashlearn.bench.report import Section, score_lines, write_report, write_text
from hashlearn.bench.scoring import FLOAT_COSINE
from hashlearn.bench.store import BenchRun
from hashlearn.bench.tables import CONFIDENCE, NOTHING, Mean, SeedRow, shown_mean

# What a table has of each row, by the name of the value, and the heading of the column.
CLASSES = {
    "map known": "MAP known",
    "map unknown": "MAP unknown",
    "map unknown-alone": "MAP unknown, searched alone",
    "recall known": "recall@10 known",
    "recall unknown": "recall@10 unknown",
}
SETS = {"ndcg new": f"NDCG@{NDCG_AT}", "map new": "MAP", "recall new": "recall@10"}
OWN = {"own row first": "own row first", "distinct": "distinct codes"}
# Lines of the picture. The table has all methods; with all of them, a picture could not be read.
_DRAWN = (
    "open, auto", "open, alike", "open, label", "auto, real-valued queries", "gsdhp, real-valued queries",
    "class number + LDA-OPQ", "class number + PQ", "LDA + PQ", "PQ", "OPQ",
)  # fmt: skip
_TICKS = [2**power for power in range(12)]
_DRAWS = {
    "new": "Training rows, database and queries are separate draws (protocol new), and all classes have labels: label "
    "sets, and fewer than three classes, have no classes whose labels could be hidden.",
    "mixed": "Training rows, database and queries are separate draws of all classes (protocol mixed). A third of the "
    "classes has no labels in training; queries of these are 'unknown'. Both kinds search one database of all classes. "
    "'Searched alone' means: unknown queries among the rows of unknown classes only.",
}
_ABOUT_THE_TABLE = (
    "Bytes count everything that is stored per row: norms, factors, class numbers and second codes. Ids are left "
    "out, because every method needs them. Codebooks and models, stored once, are in the column 'model kB'.",
    "MAP is over the whole ranking and by labels; recall@10 is of the ten neighbors by the cosine of the floats. "
    "'Own row first' is how often a stored row that is searched for comes first, 'distinct codes' the number of "
    "different codes over the number of rows. Equal scores count at their expected value. Means ± sample deviation "
    "over seeds; a seed draws the split and is the method's random_state.",
)


@dataclass(frozen=True)
class FrontierRow(SeedRow):
    """A way to search at a number of bytes and a label budget. ``size`` is None for methods that cannot choose it."""

    label: str
    size: int | None
    supervised: bool
    budget: LabelBudget

    @property
    def bytes(self) -> int:
        # Where classes decide the bytes, seeds may differ: a rare class is not in every draw.
        return int(max(values["bytes"] or 0 for values in self.by_seed.values()))

    def sure(self, name: str) -> Mean:
        """Return mean and deviation of a value that all rows have."""
        found = self.mean(name)
        assert found is not None
        return found

    def least(self, name: str) -> float:
        return min(values[name] or 0.0 for values in self.by_seed.values())


def frontier_rows(fits: Sequence[tuple[FrontierTask, BenchRun]]) -> list[FrontierRow]:
    """Return one row for each way to search, number of bytes and label budget, in the order of the fits.

    With few features, several sizes that were asked for give the same number of bytes: the first of them counts.
    """
    rows: dict[tuple[str, float | None, LabelBudget], FrontierRow] = {}
    for task, run in fits:
        size = task.size if task.method.sized else None
        for label, values in run.views.items():
            key = (label, size and values["bytes"], task.budget)
            row = rows.setdefault(key, FrontierRow({}, label, size, task.method.supervised, task.budget))
            row.by_seed.setdefault(run.definition.seed, dict(values))
    return list(rows.values())


def columns_of(rows: Sequence[FrontierRow]) -> dict[str, str]:
    """Return the scores that rows have: of known and unknown classes, or of label sets."""
    return CLASSES if "map known" in next(iter(rows[0].by_seed.values())) else SETS


def write_frontier(
    folder: str | Path, title: str, plan: FrontierPlan, measured: Measured, against: str = FLOAT_COSINE
) -> list[Path]:
    """Write report.md, .csv, .json and .html, and the picture as frontier.svg."""
    rows = frontier_rows(measured.fits)
    main = [row for row in rows if row.budget == plan.budgets[0]]
    picture = frontier_picture(title, main)
    best = best_section(main, plan.sizes)
    best.plots = [picture]
    sections = [best, table_section(main, frontier_notes(plan, measured)), difference_section(main, against)]
    if len(plan.budgets) > 1 and not measured.label_sets:
        sections.append(budget_section(rows, plan.budgets, plan.middle_size))
    paths = write_report(folder, f"Accuracy per byte: {title}", sections, measured.runs)
    file = Path(folder) / "frontier.svg"
    write_text(file, svg(picture))
    return [*paths, file]


def frontier_picture(title: str, rows: Sequence[FrontierRow]) -> Panels:
    """Return accuracy against bytes on a log axis, one panel per kind of query; bars are deviations over seeds."""
    names = columns_of(rows)
    order = {label: place for place, label in enumerate(_DRAWN)}
    drawn = sorted((row for row in rows if row.label in order), key=lambda row: (order[row.label], row.bytes))
    widths = [row.bytes for row in drawn or rows]
    panels = []
    for name in list(names)[:2]:
        lines = score_lines(drawn, name, lambda row: row.bytes, lambda row: row.label)
        spreads: dict[str, list[float]] = {}
        for row in drawn if max(len(row.by_seed) for row in rows) > 1 else ():
            spreads.setdefault(row.label, []).append(row.sure(name).deviation or 0.0)
        for row in rows:
            if row.label == FLOAT_COSINE:  # a level line, because the others are compared with it at every size
                score = row.sure(name).mean
                lines[f"{FLOAT_COSINE}, {row.bytes} bytes"] = ([min(widths), max(widths)], [score, score])
        ticks = [tick for tick in _TICKS if min(widths) / 2 < tick <= max(widths)]
        y = names[name].split()[0]
        panels.append(LinePlot(names[name], "bytes per row", y, lines, log_x=True, ticks=ticks, spreads=spreads))
    return Panels(title, tuple(panels))


def table_section(rows: Sequence[FrontierRow], notes: Sequence[str]) -> Section:
    """Make the table of all rows, those that cannot choose their bytes first."""
    names = columns_of(rows) | OWN
    section = Section("Accuracy against bytes", [*notes, *_ABOUT_THE_TABLE])
    section.columns = ["method", "bytes", *names.values(), "fit s", "encode µs", "model kB", "seeds"]
    first = next(iter(names))
    for row in sorted(rows, key=lambda row: (row.size is not None, row.bytes, -row.sure(first).mean)):
        means = {name: row.mean(name) for name in names}
        times = [f"{row.least('fit seconds'):.1f}", f"{1e6 * row.least('encode seconds'):.1f}"]
        model, seeds = f"{row.sure('model bytes').mean / 1e3:.0f}", len(row.by_seed)
        cells = [shown_mean(mean, ".3f") for mean in means.values()]
        section.rows.append([row.label, str(row.bytes), *cells, *times, model, str(seeds)])
        record = {"method": row.label, "supervised": row.supervised, "bytes": row.bytes}
        for name, mean in means.items():
            record[name], record[f"{name} deviation"] = mean or (None, None)
        record |= {name: row.least(name) for name in ("fit seconds", "encode seconds", "model bytes")}
        section.records.append(record | {"seeds": seeds})
    return section


def best_section(rows: Sequence[FrontierRow], sizes: Sequence[int]) -> Section:
    """Make the table of the row with the highest mean at each size."""
    names = columns_of(rows)
    section = Section("Best at each size", columns=["bytes", *names.values()])
    seeds = max(len(row.by_seed) for row in rows)
    for size in sizes:
        allowed = [row for row in rows if row.bytes <= size and len(row.by_seed) == seeds]
        cells = [str(size)]
        for name in names:
            scored = [(row.sure(name).mean, f"{row.label} ({row.bytes} B)") for row in allowed]
            mean, best = max(scored, key=lambda one: one[0], default=(0.0, NOTHING))
            cells.append(f"{best} {mean:.3f}" if scored else NOTHING)
        section.rows.append(cells)
    section.notes.append(
        "The highest mean among all rows of at most this many bytes that have all seeds. A search has one code and one "
        "kind of query, so no method has all the best cells of a line unless it is named in all of them."
    )
    return section


def difference_section(rows: Sequence[FrontierRow], against: str) -> Section:
    """Make the table of differences to the row ``against`` over the seeds that both have."""
    names = columns_of(rows)
    section = Section(f"Differences to {against}")
    references = [row for row in rows if row.label == against]
    if not references:
        section.notes.append(f"{against} was not measured.")
        return section
    section.columns = ["method", "bytes", *names.values()]
    for row in rows:
        # A method with several sizes is compared at the same size, or at the first size if it has one only.
        other = next((one for one in references if one.bytes == row.bytes), references[0])
        apart = len(references) > 1 and other.bytes != row.bytes
        pairs = {name: pair for name in names if (pair := row.minus(other, name)) is not None}
        if row is other or apart or not pairs:
            continue
        section.rows.append([row.label, str(row.bytes), *map(str, pairs.values())])
        record = {"method": row.label, "bytes": row.bytes, "against": against}
        for name, pair in pairs.items():
            record |= {f"{name} difference": pair.mean, f"{name} interval": pair.half}
        section.records.append(record)
    section.notes.append(
        f"Score of the method minus that of {against} on the same seeds, with the half width of the {CONFIDENCE:.0%} "
        "interval for paired samples. A star marks intervals without 0. With one seed there is no interval."
    )
    return section


def budget_section(rows: Sequence[FrontierRow], budgets: Sequence[LabelBudget], size: int) -> Section:
    """Compare the budgets on the seeds that all of them have."""
    columns = columns_of(rows)
    names = list(columns)[:2]
    chosen: dict[str, dict[LabelBudget, FrontierRow]] = {}
    for row in rows:
        if row.size in (None, size):
            chosen.setdefault(row.label, {})[row.budget] = row
    chosen = {label: mine for label, mine in chosen.items() if set(mine) > {budgets[0]}}
    budgeted = [row for mine in chosen.values() for row in mine.values() if row.budget != budgets[0]]
    seeds = sorted({seed for row in budgeted for seed in row.by_seed})
    headings = " / ".join(columns[name] for name in names)
    section = Section(f"Label budgets, {size} bytes", [f"{headings}, {len(seeds)} seeds."])
    budgets = [budgets[0], *(budget for budget in budgets if any(row.budget == budget for row in budgeted))]
    section.columns = ["method", *map(str, budgets)]
    for label, mine in chosen.items():
        cells = []
        for budget in budgets:
            # Labels do not change the other methods; rows that are absent from training do.
            found = mine.get(budget if budget.absent or mine[budgets[0]].supervised else budgets[0])
            if found is None or not set(seeds) <= set(found.by_seed):
                cells.append(NOTHING)
                continue
            shared = SeedRow({seed: found.by_seed[seed] for seed in seeds})
            means = {name: mean and mean.mean for name in columns if [mean := shared.mean(name)]}
            cells.append(" / ".join(NOTHING if means[name] is None else f"{means[name]:.3f}" for name in names))
            section.records.append({"method": label, "bytes": found.bytes, "budget": str(budget), **means})
        section.rows.append([label, *cells])
    return section


def frontier_notes(plan: FrontierPlan, measured: Measured) -> list[str]:
    """Return sentences about how a frontier was made, and what it leaves out."""
    notes = [f"Data: {plan.source.title}. {_DRAWS[measured.protocol]}"]
    if plan.quick:
        notes.append(
            f"Quick version: at most {QUICK_ROWS:,} training and database rows and {QUICK_QUERIES} queries of each "
            "kind. Its numbers differ from those of the whole frontier."
        )
    chosen = {method.name for method in plan.chosen}
    left_out = {"not asked for": [method.name for method in frontier_methods() if method.name not in chosen]}
    if measured.label_sets:
        left_out["label sets have no budget per class"] = [str(budget) for budget in plan.budgets[1:]]
    for task, run in measured.fits:
        if run.unsuited:
            budget = "" if task.budget == plan.budgets[0] else f", {task.budget}"
            left_out.setdefault(str(run.error).partition(": ")[2].rstrip("."), []).append(task.method.name + budget)
    reasons = {reason: "; ".join(dict.fromkeys(names)) for reason, names in left_out.items() if names}
    notes += [*measured.notes, *(f"Left out: {names} ({reason})." for reason, names in reasons.items())]
    return [*notes, *(f"Failed: {run.definition}: {run.error}" for run in measured.failed)]
