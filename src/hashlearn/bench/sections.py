"""Sections of a report, made from kept runs: a table with the paper's numbers beside ours, and plots."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hashlearn import metrics
from hashlearn.bench.plots import HeatMap, LinePlot, Plot
from hashlearn.bench.scoring import LIKENESS, score_title, scores_of, usual_score
from hashlearn.bench.store import BenchRun, RunStore
from hashlearn.bench.tables import (
    REAL_VALUED,
    TableRow,
    cosine_rows,
    grouped,
    mean_of,
    plain_row,
    stale_remark,
    table_rows,
)
from hashlearn.metrics import Rules

_PLOTTED_METHODS = 12


@dataclass
class Section:
    """A section of a report: heading, remarks, a table as text, the same numbers as records, and plots."""

    title: str
    notes: list[str] = field(default_factory=list)
    columns: list[str] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)
    records: list[dict[str, Any]] = field(default_factory=list)
    plots: list[Plot] = field(default_factory=list)


def table_section(
    store: RunStore,
    runs: Sequence[BenchRun],
    title: str,
    rules: Rules,
    score: str | None = None,
    plot_title: str | None = None,
) -> Section:
    """Make a table of methods by bit lengths."""
    rows = table_rows(store, runs, rules, score)
    section = Section(title, run_notes(runs))
    if not rows:
        return section
    most = max(row.seeds for row in rows)
    seeds = "one seed" if most == 1 else f"mean ± deviation over {most} seeds"
    section.notes.insert(0, f"{rows[0].measure}, {rules.ties} ties, {seeds}.")
    if any(row.real for row in rows):
        section.notes.insert(1, REAL_VALUED)
    bits = sorted({row.bits for row in rows})
    section.columns = ["method", "database", *(f"{count} bits" for count in bits), f"s at {bits[-1]} bits"]
    for label in _by_rank(rows):
        mine = {row.bits: row for row in rows if row.method == label}
        seconds = f"{mine[bits[-1]].seconds.mean:.2f}" if bits[-1] in mine else "–"
        for database, shown in (
            ("learned", "learned"),
            ("hashed", "hashed"),
            ("real", "hashed, e(q)"),
            *LIKENESS.items(),
        ):
            means = [getattr(mine.get(count), database, None) for count in bits]
            if any(means):
                cells = ["–" if mean is None else str(mean) for mean in means]
                section.rows.append([label, shown, *cells, seconds if database == "learned" else ""])
    section.records = [{"section": title, **plain_row(row)} for row in rows]
    section.plots = row_plots(rows, plot_title or title)
    return section


def run_notes(runs: Sequence[BenchRun]) -> list[str]:
    """Return remarks about the runs: which of them failed, and which were made by another revision."""
    remark = stale_remark(runs)
    failed = [f"{run.definition} failed: {run.error}" for run in runs if run.error is not None]
    return failed if remark is None else [*failed, remark]


def _by_rank(rows: Sequence[TableRow]) -> list[str]:
    best: dict[str, float] = {}
    for row in rows:
        found = row.hashed or row.learned
        best[row.method] = max(best.get(row.method, 0.0), found.mean if found else 0.0)
    return sorted(best, key=lambda label: -best[label])


def row_plots(rows: Sequence[TableRow], title: str) -> list[Plot]:
    """Plot the score of the hashed database against bits and training time."""
    chosen = _by_rank(rows)[:_PLOTTED_METHODS]
    measure = rows[0].measure
    bits = sorted({row.bits for row in rows})

    def lines(x: Callable[[TableRow], float]) -> dict[str, tuple[list[float], list[float]]]:
        found = {}
        for label in chosen:
            points = [(x(row), row.hashed.mean) for row in rows if row.method == label and row.hashed is not None]
            if points:
                found[label] = ([point[0] for point in points], [point[1] for point in points])
        return found

    y = f"{measure}, hashed database"
    return [
        LinePlot(f"{title}: against bits", "bits", y, lines(lambda row: row.bits), log_x=True, ticks=bits),
        LinePlot(
            f"{title}: against training time", "training seconds", y, lines(lambda row: row.seconds.mean), log_x=True
        ),
    ]


def score_lines(
    store: RunStore, runs: Sequence[BenchRun], title: str, rules: Rules, score: str, database: str = "learned"
) -> LinePlot:
    """Plot one score against bits."""
    lines: dict[str, tuple[list[float], list[float]]] = {}
    for (*_, label, bits), seeds in grouped(runs).items():
        mean = mean_of([(scores_of(store, run, rules)[database] or {}).get(score) for run in seeds])
        if mean is not None:
            x, y = lines.setdefault(label, ([], []))
            x.append(bits)
            y.append(mean.mean)
    ticks = sorted({bits for x, _ in lines.values() for bits in x})
    name = score_title(rules, score)
    return LinePlot(
        f"{title}: {name}", "bits", f"{name}, {database} database", lines, log_x=True, ticks=ticks, tabled=False
    )


def position_lines(store: RunStore, runs: Sequence[BenchRun], title: str, rules: Rules, at: Sequence[int]) -> LinePlot:
    """Plot NDCG against the number of retrieved rows."""
    lines = {}
    for (*_, label, bits), seeds in grouped(runs).items():
        means = []
        for count in at:
            rules = replace(rules, ndcg_at=count)
            means.append(mean_of([(scores_of(store, run, rules)["learned"] or {}).get("ndcg") for run in seeds]))
        known = [(count, mean.mean) for count, mean in zip(at, means, strict=True) if mean is not None]
        lines[f"{label}, {bits} bits"] = ([count for count, _ in known], [mean for _, mean in known])
    return LinePlot(f"{title}: NDCG", "retrieved", "NDCG, learned database", lines, log_x=True, ticks=at, tabled=False)


def precision_recall_lines(store: RunStore, runs: Sequence[BenchRun], title: str) -> LinePlot:
    """Plot precision against recall over all radii, for the longest codes, the first seed and the hashed database."""
    lines: dict[str, tuple[list[float], list[float]]] = {}
    groups = grouped(runs)
    longest = max((group[-1] for group in groups), default=0)
    for (*_, label, bits), seeds in groups.items():
        if bits != longest or len(lines) == _PLOTTED_METHODS:
            continue
        codes, (query_y, database_y) = store.codes(seeds[0]), store.labels(seeds[0])
        curve = metrics.precision_recall_curve(codes.query, codes.hashed, query_y, database_y, n_bits=bits)
        # Precision is not defined for radii within which no query finds a row.
        points = [(r, p) for r, p in zip(curve.recall, curve.precision, strict=True) if r > 0]
        lines[label] = ([float(r) for r, _ in points], [float(p) for _, p in points])
    return LinePlot(f"{title}: precision and recall, {longest} bits", "recall", "precision", lines, markers=False)


def convergence_lines(runs: Sequence[BenchRun], title: str) -> list[Plot]:
    """Plot the objective, relative to the first round, and the changed bits per round, if the methods record them."""
    plots: list[Plot] = []
    for name, y in (("objective", "objective / that of round 1"), ("changes", "changed bits")):
        lines = {}
        groups = grouped(runs)
        longest = max((group[-1] for group in groups), default=0)
        for (*_, label, bits), seeds in groups.items():
            values = seeds[0].trace.get(name, [])
            if bits == longest and len(values) > 1 and values[0]:
                first = values[0] if name == "objective" else 1.0
                lines[label] = (list(range(1, len(values) + 1)), [value / first for value in values])
        if lines:
            plots.append(LinePlot(f"{title}: {y}", "round", y, lines))
    return plots


def heat_maps(store: RunStore, runs: Sequence[BenchRun], title: str, rules: Rules, score: str) -> list[Plot]:
    """Plot the score of the learned database over batch size and beta, one heat map per method."""
    found: dict[str, dict[tuple[float, float], float]] = {}
    for seeds in grouped(runs).values():
        what = seeds[0].definition
        mean = mean_of([(scores_of(store, run, rules)["learned"] or {}).get(score) for run in seeds])
        if mean is not None and {"solver__batch_size", "solver__beta"} <= set(what.settings):
            place = (what.settings["solver__batch_size"], what.settings["solver__beta"])
            found.setdefault(what.method, {})[place] = mean.mean
    plots: list[Plot] = []
    for method, cells in found.items():
        batches, betas = (sorted({place[axis] for place in cells}) for axis in (0, 1))
        values = [[cells.get((batch, beta)) for beta in betas] for batch in batches]
        heading = f"{title}: {method}, {score_title(rules, score)}"
        plots.append(
            HeatMap(heading, "β", "batch size", [f"{b:g}" for b in betas], [f"{b:g}" for b in batches], values)
        )
    return plots


def folder_sections(store: RunStore, rules: Rules, score: str | None = None) -> list[Section]:
    """Make one section for each split in a folder of runs."""
    splits: dict[tuple[str, str, str], list[BenchRun]] = {}
    for run in store.runs():
        what = run.definition
        splits.setdefault((what.data, what.protocol, what.split), []).append(run)
    sections = []
    for (data, protocol, split), runs in splits.items():
        title = f"{data}, {protocol}" + ("" if split == protocol else f", {split}")
        section = table_section(store, runs, title, rules, score)
        if section.rows:
            for row in cosine_rows(store, runs, rules, score):
                # The floats do not depend on the bits, so each column has the same number.
                cells = [str(row.hashed)] * (len(section.columns) - 3)
                section.rows.append([f"{row.method}, {row.bytes} bytes", "hashed", *cells, ""])
            section.plots.append(precision_recall_lines(store, runs, title))
            section.plots += convergence_lines(runs, title)
            done = [run for run in runs if run.error is None]
            section.plots += heat_maps(store, runs, title, rules, score or usual_score(store, done[0]))
        sections.append(section)
    return sections
