"""The page of a frontier: the picture of accuracy against bytes, the table, and paired comparisons over the seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hashlearn.bench.frontier import (
    FLOATS,
    NDCG_AT,
    QUICK_QUERIES,
    QUICK_ROWS,
    FrontierPlan,
    FrontierPoint,
    LabelBudget,
    Measured,
)
from hashlearn.bench.plots import LinePlot, Panels, svg
from hashlearn.bench.report import write_report
from hashlearn.bench.sections import Section
from hashlearn.bench.tables import CONFIDENCE, Difference, SeedMean, mean_of
from hashlearn.files.output import written_whole

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


@dataclass(frozen=True)
class FrontierRow:
    """A way to search at a number of bytes and a label budget: all that was measured, by name and seed."""

    label: str
    size: int | None
    supervised: bool
    budget: LabelBudget
    by_seed: dict[int, dict[str, float]]

    @property
    def bytes(self) -> int:
        # Where classes decide the bytes, seeds may differ: a rare class is not in every draw.
        return int(max(values["bytes"] for values in self.by_seed.values()))

    def found(self, name: str) -> SeedMean | None:
        """Return mean and deviation of a value over the seeds; None if it was not measured."""
        return mean_of([values.get(name) for values in self.by_seed.values()])

    def mean(self, name: str) -> SeedMean:
        """Return mean and deviation of a value that all rows have."""
        found = self.found(name)
        assert found is not None
        return found

    def least(self, name: str) -> float:
        return min(values[name] for values in self.by_seed.values())


def frontier_rows(points: Sequence[FrontierPoint]) -> list[FrontierRow]:
    """Return one row for each way to search, number of bytes and label budget, in the order of the points.

    With few features, several sizes that were asked for give the same number of bytes: the first of them counts.
    """
    rows: dict[tuple[str, float | None, LabelBudget], FrontierRow] = {}
    for point in points:
        size = point.size if point.method.sized else None
        key = (point.label, size and point.values["bytes"], point.budget)
        row = rows.setdefault(key, FrontierRow(point.label, size, point.method.supervised, point.budget, {}))
        row.by_seed.setdefault(point.seed, point.values)
    return list(rows.values())


def columns_of(rows: Sequence[FrontierRow]) -> dict[str, str]:
    """Return the scores that rows have: of known and unknown classes, or of label sets."""
    return CLASSES if "map known" in next(iter(rows[0].by_seed.values())) else SETS


def write_frontier(
    folder: str | Path, title: str, plan: FrontierPlan, measured: Measured, against: str = FLOATS
) -> list[Path]:
    """Write report.md, .csv, .json and .html, and the picture as frontier.svg."""
    rows = frontier_rows(measured.points)
    main = [row for row in rows if row.budget == plan.budgets[0]]
    picture = frontier_picture(title, main)
    best = _best_section(main, plan.sizes)
    best.plots = [picture]
    sections = [
        best,
        _table_section(main, frontier_notes(plan, measured)),
        _difference_section(main, against),
    ]
    if len(plan.budgets) > 1 and not measured.facts.label_sets:
        sections.append(_budget_section(rows, plan.budgets, plan.middle_size))
    paths = write_report(folder, f"Accuracy per byte: {title}", sections, measured.runs)
    file = Path(folder) / "frontier.svg"
    with written_whole(file) as stream:
        stream.write(svg(picture).encode())
    return [*paths, file]


def frontier_picture(title: str, rows: Sequence[FrontierRow]) -> Panels:
    """Return accuracy against bytes on a log axis, one panel per kind of query; bars are deviations over seeds."""
    names = columns_of(rows)
    drawn = {label: sorted((row for row in rows if row.label == label), key=lambda row: row.bytes) for label in _DRAWN}
    drawn = {label: mine for label, mine in drawn.items() if mine}
    widths = [row.bytes for mine in drawn.values() for row in mine] or [row.bytes for row in rows]
    panels = []
    for name in list(names)[:2]:
        lines = {
            label: ([float(row.bytes) for row in mine], [row.mean(name).mean for row in mine])
            for label, mine in drawn.items()
        }
        spreads = {label: [row.mean(name).deviation or 0.0 for row in mine] for label, mine in drawn.items()}
        for row in rows:
            if row.label == FLOATS:  # a level line, because the others are compared with it at every size
                score = row.mean(name).mean
                lines[f"{FLOATS}, {row.bytes} bytes"] = ([min(widths), max(widths)], [score, score])
        panels.append(
            LinePlot(
                names[name],
                "bytes per row",
                names[name].split()[0],
                lines,
                log_x=True,
                ticks=[tick for tick in _TICKS if min(widths) / 2 < tick <= max(widths)],
                spreads=spreads if max(len(row.by_seed) for row in rows) > 1 else {},
            )
        )
    return Panels(title, tuple(panels))


def _table_section(rows: Sequence[FrontierRow], notes: Sequence[str]) -> Section:
    names = columns_of(rows) | OWN
    section = Section("Accuracy against bytes", [*notes])
    section.columns = ["method", "bytes", *names.values(), "fit s", "encode µs", "model kB", "seeds"]
    first = next(iter(names))
    for row in sorted(rows, key=lambda row: (row.size is not None, row.bytes, -row.mean(first).mean)):
        means = {name: row.found(name) for name in names}
        times = [f"{row.least('fit seconds'):.1f}", f"{1e6 * row.least('encode seconds'):.1f}"]
        cells = [_short(mean) for mean in means.values()]
        size = f"{row.mean('model bytes').mean / 1e3:.0f}"
        section.rows.append([row.label, str(row.bytes), *cells, *times, size, str(len(row.by_seed))])
        record: dict[str, Any] = {"method": row.label, "supervised": row.supervised, "bytes": row.bytes}
        for name, mean in means.items():
            record |= {name: mean and mean.mean, f"{name} deviation": mean and mean.deviation}
        times_by_name = {name: row.least(name) for name in ("fit seconds", "encode seconds", "model bytes")}
        section.records.append(record | times_by_name | {"seeds": len(row.by_seed)})
    section.notes += [
        "Bytes count everything that is stored per row: norms, factors, class numbers and second codes. Ids are left "
        "out, because every method needs them. Codebooks and models, stored once, are in the column 'model kB'.",
        "MAP is over the whole ranking and by labels; recall@10 is of the ten neighbors by the cosine of the floats. "
        "'Own row first' is how often a stored row that is searched for comes first, 'distinct codes' the number of "
        "different codes over the number of rows. Equal scores count at their expected value. Means ± sample deviation "
        "over seeds; a seed draws the split and is the method's random_state.",
    ]
    return section


def _short(mean: SeedMean | None) -> str:
    if mean is None:
        return "–"
    return f"{mean.mean:.3f}" + ("" if mean.deviation is None else f" ± {mean.deviation:.3f}")


def _best_section(rows: Sequence[FrontierRow], sizes: Sequence[int]) -> Section:
    names = columns_of(rows)
    section = Section("Best at each size")
    section.columns = ["bytes", *names.values()]
    seeds = max(len(row.by_seed) for row in rows)
    for size in sizes:
        allowed = [row for row in rows if row.bytes <= size and len(row.by_seed) == seeds]
        cells = [str(size)]
        for name in names:
            best = max(allowed, key=lambda row, name=name: row.mean(name).mean, default=None)  # type: ignore[misc]
            cells.append("–" if best is None else f"{best.label} ({best.bytes} B) {best.mean(name).mean:.3f}")
        section.rows.append(cells)
    section.notes.append(
        "The highest mean among all rows of at most this many bytes that have all seeds. A search has one code and one "
        "kind of query, so no method has all the best cells of a line unless it is named in all of them."
    )
    return section


def paired_difference(row: FrontierRow, other: FrontierRow, name: str) -> Difference:
    """Return the mean difference of a value over the seeds that both have, with its interval."""
    seeds = sorted(set(row.by_seed) & set(other.by_seed))
    return Difference.paired([row.by_seed[seed][name] - other.by_seed[seed][name] for seed in seeds])


def _difference_section(rows: Sequence[FrontierRow], against: str) -> Section:
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
        if row is other or apart or not set(row.by_seed) & set(other.by_seed):
            continue
        pairs = {name: paired_difference(row, other, name) for name in names}
        section.rows.append([row.label, str(row.bytes), *map(str, pairs.values())])
        record: dict[str, Any] = {"method": row.label, "bytes": row.bytes, "against": against}
        for name, pair in pairs.items():
            record |= {f"{name} difference": pair.mean, f"{name} interval": pair.half}
        section.records.append(record)
    section.notes.append(
        f"Score of the method minus that of {against} on the same seeds, with the half width of the {CONFIDENCE:.0%} "
        "interval for paired samples. A star marks intervals without 0. With one seed there is no interval."
    )
    return section


def _budget_section(rows: Sequence[FrontierRow], budgets: Sequence[LabelBudget], size: int) -> Section:
    """Compare the budgets on the seeds that all of them have."""
    names = list(columns_of(rows))[:2]
    chosen: dict[str, dict[LabelBudget, FrontierRow]] = {}
    for row in rows:
        if row.size in (None, size):
            chosen.setdefault(row.label, {})[row.budget] = row
    chosen = {label: mine for label, mine in chosen.items() if set(mine) > {budgets[0]}}
    budgeted = [row for mine in chosen.values() for row in mine.values() if row.budget != budgets[0]]
    seeds = sorted({seed for row in budgeted for seed in row.by_seed})
    headings = " / ".join(columns_of(rows)[name] for name in names)
    section = Section(f"Label budgets, {size} bytes", [f"{headings}, {len(seeds)} seeds."])
    budgets = [budgets[0], *(budget for budget in budgets if any(row.budget == budget for row in budgeted))]
    section.columns = ["method", *map(str, budgets)]
    for label, mine in chosen.items():
        cells = []
        for budget in budgets:
            # Labels do not change the other methods; rows that are absent from training do.
            found = mine.get(budget if budget.absent or mine[budgets[0]].supervised else budgets[0])
            if found is None or not set(seeds) <= set(found.by_seed):
                cells.append("–")
                continue
            means = {name: mean_of([found.by_seed[seed].get(name) for seed in seeds]) for name in columns_of(rows)}
            cells.append(" / ".join("–" if (mean := means[name]) is None else f"{mean.mean:.3f}" for name in names))
            values = {name: mean and mean.mean for name, mean in means.items()}
            section.records.append({"method": label, "bytes": found.bytes, "budget": str(budget), **values})
        section.rows.append([label, *cells])
    return section


def frontier_notes(plan: FrontierPlan, measured: Measured) -> list[str]:
    """Return sentences about how a frontier was made, and what it leaves out."""
    if measured.facts.protocol == "new":
        drawn = (
            "Training rows, database and queries are separate draws (protocol new), and all classes have labels: label "
            "sets, and fewer than three classes, have no classes whose labels could be hidden."
        )
    else:
        drawn = (
            "Training rows, database and queries are separate draws of all classes (protocol mixed). A third of the "
            "classes has no labels in training; queries of these are 'unknown'. Both kinds search one database of all "
            "classes. 'Searched alone' means: unknown queries among the rows of unknown classes only."
        )
    notes = [f"Data: {plan.source.title}. {drawn}"]
    if plan.quick:
        notes.append(
            f"Quick version: at most {QUICK_ROWS:,} training and database rows and {QUICK_QUERIES} queries of each "
            "kind. Its numbers differ from those of the whole frontier."
        )
    notes += measured.facts.notes
    if measured.lonely:
        notes.append(
            f"No row of the database is relevant to {'; '.join(measured.lonely)}: these count 0 for every method."
        )
    notes += [f"Left out: {'; '.join(names)} ({reason})." for reason, names in plan.left_out(measured.facts).items()]
    return [*notes, *(f"Failed: {sentence}" for sentence in measured.failed)]
