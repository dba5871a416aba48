"""Make the paper's tables and figures for which there is data, and write the report on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from hashlearn.bench import sections as parts
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
from hashlearn.bench.report import write_report
from hashlearn.bench.runner import Finished, PlanOutcome, kept_runs, run_plan
from hashlearn.bench.scoring import DATABASES, float_cosine, score_title, scores_of
from hashlearn.bench.sections import Section
from hashlearn.bench.store import BenchRun, RunStore
from hashlearn.bench.tables import SeedMean, TableRow, grouped, mean_of, plain_row, table_rows

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
            data, title = data_for(part, data_dir)
            name = f"{item.name.capitalize()}, {part.protocol}"
            plan = part_plan(part, data, seeds, methods, bits) if data is not None else None
            if plan is None or data is None:
                reason = title if data is None else "no method or bit length of it was asked for"
                report.left_out.append(f"{name} is left out: {reason}.")
                if item.deep:  # show the paper's numbers alone
                    made.append(deep_section(store, [], item, f"{item.name.capitalize()}: {item.about}"))
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
            report.failed += outcome.failed
            runs = [*outcome.kept, *outcome.made]
            if not runs:
                report.left_out.append(f"{name} is left out: no run of it is kept.")
                continue
            used += runs
            heading = f"{item.name.capitalize()}: {item.about}. {title}, {part.protocol}"
            section = item_section(store, runs, item, part, heading, data)
            if item.deep:
                section = deep_section(store, runs, item, heading)
            if section.rows and item.name.startswith("table"):
                first = min((run for run in runs if run.error is None), key=lambda run: run.definition.seed)
                floats = float_cosine(store, first, item.rules)
                if floats is not None:
                    section.notes.append(f"Cosine on the features themselves, as floats: {floats[part.score]:.4f}.")
            made.append(section)
        report.paths = write_report(folder, TITLE, [*made, *_left_out(report)], used)
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
    # Plots have short titles, because the heading above them has the details.
    short = f"{item.name.capitalize()}, {TITLES.get(data, data)} {part.protocol}"
    section = parts.table_section(store, runs, title, item.rules, part.score, short)
    section.notes += item.notes
    if not item.tabled:
        section.columns, section.rows = [], []
    elif item.name.startswith("table"):
        _set_beside(section, table_rows(store, runs, item.rules, part.score), part)
    if data != part.data and part.paper:
        section.notes.append("The paper's numbers are on its own data, not on this stand-in: compare order, not size.")
    for name in item.drawn:
        if name == "heat":
            section.plots = parts.heat_maps(store, runs, short, item.rules, part.score)
        elif name == "convergence":
            section.plots = parts.convergence_lines(_longest_descents(runs), short)
        elif name == "rounds":
            section.plots.append(rounds_lines(store, runs, short, item, part))
        elif name == "positions":
            longest = [run for run in runs if run.definition.n_bits == 64]
            section.plots.append(parts.position_lines(store, longest, short, item.rules, POSITIONS))
        elif name == "curve":
            section.plots.append(parts.precision_recall_lines(store, runs, short))
        else:
            section.plots.append(parts.score_lines(store, runs, short, item.rules, name))
    return section


def _set_beside(section: Section, rows: Sequence[TableRow], part: PaperPart) -> None:
    """Put three numbers in each cell: ours at the paper's settings, ours at our defaults, and the printed one."""
    bits = sorted({row.bits for row in rows})
    found = {(row.method, row.bits): row for row in rows}
    labels = dict.fromkeys(row.method.removesuffix(DEFAULTS) for row in rows)
    section.columns = ["method", "database", *(f"{count} bits" for count in bits), f"s at {bits[-1]} bits", "remark"]
    section.rows, section.records = [], []
    for label in labels:
        has_defaults = any((label + DEFAULTS, count) in found for count in bits)
        scores, seconds = part.paper.get(label, ((None,) * len(BITS), None))
        printed = dict(zip(BITS, scores, strict=True))
        for database in DATABASES:
            cells = []
            for count in bits:
                ours, own = (getattr(found.get((name, count)), database, None) for name in (label, label + DEFAULTS))
                theirs = printed.get(count) if database == "learned" else None
                cells.append(_triple(ours, own if has_defaults else ours, theirs))
                record = {"method": label, "bits": count, "database": database, "paper": theirs}
                record |= {"ours": ours and ours.mean, "ours deviation": ours and ours.deviation}
                record |= {"defaults": own and own.mean, "defaults deviation": own and own.deviation}
                section.records.append({"section": section.title, **record})
            if any(cell != _NOTHING for cell in cells):
                last = (found.get((name, bits[-1])) for name in (label, label + DEFAULTS))
                times = [f"{row.seconds.mean:.2f}" for row in last if row is not None]
                times += [] if seconds is None else [f"{seconds:g}"]
                first = database == "learned" or not section.rows or section.rows[-1][0] != label
                about = remark(label) if first else ""
                section.rows.append([label, database, *cells, " / ".join(times) if first else "", about])
    section.notes.append(
        "In a cell: ours at the paper's settings / ours at our defaults / the paper's number, which is on the learned "
        "database. One number of ours: the paper's settings are our defaults."
    )


