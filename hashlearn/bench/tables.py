"""Tables of means and deviations over seeds, and comparisons of two folders of runs."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

import numpy as np

from hashlearn.bench.method_code import is_stale
from hashlearn.bench.scoring import DATABASES, Measures, scores_of
from hashlearn.bench.store import BenchRun, RunStore
from hashlearn.codes import n_bytes

Group = tuple[str, str, str, str, int]


@dataclass(frozen=True)
class SeedMean:
    """Mean and sample deviation over seeds. With one seed there is no deviation."""

    mean: float
    deviation: float | None

    def __str__(self) -> str:
        return f"{self.mean:.4f}" + ("" if self.deviation is None else f" ± {self.deviation:.4f}")


@dataclass(frozen=True)
class TableRow:
    """The scores of a method at a bit length on a split, over its seeds. ``seconds`` is the training time.

    ``stale`` says whether some of the runs were made by older code of the method.
    """

    data: str
    protocol: str
    split: str
    method: str
    bits: int
    bytes: int
    seeds: int
    measure: str
    ties: str
    learned: SeedMean | None
    hashed: SeedMean | None
    seconds: SeedMean
    peak_memory_bytes: int | None
    settings: dict[str, Any]
    stale: bool = False
    real: SeedMean | None = None
    """The hashed database, searched with real-valued queries e(q)."""

    @property
    def group(self) -> Group:
        return self.data, self.protocol, self.split, self.method, self.bits


@dataclass(frozen=True)
class ComparedRow:
    """One score in two folders. ``beyond_seeds`` is None if a folder has one seed only, and so no deviation."""

    data: str
    protocol: str
    split: str
    method: str
    bits: int
    measure: str
    ties: str
    database: str
    first: SeedMean
    second: SeedMean
    difference: float
    beyond_seeds: bool | None


Line = TypeVar("Line", TableRow, ComparedRow)


def mean_of(values: Sequence[float | None]) -> SeedMean | None:
    """Mean and deviation of the values, or None if the value of a seed is missing."""
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):
        return None
    return SeedMean(float(np.mean(known)), float(np.std(known, ddof=1)) if len(known) > 1 else None)


def grouped(runs: Sequence[BenchRun]) -> dict[Group, list[BenchRun]]:
    """Group runs that differ only in the seed. Failed runs are left out.

    If a seed has several runs, one made by the present code counts before those made by older code, and the newest
    counts first. If a folder has one name with several settings, the settings become part of the name, so that runs
    with different settings are not averaged.
    """
    done = sorted((run for run in runs if run.error is None), key=lambda run: (not is_stale(run), run.finished))
    spelled: dict[str, set[str]] = {}
    for run in done:
        spelled.setdefault(run.definition.label, set()).add(_settings_text(run))
    newest: dict[tuple[Group, int], BenchRun] = {}
    for run in done:
        what = run.definition
        label = what.label if len(spelled[what.label]) == 1 else f"{what.label} ({_settings_text(run) or 'defaults'})"
        newest[(what.data, what.protocol, what.split, label, what.n_bits), what.seed] = run
    groups: dict[Group, list[BenchRun]] = {}
    for group, seed in sorted(newest):
        groups.setdefault(group, []).append(newest[group, seed])
    return groups


def _settings_text(run: BenchRun) -> str:
    return " ".join(f"{name}={value}" for name, value in sorted(run.definition.settings.items()))


def usual_score(store: RunStore, runs: Sequence[BenchRun]) -> str:
    """The score that the paper uses: NDCG for label sets and MAP for classes."""
    return "ndcg" if store.labels(runs[0])[0].ndim == 2 else "map"


def table_rows(
    store: RunStore, runs: Sequence[BenchRun], measures: Measures | None = None, score: str | None = None
) -> list[TableRow]:
    """Make a row for each method, bit length and split. ``score`` None means NDCG for label sets, MAP for classes."""
    measures = measures or Measures()
    rows = []
    for (data, protocol, split, label, bits), seeds in grouped(runs).items():
        name = score or usual_score(store, seeds)
        found = [scores_of(store, run, measures) for run in seeds]
        means = {database: mean_of([(one[database] or {}).get(name) for one in found]) for database in DATABASES}
        seconds = mean_of([run.seconds["fit"] for run in seeds])
        memory = [run.peak_memory_bytes for run in seeds if run.peak_memory_bytes is not None]
        assert seconds is not None  # every run that did not fail was timed
        rows.append(
            TableRow(
                data=data,
                protocol=protocol,
                split=split,
                method=label,
                bits=bits,
                bytes=n_bytes(bits),
                seeds=len(seeds),
                measure=measures.title(name),
                ties=measures.ties,
                learned=means["learned"],
                hashed=means["hashed"],
                seconds=seconds,
                peak_memory_bytes=max(memory, default=None),
                settings=seeds[0].definition.settings,
                stale=any(map(is_stale, seeds)),
                real=means["real"],
            )
        )
    return rows


def compare(
    first: Sequence[TableRow], second: Sequence[TableRow]
) -> tuple[list[ComparedRow], list[TableRow], list[TableRow]]:
    """Compare the rows of two folders.

    Returns
    -------
    compared : list of ComparedRow
        Scores that both folders have. A difference is beyond the seeds if it exceeds the deviation of the difference of
        two runs, √(a² + b²).
    only_first, only_second : lists of TableRow
        Rows that only one of the folders has.
    """
    others = {row.group: row for row in second}
    compared = []
    for row in first:
        other = others.get(row.group)
        if other is None:
            continue
        for database in DATABASES:
            a, b = getattr(row, database), getattr(other, database)
            if a is None or b is None:
                continue
            difference = b.mean - a.mean
            both = a.deviation is not None and b.deviation is not None
            beyond = abs(difference) > math.hypot(a.deviation, b.deviation) if both else None
            compared.append(ComparedRow(*row.group, row.measure, row.ties, database, a, b, difference, beyond))
    firsts = {row.group for row in first}
    return compared, [row for row in first if row.group not in others], [r for r in second if r.group not in firsts]


def plain_row(row: TableRow | ComparedRow) -> dict[str, Any]:
    """A flat row of numbers and strings for JSON and CSV. A mean ``x`` is followed by its ``x_deviation``."""
    flat: dict[str, Any] = {}
    for name, value in asdict(row).items():
        if name == "settings":
            flat[name] = value
        elif isinstance(getattr(row, name), SeedMean):
            flat[name], flat[f"{name}_deviation"] = value["mean"], value["deviation"]
        elif name in DATABASES:
            flat[name] = flat[f"{name}_deviation"] = None
        else:
            flat[name] = value
    return flat


def as_csv(rows: Sequence[dict[str, Any]]) -> str:
    """The rows as CSV with a header line. Unknown values are empty."""
    stream = io.StringIO()
    columns = list(dict.fromkeys(name for row in rows for name in row))
    writer = csv.DictWriter(stream, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue()


def as_markdown(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The rows as a Markdown table."""
    lines = [list(columns), ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "/") for cell in line) + " |" for line in lines)


