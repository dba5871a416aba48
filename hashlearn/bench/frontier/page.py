"""The page of a frontier: the picture of accuracy against bytes, the table, and what dominates what."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hashlearn.bench.frontier.measure import FrontierPoint
from hashlearn.bench.frontier.methods import FLOATS
from hashlearn.bench.frontier.run import QUICK_QUERIES, QUICK_ROWS, FrontierPlan, Measured
from hashlearn.bench.frontier.summary import (
    MEASURES,
    FrontierRow,
    best_at,
    dominator,
    frontier_rows,
    goal_measures,
    split_names,
    split_title,
    verdict_sentence,
    verdicts,
)
from hashlearn.bench.plots import LinePlot, Panels, svg
from hashlearn.bench.report import write_report
from hashlearn.bench.sections import Section
from hashlearn.files.output import written_whole

# Lines of the picture. The table has all methods; with all of them, a picture could not be read.
_STRONG = ("auto, real-valued queries", "auto, Hamming")
_DRAWN = (
    *_STRONG, "gsdhp, real-valued queries", "kernel scores + PQ", "LDA + PQ", "itq, real-valued queries", "PQ", "OPQ",
    "LSQ", "RaBitQ", "sign bits", "sign bits, rescored by int8",
)  # fmt: skip
_TICKS = [2**power for power in range(1, 12)]


def write_frontier(
    folder: str | Path, title: str, points: Sequence[FrontierPoint], sizes: Sequence[int], notes: Sequence[str] = ()
) -> list[Path]:
    """Write report.md, .csv, .json and .html, and the picture as frontier.svg."""
    rows = frontier_rows(points)
    picture = frontier_picture(title, rows)
    sections = [_table_section(rows, picture, notes), _verdict_section(rows, sizes), _dominance_section(rows)]
    paths = write_report(folder, f"Accuracy per byte: {title}", sections, points)
    file = Path(folder) / "frontier.svg"
    with written_whole(file) as stream:
        stream.write(svg(picture).encode())
    return [*paths, file]


def frontier_picture(title: str, rows: Sequence[FrontierRow]) -> Panels:
    """Accuracy against bytes on a log axis, one panel for each split; bars are deviations over seeds."""
    measure = goal_measures(rows)[0]
    drawn = {label: _by_bytes(rows, label) for label in _DRAWN}
    widths = [row.bytes for mine in drawn.values() for row in mine] or [row.bytes for row in rows]
    panels = []
    for split in split_names(rows):
        lines: dict[str, tuple[list[float], list[float]]] = {}
        spreads: dict[str, list[float]] = {}
        for label, mine in drawn.items():
            if mine:
                lines[label] = ([row.bytes for row in mine], [row.score(split, measure) for row in mine])
                spreads[label] = [row.scores[split, measure].deviation or 0.0 for row in mine]
        for row in _by_bytes(rows, FLOATS):  # a level line, because the others are compared with it at every size
            score = row.score(split, measure)
            lines[f"{FLOATS}, {row.bytes} bytes"] = ([min(widths), max(widths)], [score, score])
        ticks = [tick for tick in _TICKS if min(widths) / 2 < tick <= max(widths)]
        panels.append(
            LinePlot(
                split_title(split),
                "bytes per row",
                MEASURES[measure],
                lines,
                log_x=True,
                ticks=ticks,
                spreads=spreads if max(row.seeds for row in rows) > 1 else {},
                strong=_STRONG,
            )
        )
    return Panels(title, tuple(panels))


def _by_bytes(rows: Sequence[FrontierRow], label: str) -> list[FrontierRow]:
    return sorted((row for row in rows if row.label == label), key=lambda row: row.bytes)


def _table_section(rows: Sequence[FrontierRow], picture: Panels, notes: Sequence[str]) -> Section:
    splits = split_names(rows)
    section = Section("Accuracy against bytes", [*notes])
    scores = [f"{name} {split}" for split in splits for name in MEASURES.values()]
    section.columns = ["method", "bytes", *scores, "fit s", "encode µs", "search µs", "model kB", "seeds"]
    main = goal_measures(rows)[0]
    for row in sorted(rows, key=lambda row: (row.bytes, -row.score(splits[0], main))):
        cells = [str(row.scores[split, measure]) for split in splits for measure in MEASURES]
        times = [f"{row.fit_seconds:.1f}", f"{1e6 * row.encode_seconds:.1f}", f"{1e6 * row.search_seconds:.1f}"]
        section.rows.append([row.label, str(row.bytes), *cells, *times, f"{row.model_bytes / 1e3:.0f}", str(row.seeds)])
        section.records.append(_record(row))
    section.notes += [
        "Bytes count everything that is stored per row: norms, factors, and the vectors of the second stage. Ids are "
        "left out, because every method needs them. Codebooks and models, stored once, are in the column 'model kB'.",
        "MAP of the whole ranking and NDCG@10 are by labels, recall@10 is against the cosine neighbors of the floats; "
        "equal scores count at their expected value. Means ± sample deviation over seeds, also as bars in the "
        "picture. Times are per query, the shortest measured.",
    ]
    section.plots = [picture]
    return section


def _record(row: FrontierRow) -> dict[str, Any]:
    record: dict[str, Any] = {
        "method": row.label,
        "supervised": row.supervised,
        "bytes": row.bytes,
        "model_bytes": row.model_bytes,
        "seeds": row.seeds,
        "fit_seconds": row.fit_seconds,
        "encode_seconds": row.encode_seconds,
        "search_seconds": row.search_seconds,
    }
    for (split, measure), mean in row.scores.items():
        record[f"{measure}_{split}"] = mean.mean
        record[f"{measure}_{split}_deviation"] = mean.deviation
    return record


def _verdict_section(rows: Sequence[FrontierRow], sizes: Sequence[int]) -> Section:
    main = goal_measures(rows)[0]
    section = Section(f"Who is ahead at which size, by {MEASURES[main]}")
    splits = split_names(rows)
    section.columns = ["bytes", *(f"best, {split}" for split in splits), *(f"best without labels, {s}" for s in splits)]
    for n_bytes in sizes:
        cells = [str(n_bytes)]
        for labels in (True, False):
            for split in splits:
                best = best_at(rows, n_bytes, split, main, labels=labels)
                cells.append("–" if best is None else f"{best.label} {best.score(split, main):.3f}")
        section.rows.append(cells)
    section.notes = [verdict_sentence(verdict) for verdict in verdicts(rows, sizes)]
    return section


def _dominance_section(rows: Sequence[FrontierRow]) -> Section:
    section = Section("What dominates what")
    main = goal_measures(rows)[0]
    section.notes.append(
        f"A method dominates another if it needs no more bytes and has at least its {MEASURES[main]} on all splits. "
        "Methods without a name in the last column are on the frontier."
    )
    section.columns = ["method", "bytes", "dominated by"]
    for row in sorted(rows, key=lambda row: (row.bytes, row.label)):
        other = dominator(row, rows, main)
        by = "" if other is None else f"{other.label}, {other.bytes} bytes"
        section.rows.append([row.label, str(row.bytes), by])
    return section


def frontier_notes(plan: FrontierPlan, measured: Measured) -> list[str]:
    """Sentences about how a frontier was made, and what it leaves out."""
    label_sets = all("seen" not in point.scores for point in measured.points)
    drawn = "Training rows, database and queries are separate draws"
    if label_sets:
        drawn += " (protocol new). Label sets have no classes that could be left out of training."
    else:
        drawn += ", and a third of the classes is left out of training and searched alone (protocol new-unseen)."
    notes = [f"Data: {plan.source.title}. {drawn}"]
    if plan.quick:
        notes.append(
            f"Quick version: at most {QUICK_ROWS:,} training and database rows and {QUICK_QUERIES} queries, one seed "
            "by default. Its numbers differ from those of the whole frontier."
        )
    notes += [f"Left out: {'; '.join(names)} ({reason})." for reason, names in plan.left_out(label_sets).items()]
    if measured.outdated:
        notes.append(
            f"{len(measured.outdated)} fits were made by older code of hashlearn and not made again "
            f"({'; '.join(dict.fromkeys(measured.outdated))})."
        )
    return [*notes, *(f"Failed: {sentence}" for sentence in measured.failed)]
