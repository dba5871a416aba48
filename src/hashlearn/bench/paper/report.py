"""Make the paper's tables and figures for which there is data, and write the report on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from hashlearn.bench.paper.tables import (
    BITS,
    DEEP_BALL_BITS,
    DEEP_RANKED_BITS,
    DEFAULTS,
    POSITIONS,
    TITLES,
    PaperItem,
    PaperPart,
    data_for,
    part_plan,
    remark,
)
from hashlearn.bench.plan import BenchPlan
from hashlearn.bench.plots import LinePlot, need_bench_extra
from hashlearn.bench.report import (
    Section,
    bits_of,
    convergence_lines,
    heat_maps,
    label_of,
    precision_recall_lines,
    run_notes,
    score_lines,
    shown_seconds,
    table_section,
    write_report,
)
from hashlearn.bench.runner import Finished, PlanOutcome, kept_runs, run_plan
from hashlearn.bench.scoring import DATABASES, float_cosine
from hashlearn.bench.store import BenchRun, RunStore
from hashlearn.bench.tables import NOTHING, Mean, TableRow, mean_in, plain_row, shown_mean, table_rows

TITLE = "Pairwise based discrete hashing: the paper's tables and figures, made again"


@dataclass
class PaperReport:
    """Files that were written, sentences about parts that were left out, and the runs that failed."""

    paths: list[Path] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    failed: list[BenchRun] = field(default_factory=list)


def make_paper_report(
    items: Sequence[PaperItem],
    folder: str | Path,
    data_dir: str | None = None,
    *,
    seeds: int = 1,
    further_below: float | None = None,
    methods: Sequence[str] | None = None,
    bits: Sequence[int] | None = None,
    protocols: Sequence[str] | None = None,
    kept: bool = False,
    jobs: int = 1,
    threads: int | None = None,
    on_finished: Finished | None = None,
) -> PaperReport:
    """Make the runs that are not in ``folder``/runs yet, and write the report again after each table or figure.

    With ``kept`` nothing is run: the report covers the runs that exist. With ``further_below`` only the first seed of a
    method is run if its training takes that many seconds at any number of bits.
    """
    need_bench_extra()
    report = PaperReport()
    made: list[Section] = []
    store = RunStore(Path(folder) / "runs")
    store.make()
    used: list[BenchRun] = []
    for item in items:
        for part in item.parts:
            if protocols is not None and part.protocol not in protocols:
                continue
            name = f"{item.name.capitalize()}, {part.protocol}"
            data, title = data_for(part, data_dir)
            plan = part_plan(part, data, seeds, methods, bits) if data is not None else None
            if plan is None or data is None:
                reason = title if data is None else "no method or bit length of it was asked for"
                report.left_out.append(f"{name} is left out: {reason}.")
                if item.deep:  # show the paper's numbers alone
                    made.append(deep_section([], [], item, f"{item.name.capitalize()}: {item.about}"))
                continue
            try:
                if kept:
                    outcome = kept_runs(plan, store.folder, data_dir)
                else:
                    run = partial(run_plan, folder=store.folder, data_dir=data_dir, jobs=jobs, threads=threads)
                    outcome = _run(plan, partial(run, on_finished=on_finished), further_below)
            except (ValueError, OSError) as error:  # some files are missing, or there are too few rows
                report.left_out.append(f"{name} is left out: {error}")
                continue
            runs = [*outcome.kept, *outcome.made]
            if not runs:
                report.left_out.append(f"{name} is left out: no run of it is kept.")
                continue
            report.failed += outcome.failed
            used += runs
            heading = f"{item.name.capitalize()}: {item.about}. {title}, {part.protocol}"
            made.append(item_section(store, runs, item, part, heading, data))
        left_out = [Section("What is left out, and why", notes=report.left_out)] if report.left_out else []
        report.paths = write_report(folder, TITLE, [*made, *left_out], used)
    return report


def _run(plan: BenchPlan, run: Callable[[BenchPlan], PlanOutcome], further_below: float | None) -> PlanOutcome:
    """Run a plan, and only its first seed for methods that take ``further_below`` seconds or more, or that failed."""
    if further_below is None or len(plan.seeds) == 1:
        return run(plan)
    first = run(replace(plan, seeds=plan.seeds[:1]))
    runs = [*first.kept, *first.made]
    slow = {one.definition.label for one in runs if one.error is not None or one.seconds["fit"] >= further_below}
    rest = tuple(variant for variant in plan.variants if variant.label not in slow)
    kept = [one for one in first.kept if one.definition.label in slow]
    made = [one for one in first.made if one.definition.label in slow]
    if not rest:
        return PlanOutcome(kept, made)
    further = run(replace(plan, variants=rest))
    return PlanOutcome([*kept, *further.kept], [*made, *further.made])


def item_section(
    store: RunStore, runs: Sequence[BenchRun], item: PaperItem, part: PaperPart, title: str, data: str
) -> Section:
    """Make the section of one part of a table or figure."""
    rows, notes = table_rows(store, runs, item.rules, part.score), run_notes(runs)
    if item.deep:
        return deep_section(rows, notes, item, title)
    # Plots have short titles, because the heading above them has the details.
    short = f"{item.name.capitalize()}, {TITLES.get(data, data)} {part.protocol}"
    section = table_section(rows, notes, title, short)
    section.notes += item.notes
    if not item.tabled:
        section.columns, section.rows = [], []
    elif item.name.startswith("table"):
        _set_beside(section, rows, part)
    if data != part.data and part.paper:
        section.notes.append("The paper's numbers are on its own data, not on this stand-in: compare order, not size.")
    if section.rows and item.name.startswith("table"):
        floats = float_cosine(store, min((row.runs[0] for row in rows), key=_seed_of), item.rules)
        if floats is not None:
            section.notes.append(f"Cosine on the features themselves, as floats: {floats[part.score]:.4f}.")
    for name in item.drawn if rows else ():
        if name == "heat":
            section.plots = heat_maps(rows, short)
        elif name == "convergence":
            most = max(map(_rounds_of, rows))
            section.plots = convergence_lines([row for row in rows if _rounds_of(row) == most], short)
        elif name == "rounds":
            section.plots.append(_rounds_lines(rows, short))
        elif name == "positions":
            section.plots.append(_position_lines(store, [run for row in rows for run in row.runs], short, item))
        elif name == "curve":
            section.plots.append(precision_recall_lines(store, rows, short))
        else:
            section.plots.append(_line_plot(table_rows(store, runs, item.rules, name), short))
    return section


def _seed_of(run: BenchRun) -> int:
    return run.definition.seed


def _set_beside(section: Section, rows: Sequence[TableRow], part: PaperPart) -> None:
    """Put three numbers in each cell: ours at the paper's settings, ours at our defaults, and the printed one."""
    bits = sorted({row.what.n_bits for row in rows})
    found = {(row.what.label, row.what.n_bits): row for row in rows}
    labels = dict.fromkeys(row.what.label.removesuffix(DEFAULTS) for row in rows)
    section.columns = ["method", "database", *(f"{count} bits" for count in bits), f"s at {bits[-1]} bits", "remark"]
    section.rows, section.records = [], []
    for label in labels:
        has_defaults = any((label + DEFAULTS, count) in found for count in bits)
        scores, printed_seconds = part.paper.get(label, ((None,) * len(BITS), None))
        printed = dict(zip(BITS, scores, strict=True))
        last = (found.get((name, bits[-1])) for name in (label, label + DEFAULTS))
        times = [shown_seconds(row) for row in last if row is not None]
        times += [] if printed_seconds is None else [f"{printed_seconds:g}"]
        beside = [" / ".join(times), remark(label)]
        for database in DATABASES:
            cells = []
            for count in bits:
                both = (found.get((name, count)) for name in (label, label + DEFAULTS))
                ours, own = (mean_in(row, database) for row in both)
                theirs = printed.get(count) if database == "learned" else None
                cells.append(_triple(ours, own if has_defaults else ours, theirs))
                record = {"section": section.title, "method": label, "bits": count, "database": database}
                record["ours"], record["ours deviation"] = ours or (None, None)
                record["defaults"], record["defaults deviation"] = own or (None, None)
                section.records.append(record | {"paper": theirs})
            if any(cell != NOTHING for cell in cells):
                section.rows.append([label, database, *cells, *beside])
                beside = ["", ""]
    section.notes.append(
        "In a cell: ours at the paper's settings / ours at our defaults / the paper's number, which is on the learned "
        "database. One number of ours: the paper's settings are our defaults."
    )


