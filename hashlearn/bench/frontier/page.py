"""The page of a frontier: the picture of accuracy against bytes, the table, and what dominates what."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hashlearn.bench.frontier.measure import FrontierPoint
from hashlearn.bench.frontier.methods import FLOATS
from hashlearn.bench.frontier.run import QUICK_QUERIES, QUICK_ROWS, FrontierPlan
from hashlearn.bench.frontier.summary import (
    MEASURES,
    FrontierRow,
    best_at,
    dominator,
    frontier_rows,
    split_names,
    verdict_sentence,
    verdicts,
)
from hashlearn.bench.plots import LinePlot, Panels, svg
from hashlearn.bench.report import write_report
from hashlearn.bench.sections import Section
from hashlearn.files.output import written_whole

# Lines of the picture. The table has all methods; with all of them, a picture could not be read.
_DRAWN = (
    "auto, real-valued queries", "auto, Hamming", "gsdhp, real-valued queries", "ksdh, Hamming", "LDA + PQ",
    "kernel scores + PQ", "itq, real-valued queries", "PQ", "OPQ", "RQ", "LSQ", "RaBitQ", "PCA + sign", "sign bits",
    "sign bits, rescored by int8",
)  # fmt: skip


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


def frontier_picture(title: str, rows: Sequence[FrontierRow], measure: str = "map") -> Panels:
    """Accuracy against bytes on a log axis, one panel for each split."""
    name = MEASURES[measure]
    ticks = [4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048]
    widths = [row.bytes for row in rows]
    ticks = [tick for tick in ticks if min(widths) / 2 < tick <= max(widths)]
    panels = []
    for split in split_names(rows):
        lines: dict[str, tuple[list[float], list[float]]] = {}
        for label in _DRAWN:
            mine = sorted((row for row in rows if row.label == label), key=lambda row: row.bytes)
            if mine:
                lines[label] = ([row.bytes for row in mine], [row.score(split, measure) for row in mine])
        for row in rows:
            if row.label == FLOATS:  # a level line, because the others are compared with it at every size
                score = row.score(split, measure)
                lines[f"{FLOATS}, {row.bytes} bytes"] = ([min(widths), row.bytes], [score, score])
        heading = f"{split} classes" if split in ("seen", "unseen") else split
        panels.append(LinePlot(heading, "bytes per row", name, lines, log_x=True, ticks=ticks))
    return Panels(title, tuple(panels))


def _table_section(rows: Sequence[FrontierRow], picture: Panels, notes: Sequence[str]) -> Section:
    splits = split_names(rows)
    section = Section("Accuracy against bytes", [*notes])
    scores = [f"{name} {split}" for split in splits for name in MEASURES.values()]
    section.columns = ["method", "bytes", *scores, "fit s", "encode µs", "search µs", "model kB", "seeds"]
    for row in sorted(rows, key=lambda row: (row.bytes, -row.score(splits[0]))):
        cells = [str(row.scores[split, measure]) for split in splits for measure in MEASURES]
        times = [f"{row.fit_seconds:.1f}", f"{1e6 * row.encode_seconds:.1f}", f"{1e6 * row.search_seconds:.1f}"]
        section.rows.append([row.label, str(row.bytes), *cells, *times, f"{row.model_bytes / 1e3:.0f}", str(row.seeds)])
        section.records.append(_record(row))
    section.notes += [
        "Bytes count everything that is stored per row: norms, factors, and the vectors of the second stage. Ids are "
        "left out, because every method needs them. Codebooks and models, stored once, are in the column 'model kB'.",
        "MAP of the whole ranking and NDCG@10 are by labels, recall@10 is against the cosine neighbors of the floats; "
        "equal scores count at their expected value. Means ± deviation over seeds. Times are per query, the shortest "
        "measured.",
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
    section = Section("Who is ahead at which size")
    splits = split_names(rows)
    section.columns = ["bytes", *(f"best, {split}" for split in splits), *(f"best without labels, {s}" for s in splits)]
    for n_bytes in sizes:
        cells = [str(n_bytes)]
        for labels in (True, False):
            for split in splits:
                best = best_at(rows, n_bytes, split, labels=labels)
                cells.append("–" if best is None else f"{best.label} {best.score(split):.3f}")
        section.rows.append(cells)
    section.notes = [verdict_sentence(verdict) for verdict in verdicts(rows, sizes)]
    return section


def _dominance_section(rows: Sequence[FrontierRow]) -> Section:
    section = Section("What dominates what")
    section.notes.append(
        "A method dominates another if it needs no more bytes and has at least its MAP on all splits. Methods without "
        "a name in the last column are on the frontier."
    )
    section.columns = ["method", "bytes", "dominated by"]
    for row in sorted(rows, key=lambda row: (row.bytes, row.label)):
        other = dominator(row, rows)
        by = "" if other is None else f"{other.label}, {other.bytes} bytes"
        section.rows.append([row.label, str(row.bytes), by])
    return section


def frontier_notes(plan: FrontierPlan, failed: Sequence[str] = ()) -> list[str]:
    """Sentences about how a frontier was made."""
    notes = [
        f"Data: {plan.source.title}. Training rows, database and queries are separate draws, and a third of the "
        "classes is left out of training and searched alone (protocol new-unseen; label sets: new)."
    ]
    if plan.quick:
        notes.append(
            f"Quick version: at most {QUICK_ROWS:,} training and database rows and {QUICK_QUERIES} queries, one seed "
            "by default, without OPQ, RQ and LSQ. Its numbers differ from those of the whole frontier."
        )
    return [*notes, *(f"Failed: {sentence}" for sentence in failed)]
