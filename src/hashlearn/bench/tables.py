"""Tables of means and deviations over seeds, and comparisons of two folders of runs."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, NamedTuple, TypeVar

import numpy as np
from scipy import stats

from hashlearn.bench.scoring import (
    DATABASES,
    FLOAT_COSINE,
    FLOAT_NAMES,
    LIKENESS,
    float_cosine,
    score_title,
    scores_of,
    usual_score,
)
from hashlearn.bench.store import BenchRun, RunDefinition, RunStore
from hashlearn.codes import n_bytes
from hashlearn.methods import find_method, method_names
from hashlearn.metrics import Rules

CONFIDENCE = 0.95
NOTHING = "–"
REAL_VALUED = "e(q): the same codes, searched with the expected bits of each query."


class Mean(NamedTuple):
    """Mean and sample deviation over seeds. One seed has no deviation."""

    mean: float
    deviation: float | None

    def __format__(self, spec: str) -> str:
        text = format(self.mean, spec or ".4f")
        return text if self.deviation is None else f"{text} ± {format(self.deviation, spec or '.4f')}"


def mean_of(values: Sequence[float | None]) -> Mean | None:
    """Return mean and deviation of the values, or None if the value of a seed is missing."""
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):
        return None
    return Mean(float(np.mean(known)), float(np.std(known, ddof=1)) if len(known) > 1 else None)


def shown_mean(mean: Mean | None, spec: str = ".4f") -> str:
    """Return the text of a mean, or a dash if it is None."""
    return NOTHING if mean is None else format(mean, spec)


class Difference(NamedTuple):
    """A mean difference of pairs, and half the width of its interval by Student's t; None for one pair."""

    mean: float
    half: float | None
    pairs: int

    @property
    def certain(self) -> bool | None:
        """Whether the interval is without 0; None if there is no interval."""
        return None if self.half is None else abs(self.mean) > self.half

    def __str__(self) -> str:
        if self.half is None:
            return f"{self.mean:+.3f}"
        return f"{self.mean:+.3f} ± {self.half:.3f}{'*' if self.certain else ''}"


@dataclass(frozen=True)
class SeedRow:
    """What was measured of one method: numbers by name, for each seed."""

    by_seed: dict[int, dict[str, float | None]]

    def mean(self, name: str) -> Mean | None:
        """Return mean and deviation of a number; None if a seed lacks it."""
        return mean_of([values.get(name) for values in self.by_seed.values()])

    def minus(self, other: SeedRow, name: str) -> Difference | None:
        """Return the mean difference of a number over the seeds that both rows have; None if there are none.

        Differences are paired by seed, because a draw moves both rows in the same direction.
        """
        both = [(mine.get(name), other.by_seed.get(seed, {}).get(name)) for seed, mine in self.by_seed.items()]
        pairs = [mine - theirs for mine, theirs in both if mine is not None and theirs is not None]
        if len(pairs) < 2:
            return Difference(float(pairs[0]), None, 1) if pairs else None
        error = float(np.std(pairs, ddof=1)) / math.sqrt(len(pairs))
        quantile = float(stats.t.ppf((1 + CONFIDENCE) / 2, len(pairs) - 1))
        return Difference(float(np.mean(pairs)), quantile * error, len(pairs))


def mean_in(row: SeedRow | None, name: str) -> Mean | None:
    """Return the mean of a number of a row, or None if there is no row."""
    return None if row is None else row.mean(name)


@dataclass(frozen=True)
class TableRow(SeedRow):
    """A method at a bit length on a split: its score on each database, training seconds, and what runs measured.

    ``what`` is the definition of the first seed, under the name that the table has; ``runs`` has one run per seed.
    """

    what: RunDefinition
    runs: list[BenchRun]
    measure: str
    ties: str

    @property
    def heading(self) -> str:
        return f"{self.what.data}, {self.what.split}: {self.measure}, {self.ties} ties"

    @property
    def peak_memory_bytes(self) -> int | None:
        return max((run.peak_memory_bytes for run in self.runs if run.peak_memory_bytes is not None), default=None)

    @property
    def place(self) -> tuple[str, str, str, str, int]:
        """What rows of the same method in two folders have in common."""
        what = self.what
        return what.data, what.protocol, what.split, what.label, what.n_bits


class ComparedRow(NamedTuple):
    """A row of one folder and that of another, and the difference of their scores on a database."""

    first: TableRow
    second: TableRow
    database: str
    difference: Difference

    @property
    def heading(self) -> str:
        return self.first.heading


Line = TypeVar("Line", TableRow, ComparedRow)