def _triple(ours: Mean | None, own: Mean | None, theirs: float | None) -> str:
    means = [ours] if own is ours else [ours, own]
    if not any(means) and theirs is None:
        return NOTHING
    return " / ".join([*map(shown_mean, means), *([] if theirs is None else [f"{theirs:.4f}"])])


def deep_section(rows: Sequence[TableRow], notes: Sequence[str], item: PaperItem, title: str) -> Section:
    """Make the section of Table 3 or 5: our rows of each method, with the paper's row below them."""
    section = Section(title, notes=[*item.notes, *notes])
    ranked, within = (f"MAP@5000, {bits}" for bits in DEEP_RANKED_BITS), [f"MAP within 2, {b}" for b in DEEP_BALL_BITS]
    section.columns = ["method", "whose", *ranked, *within]
    found = {(row.what.label, row.what.n_bits): row for row in rows}

    def cells(label: str, name: str, lengths: Sequence[int]) -> list[str]:
        return [shown_mean(mean_in(found.get((label, bits)), name)) for bits in lengths]

    for label in dict.fromkeys([*item.deep, *(label for label, _ in found)]):
        ours = cells(label, "hashed", DEEP_RANKED_BITS)
        strict, official = (cells(label, name, DEEP_BALL_BITS) for name in ("radius_map", "official_radius_map"))
        if set(ours + strict) != {NOTHING}:
            section.rows.append([label, "ours, strict", *ours, *strict])
            section.rows.append([label, "ours, official", *[""] * len(ours), *official])
        if label in item.deep:
            first, second = item.deep[label]
            theirs = [NOTHING] * len(DEEP_RANKED_BITS) if first is None else [f"{value:.3f}" for value in first]
            section.rows.append([label, "the paper", *theirs, *(f"{value:.4f}" for value in second)])
    section.records = [{"section": title, **plain_row(row)} for row in rows]
    return section