TABLE_COLUMNS = (
    "data",
    "split",
    "measure",
    "method",
    "bits",
    "seeds",
    "learned",
    "hashed",
    "e(q)",
    "seconds",
    "memory",
)
# The number of first columns that a heading can show once for all rows.
HEADING_COLUMNS = 3


def shown(row: TableRow) -> list[str]:
    """The cells of TABLE_COLUMNS as text."""
    memory = "–" if row.peak_memory_bytes is None else f"{row.peak_memory_bytes / 1e6:,.0f} MB"
    means = ["–" if mean is None else str(mean) for mean in (row.learned, row.hashed, row.real)]
    what = [row.data, row.split, f"{row.measure}, {row.ties} ties", row.method, str(row.bits), str(row.seeds)]
    return [*what, *means, f"{row.seconds.mean:.2f}", memory]


COMPARED_COLUMNS = ("method", "bits", "database", "A", "B", "B - A", "beyond")


def shown_compared(row: ComparedRow) -> list[str]:
    """The cells of COMPARED_COLUMNS as text."""
    beyond = {True: "yes", False: "no", None: "one seed"}[row.beyond_seeds]
    sides = [str(row.first), str(row.second)]
    return [row.method, str(row.bits), row.database, *sides, f"{row.difference:+.4f}", beyond]


def by_split(rows: Sequence[Line]) -> dict[str, list[Line]]:
    """Group rows by a heading that names their data set, split and measure."""
    headings: dict[str, list[Line]] = {}
    for row in rows:
        headings.setdefault(f"{row.data}, {row.split}: {row.measure}, {row.ties} ties", []).append(row)
    return headings
