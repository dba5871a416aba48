"""A report: sections with a table and plots, made from kept runs, as Markdown, CSV, JSON and one HTML page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any, TypeVar

from hashlearn import metrics
from hashlearn.bench.plots import HeatMap, LinePlot, Plot, need_bench_extra, plot_table, svg
from hashlearn.bench.scoring import FLOAT_COSINE, LIKENESS
from hashlearn.bench.store import BenchRun, RunStore, write_json
from hashlearn.bench.tables import (
    NOTHING,
    REAL_VALUED,
    SeedRow,
    TableRow,
    as_csv,
    as_markdown,
    mean_in,
    plain_row,
    shown_mean,
    stale_remark,
    table_rows,
)
from hashlearn.codes import n_bytes
from hashlearn.files.output import written_whole
from hashlearn.metrics import Rules

TEMPLATE = "report.html.jinja"
Lines = dict[str, tuple[list[float], list[float]]]
AnyRow = TypeVar("AnyRow", bound=SeedRow)
_PLOTTED_METHODS = 12
_SHOWN_DATABASES = {"learned": "learned", "hashed": "hashed", "real": "hashed, e(q)"} | LIKENESS


@dataclass
class Section:
    """A section of a report: heading, remarks, a table as text, the same numbers as records, and plots."""

    title: str
    notes: list[str] = field(default_factory=list)
    columns: list[str] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)
    records: list[dict[str, Any]] = field(default_factory=list)
    plots: list[Plot] = field(default_factory=list)


def folder_sections(store: RunStore, rules: Rules, score: str | None = None) -> list[Section]:
    """Make one section for each split in a folder of runs."""

    def split_of(run: BenchRun) -> tuple[str, str, str]:
        return run.definition.data, run.definition.protocol, run.definition.split

    sections = []
    for (data, protocol, split), runs in groupby(sorted(store.runs(), key=split_of), key=split_of):
        title = f"{data}, {protocol}" + ("" if split == protocol else f", {split}")
        runs_of_split = list(runs)
        rows = table_rows(store, runs_of_split, rules, score, floats=True)
        coded = [row for row in rows if row.what.label != FLOAT_COSINE]
        section = table_section(coded, run_notes(runs_of_split), title)
        for row in rows[len(coded) :]:
            # The floats do not depend on the bits, so each column has the same number.
            cells = [shown_mean(row.mean("hashed"))] * (len(section.columns) - 3)
            section.rows.append([f"{FLOAT_COSINE}, {n_bytes(row.what.n_bits)} bytes", "hashed", *cells, ""])
        if coded:
            section.plots.append(precision_recall_lines(store, coded, title))
            section.plots += [*convergence_lines(coded, title), *heat_maps(coded, title)]
        sections.append(section)
    return sections


def table_section(rows: Sequence[TableRow], notes: Sequence[str], title: str, plot_title: str | None = None) -> Section:
    """Make a table of methods by bit lengths."""
    section = Section(title, list(notes))
    if not rows:
        return section
    most = max(len(row.runs) for row in rows)
    seeds = "one seed" if most == 1 else f"mean ± deviation over {most} seeds"
    section.notes.insert(0, f"{rows[0].measure}, {rows[0].ties} ties, {seeds}.")
    if any(row.mean("real") for row in rows):
        section.notes.insert(1, REAL_VALUED)
    bits = sorted({row.what.n_bits for row in rows})
    section.columns = ["method", "database", *(f"{count} bits" for count in bits), f"s at {bits[-1]} bits"]
    found = {(row.what.label, row.what.n_bits): row for row in rows}
    for label in _by_rank(rows):
        mine = [found.get((label, count)) for count in bits]
        for name, shown in _SHOWN_DATABASES.items():
            means = [mean_in(row, name) for row in mine]
            if any(means):
                seconds = shown_seconds(mine[-1]) if name == "learned" else ""
                section.rows.append([label, shown, *map(shown_mean, means), seconds])
    section.records = [{"section": title, **plain_row(row)} for row in rows]
    section.plots = _row_plots(rows, plot_title or title)
    return section


def shown_seconds(row: TableRow | None) -> str:
    """Return the mean training time of a row as text."""
    seconds = mean_in(row, "seconds")
    return f"{seconds.mean:.2f}" if seconds else NOTHING


def run_notes(runs: Sequence[BenchRun]) -> list[str]:
    """Return remarks about the runs: which of them failed, and which were made by another revision."""
    remark = stale_remark(runs)
    failed = [f"{run.definition} failed: {run.error}" for run in runs if run.error is not None]
    return failed if remark is None else [*failed, remark]


def _by_rank(rows: Sequence[TableRow]) -> list[str]:
    best: dict[str, float] = {}
    for row in rows:
        found = row.mean("hashed") or row.mean("learned")
        best[row.what.label] = max(best.get(row.what.label, 0.0), found.mean if found else 0.0)
    return sorted(best, key=lambda label: -best[label])


def score_lines(
    rows: Sequence[AnyRow], name: str, x: Callable[[AnyRow], float], label: Callable[[AnyRow], str]
) -> Lines:
    """Return lines of a number of rows over ``x``, one for each ``label``."""
    lines: Lines = {}
    for row in rows:
        mean = row.mean(name)
        if mean is not None:
            xs, ys = lines.setdefault(label(row), ([], []))
            xs.append(x(row))
            ys.append(mean.mean)
    return lines


def bits_of(row: TableRow) -> float:
    return row.what.n_bits


def label_of(row: TableRow) -> str:
    return row.what.label


def _row_plots(rows: Sequence[TableRow], title: str) -> list[Plot]:
    """Plot the score of the hashed database against bits and training time."""
    chosen = _by_rank(rows)[:_PLOTTED_METHODS]
    y = f"{rows[0].measure}, hashed database"
    ordered = sorted((row for row in rows if row.what.label in chosen), key=lambda row: chosen.index(row.what.label))

    def seconds_of(row: TableRow) -> float:
        return sum(run.seconds["fit"] for run in row.runs) / len(row.runs)

    ticks = sorted({row.what.n_bits for row in rows})
    by_bits, by_seconds = (score_lines(ordered, "hashed", x, label_of) for x in (bits_of, seconds_of))
    return [
        LinePlot(f"{title}: against bits", "bits", y, by_bits, log_x=True, ticks=ticks),
        LinePlot(f"{title}: against training time", "training seconds", y, by_seconds, log_x=True),
    ]


def precision_recall_lines(store: RunStore, rows: Sequence[TableRow], title: str) -> LinePlot:
    """Plot precision against recall over all radii, for the longest codes, the first seed and the hashed database."""
    lines: Lines = {}
    for row in longest(rows)[:_PLOTTED_METHODS]:
        codes, labels = store.codes(row.runs[0]), store.labels(row.runs[0])
        curve = metrics.precision_recall_curve(codes.query, codes.hashed, *labels, n_bits=row.what.n_bits)
        found = curve.recall > 0  # precision is not defined for radii within which no query finds a row
        lines[row.what.label] = (curve.recall[found].tolist(), curve.precision[found].tolist())
    bits = longest(rows)[0].what.n_bits
    return LinePlot(f"{title}: precision and recall, {bits} bits", "recall", "precision", lines, markers=False)


def convergence_lines(rows: Sequence[TableRow], title: str) -> list[Plot]:
    """Plot the objective, relative to the first round, and the changed bits per round, if the methods record them."""
    plots: list[Plot] = []
    for name, y in (("objective", "objective / that of round 1"), ("changes", "changed bits")):
        lines: Lines = {}
        for row in longest(rows):
            values = row.runs[0].trace.get(name, [])
            if len(values) > 1 and values[0]:
                first = values[0] if name == "objective" else 1.0
                rounds = [float(number) for number in range(1, len(values) + 1)]
                lines[row.what.label] = (rounds, [value / first for value in values])
        if lines:
            plots.append(LinePlot(f"{title}: {y}", "round", y, lines))
    return plots


def heat_maps(rows: Sequence[TableRow], title: str) -> list[Plot]:
    """Plot the score of the learned database over batch size and beta, one heat map per method."""
    found: dict[str, dict[tuple[float, float], float]] = {}
    for row in rows:
        settings, mean = row.what.settings, row.mean("learned")
        if mean is not None and {"solver__batch_size", "solver__beta"} <= set(settings):
            place = settings["solver__batch_size"], settings["solver__beta"]
            found.setdefault(row.what.method, {})[place] = mean.mean
    plots: list[Plot] = []
    for method, cells in found.items():
        batches, betas = (sorted({place[axis] for place in cells}) for axis in (0, 1))
        values = [[cells.get((batch, beta)) for beta in betas] for batch in batches]
        names = [f"{beta:g}" for beta in betas], [f"{batch:g}" for batch in batches]
        plots.append(HeatMap(f"{title}: {method}, {rows[0].measure}", "β", "batch size", *names, values))
    return plots


def longest(rows: Sequence[TableRow]) -> list[TableRow]:
    """Return the rows of the longest codes."""
    most = max(map(bits_of, rows), default=0)
    return [row for row in rows if row.what.n_bits == most]


def write_report(folder: str | Path, title: str, sections: Sequence[Section], runs: Sequence[BenchRun]) -> list[Path]:
    """Write report.md, report.csv, report.json and report.html. Each file appears only when it is complete."""
    need_bench_extra()
    store = RunStore(folder)
    store.make()
    facts = _machine_lines(runs)
    paths = [store.folder / f"report.{suffix}" for suffix in ("md", "csv", "json", "html")]
    plain = [{"title": one.title, "notes": one.notes, "rows": one.records} for one in sections]
    write_text(paths[0], _markdown(title, sections, facts))
    write_text(paths[1], as_csv([record for section in sections for record in section.records]))
    write_json(paths[2], {"title": title, "machine": facts, "sections": plain})
    write_text(paths[3], page(title, sections, facts))
    return paths


def write_text(path: Path, text: str) -> None:
    """Write a file that appears only when it is complete."""
    with written_whole(path) as stream:
        stream.write(text.encode())


def _machine_lines(runs: Sequence[BenchRun]) -> list[str]:
    """Return one line for each machine and set of versions that the runs were made with."""
    lines = []
    for facts in (run.machine for run in runs if run.machine):
        versions = ", ".join(f"{name} {number}" for name, number in facts["versions"].items())
        blas = ", ".join(facts["blas"])
        lines.append(f"{facts['cpu']}, {facts['threads']} of {facts['cores']} cores, {versions}, {blas}")
    return list(dict.fromkeys(lines))


def _markdown(title: str, sections: Sequence[Section], facts: Sequence[str]) -> str:
    """Return the report as Markdown: tables, remarks, and a table for each plot whose numbers are in no other table."""
    parts = [f"# {title}"]
    for section in sections:
        parts += [f"## {section.title}", *section.notes]
        if section.rows:
            parts.append(as_markdown(section.columns, section.rows))
        for plot in section.plots:
            if not section.rows or not plot.tabled:
                parts += [f"**{plot.title}**", as_markdown(*plot_table(plot))]
    parts += [f"Made on: {line}." for line in facts]
    return "\n\n".join(parts) + "\n"


def page(title: str, sections: Sequence[Section], facts: Sequence[str]) -> str:
    """Return the report as one HTML page, which loads no other files. All text except the plots is escaped."""
    need_bench_extra()
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    pages = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    pages.filters["svg"] = lambda plot: Markup(svg(plot))
    return pages.get_template(TEMPLATE).render(title=title, sections=sections, facts=facts)