def _line_plot(rows: Sequence[TableRow], title: str) -> LinePlot:
    """Plot a score of the learned database against bits."""
    lines, name = score_lines(rows, "learned", bits_of, label_of), rows[0].measure
    ticks = sorted({bits for x, _ in lines.values() for bits in x})
    y = f"{name}, learned database"
    return LinePlot(f"{title}: {name}", "bits", y, lines, log_x=True, ticks=ticks, tabled=False)


def _position_lines(store: RunStore, runs: Sequence[BenchRun], title: str, item: PaperItem) -> LinePlot:
    """Plot NDCG of codes of 64 bits against the number of retrieved rows."""
    lines: dict[str, tuple[list[float], list[float]]] = {}
    for count in POSITIONS:
        rows = table_rows(store, runs, replace(item.rules, ndcg_at=count), "ndcg")
        for row in (row for row in rows if row.what.n_bits == 64):
            mean, line = row.mean("learned"), lines.setdefault(f"{row.what.label}, 64 bits", ([], []))
            if mean is not None:
                line[0].append(count)
                line[1].append(mean.mean)
    y = "NDCG, learned database"
    return LinePlot(f"{title}: NDCG", "retrieved", y, lines, log_x=True, ticks=POSITIONS, tabled=False)


def _rounds_of(row: TableRow) -> int:
    return int(row.what.settings.get("solver__max_iter", 0))


def _rounds_lines(rows: Sequence[TableRow], title: str) -> LinePlot:
    """Plot the score against the number of rounds after which learning was stopped."""
    measure = rows[0].measure
    lines = score_lines(
        sorted(rows, key=_rounds_of),
        "learned",
        _rounds_of,
        lambda row: f"{row.what.method} batch {row.what.settings['solver__batch_size']}",
    )
    return LinePlot(f"{title}: {measure}", "rounds", f"{measure}, learned database", lines)