def grouped(runs: Sequence[BenchRun]) -> list[tuple[RunDefinition, list[BenchRun]]]:
    """Group runs that differ only in the seed, and name each group by a definition. Failed runs are left out.

    If a seed has several runs, one of the present revision counts before the others, and the newest counts first. If a
    folder has one name with several settings, the settings become part of the name, so that runs with different
    settings are not averaged.
    """
    kept = (run for run in runs if run.error is None and run.labels is not None)  # runs of a frontier have no codes
    done = sorted(kept, key=lambda run: (not is_stale(run), run.finished))
    spelled: dict[str, set[str]] = {}
    for run in done:
        spelled.setdefault(run.definition.label, set()).add(settings_text(run.definition.settings))
    groups: dict[tuple[str, str, str, str, int], dict[int, BenchRun]] = {}
    for run in done:
        what = run.definition
        label = what.label
        if len(spelled[label]) > 1:
            label = f"{label} ({settings_text(what.settings) or 'defaults'})"
        groups.setdefault((what.data, what.protocol, what.split, label, what.n_bits), {})[what.seed] = run
    found = []
    for place, by_seed in sorted(groups.items()):
        seeds = [by_seed[seed] for seed in sorted(by_seed)]
        found.append((replace(seeds[0].definition, label=place[3]), seeds))
    return found


def settings_text(settings: dict[str, Any]) -> str:
    """Return settings as text: ``name=value name=value``."""
    return " ".join(f"{name}={value}" for name, value in sorted(settings.items()))


def is_stale(run: BenchRun) -> bool:
    """Return whether a run was made by another revision of its method, or by a method that no longer exists."""
    what = run.definition
    return what.method not in method_names() or what.revision != find_method(what.method).info.revision


def stale_remark(runs: Sequence[BenchRun]) -> str | None:
    """Return a sentence about the runs of other revisions that were not repeated with the present one, or None."""
    done = [run for run in runs if run.error is None and run.labels is not None]
    present = {run.definition.any_revision().key for run in done if not is_stale(run)}
    # Several older runs with one definition are counted once, because one new run replaces them.
    older = {key: run for run in done if (key := run.definition.any_revision().key) not in present}
    if not older:
        return None
    labels = ", ".join(dict.fromkeys(run.definition.label for run in older.values()))
    return (
        f"{len(older)} of {len(present) + len(older)} runs were made by another revision of their methods ({labels}); "
        "'hashlearn bench run' makes them again."
    )


def table_rows(
    store: RunStore,
    runs: Sequence[BenchRun],
    rules: Rules | None = None,
    score: str | None = None,
    *,
    floats: bool = False,
) -> list[TableRow]:
    """Make a row for each method, bit length and split. ``score`` None means NDCG for label sets, MAP for classes.

    With ``floats`` the rows of each split end with one of float cosine, unless the data is not there any more.
    """
    rules = rules or Rules()
    rows = []
    for _, groups in groupby(grouped(runs), key=lambda group: (group[0].data, group[0].protocol, group[0].split)):
        runs_of_split: dict[int, BenchRun] = {}
        for what, seeds in groups:
            name = score or usual_score(store, seeds[0])
            by_seed = {}
            for run in seeds:
                scores = scores_of(store, run, rules)
                found = {database: (scores[database] or {}).get(name) for database in DATABASES}
                by_seed[run.definition.seed] = {**found, "seconds": run.seconds["fit"], **run.measured}
                runs_of_split.setdefault(run.definition.seed, run)
            rows.append(TableRow(by_seed, what, seeds, score_title(rules, name), rules.ties))
        if floats:
            rows += _cosine_rows(store, runs_of_split, rules, name)
    return rows


def _cosine_rows(store: RunStore, runs: dict[int, BenchRun], rules: Rules, name: str) -> list[TableRow]:
    """Return the row of float cosine on a split, or nothing for scores of balls and where its data is not there."""
    by_seed: dict[int, dict[str, float | None]] = {}
    for seed, run in runs.items():
        scores = float_cosine(store, run, rules) if name in FLOAT_NAMES else None
        if scores is None:
            return []
        by_seed[seed] = {"hashed": scores[name], "seconds": 0.0}
    run = next(iter(runs.values()))
    what = replace(run.definition, label=FLOAT_COSINE, settings={}, n_bits=32 * run.rows["features"])
    return [TableRow(by_seed, what, [], score_title(rules, name), rules.ties)]