_NOTHING = "–"


def _triple(ours: SeedMean | None, own: SeedMean | None, theirs: float | None) -> str:
    means = [ours] if own is ours else [ours, own]
    if not any(means) and theirs is None:
        return _NOTHING
    return " / ".join(
        [*(_NOTHING if mean is None else str(mean) for mean in means), *([] if theirs is None else [f"{theirs:.4f}"])]
    )


def deep_section(store: RunStore, runs: Sequence[BenchRun], item: PaperItem, title: str) -> Section:
    """Make the section of Table 3 or 5: our rows of each method, with the paper's row below them."""
    section = Section(title, notes=list(item.notes))
    ranked, within = (f"MAP@5000, {bits}" for bits in DEEP_RANKED_BITS), [f"MAP within 2, {b}" for b in DEEP_BALL_BITS]
    section.columns = ["method", "whose", *ranked, *within]
    found = {(label, bits): seeds for (*_, label, bits), seeds in grouped(runs).items()}
    for label in dict.fromkeys([*item.deep, *(label for label, _ in found)]):
        ours = [_mean_cell(store, found.get((label, bits)), item) for bits in DEEP_RANKED_BITS]
        for whose, name in (("ours, strict", "radius_map"), ("ours, official", "official_radius_map")):
            cells = [_measured_cell(found.get((label, bits)), name) for bits in DEEP_BALL_BITS]
            if any(cell != "–" for cell in (*ours, *cells)):
                section.rows.append([label, whose, *(ours if name == "radius_map" else [""] * len(ours)), *cells])
        if label in item.deep:
            first, second = item.deep[label]
            theirs = ["–"] * len(DEEP_RANKED_BITS) if first is None else [f"{value:.3f}" for value in first]
            section.rows.append([label, "the paper", *theirs, *(f"{value:.4f}" for value in second)])
    section.notes += parts.run_notes(runs)
    for row in table_rows(store, runs, item.rules, "map"):
        values = [run.measured for run in found[row.method, row.bits]]
        means = {name: mean_of([one.get(name) for one in values]) for name in values[0]}
        section.records.append(
            {"section": title, **plain_row(row), **{name: mean.mean for name, mean in means.items() if mean}}
        )
    return section


def _mean_cell(store: RunStore, runs: Sequence[BenchRun] | None, item: PaperItem) -> str:
    scores = [(scores_of(store, run, item.rules)["hashed"] or {}).get("map") for run in runs or ()]
    return str(mean_of(scores) or "–")


def _measured_cell(runs: Sequence[BenchRun] | None, name: str) -> str:
    return str(mean_of([run.measured.get(name) for run in runs or ()]) or "–")


def rounds_lines(store: RunStore, runs: Sequence[BenchRun], title: str, item: PaperItem, part: PaperPart) -> LinePlot:
    """Plot the score against the number of rounds after which learning was stopped."""
    points: dict[str, list[tuple[float, float]]] = {}
    for seeds in grouped(runs).values():
        what = seeds[0].definition
        mean = mean_of([(scores_of(store, run, item.rules)["learned"] or {}).get(part.score) for run in seeds])
        if mean is not None:
            line = points.setdefault(f"{what.method} batch {what.settings['solver__batch_size']}", [])
            line.append((what.settings["solver__max_iter"], mean.mean))
    lines = {name: tuple(zip(*sorted(values), strict=True)) for name, values in points.items()}
    measure = score_title(item.rules, part.score)
    return LinePlot(f"{title}: {measure}", "rounds", f"{measure}, learned database", lines)  # type: ignore[arg-type]


def _longest_descents(runs: Sequence[BenchRun]) -> list[BenchRun]:
    most = max((run.definition.settings.get("solver__max_iter", 0) for run in runs), default=0)
    return [run for run in runs if run.definition.settings.get("solver__max_iter", 0) == most]


def _left_out(report: PaperReport) -> list[Section]:
    return [Section("What is left out, and why", notes=list(report.left_out))] if report.left_out else []