def compare(
    first: Sequence[TableRow], second: Sequence[TableRow]
) -> tuple[list[ComparedRow], list[TableRow], list[TableRow]]:
    """Compare the rows of two folders.

    Returns
    -------
    compared : list of ComparedRow
        Scores that both folders have for some seed.
    only_first, only_second : lists of TableRow
        Rows that only one of the folders has.
    """
    ours, theirs = ({row.place: row for row in rows} for rows in (first, second))
    both = [(row, theirs[place], database) for place, row in ours.items() if place in theirs for database in DATABASES]
    compared = [
        ComparedRow(row, other, database, difference)
        for row, other, database in both
        if (difference := other.minus(row, database)) is not None
    ]
    only_first, only_second = (
        [row for place, row in mine.items() if place not in others] for mine, others in ((ours, theirs), (theirs, ours))
    )
    return compared, only_first, only_second


def plain_row(row: TableRow | ComparedRow) -> dict[str, Any]:
    """Return a flat row of numbers and strings for JSON and CSV. A mean ``x`` is followed by its ``x_deviation``."""
    if isinstance(row, ComparedRow):
        sides = {"first": row.first.mean(row.database), "second": row.second.mean(row.database)}
        found = row.difference
        differs = {"difference": found.mean, "interval": found.half, "certain": found.certain}
        return _facts(row.first) | {"database": row.database, "seeds": found.pairs} | _plain_means(sides) | differs
    measured = dict.fromkeys(
        [*DATABASES, "seconds", *LIKENESS, *(name for one in row.by_seed.values() for name in one)]
    )
    facts = {"bytes": n_bytes(row.what.n_bits), "seeds": len(row.by_seed)}
    about = {"peak_memory_bytes": row.peak_memory_bytes, "settings": row.what.settings}
    about["stale"] = any(map(is_stale, row.runs))
    return _facts(row) | facts | _plain_means({name: row.mean(name) for name in measured}) | about


def _facts(row: TableRow) -> dict[str, Any]:
    names = ("data", "protocol", "split", "method", "bits")
    return dict(zip(names, row.place, strict=True)) | {"measure": row.measure, "ties": row.ties}


def _plain_means(means: dict[str, Mean | None]) -> dict[str, float | None]:
    plain: dict[str, float | None] = {}
    for name, mean in means.items():
        plain[name], plain[f"{name}_deviation"] = mean or (None, None)
    return plain


def as_csv(rows: Sequence[dict[str, Any]]) -> str:
    """Return the rows as CSV with a header line. Unknown values are empty."""
    stream = io.StringIO()
    columns = list(dict.fromkeys(name for row in rows for name in row))
    writer = csv.DictWriter(stream, columns, lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({name: settings_text(v) if isinstance(v, dict) else v for name, v in row.items()})
    return stream.getvalue()


def as_markdown(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return the rows as a Markdown table."""
    lines = [list(columns), ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "/") for cell in line) + " |" for line in lines)


TABLE_COLUMNS = (
    "data", "split", "measure", "method", "bits", "seeds", "learned", "hashed", "e(q)", "seconds", "memory",
    *LIKENESS.values(),
)  # fmt: skip
# The number of first columns that a heading can show once for all rows.
HEADING_COLUMNS = 3


def shown(row: TableRow) -> list[str]:
    """Return the cells of TABLE_COLUMNS as text."""
    what, seconds = row.what, row.mean("seconds")
    memory = NOTHING if row.peak_memory_bytes is None else f"{row.peak_memory_bytes / 1e6:,.0f} MB"
    facts = [what.data, what.split, f"{row.measure}, {row.ties} ties", what.label, str(what.n_bits)]
    means = [shown_mean(row.mean(database)) for database in DATABASES]
    beside = [NOTHING if (mean := row.mean(name)) is None else f"{mean.mean:.3f}" for name in LIKENESS]
    return [*facts, str(len(row.by_seed)), *means, f"{seconds.mean:.2f}" if seconds else NOTHING, memory, *beside]


COMPARED_COLUMNS = ("method", "bits", "database", "A", "B", "seeds", "B - A")


def shown_compared(row: ComparedRow) -> list[str]:
    """Return the cells of COMPARED_COLUMNS as text."""
    # Without leading zeros the table fits into 80 columns.
    sides = [re.sub(r"\b0\.", ".", shown_mean(side.mean(row.database))) for side in (row.first, row.second)]
    what, found = row.first.what, row.difference
    return [what.label, str(what.n_bits), row.database, *sides, str(found.pairs), str(found)]


def by_split(rows: Sequence[Line]) -> dict[str, list[Line]]:
    """Group rows by a heading that names their data set, split and measure."""
    headings: dict[str, list[Line]] = {}
    for row in rows:
        headings.setdefault(row.heading, []).append(row)
    return headings
