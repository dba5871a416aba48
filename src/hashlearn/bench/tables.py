"""Tables of means and deviations over seeds, and comparisons of two folders of runs."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

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
from hashlearn.bench.store import BenchRun, RunStore
from hashlearn.codes import n_bytes
from hashlearn.methods import find_method, method_names
from hashlearn.metrics import Rules

Group = tuple[str, str, str, str, int]


@dataclass(frozen=True)
class SeedMean:
    """Mean and sample deviation over seeds, and the values in the order of the seeds. One seed has no deviation."""

    mean: float
    deviation: float | None
    values: tuple[float, ...] = ()

    def __str__(self) -> str:
        return f"{self.mean:.4f}" + ("" if self.deviation is None else f" ± {self.deviation:.4f}")


@dataclass(frozen=True)
class TableRow:
    """The scores of a method at a bit length on a split, over its seeds. ``seconds`` is the training time.

    ``stale`` says whether some of the runs were made by another revision of the method.
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
    neighbor_recall: SeedMean | None = None
    own_row_first: SeedMean | None = None
    distinct_codes: SeedMean | None = None
    seed_numbers: tuple[int, ...] = ()

    @property
    def group(self) -> Group:
        return self.data, self.protocol, self.split, self.method, self.bits


@dataclass(frozen=True)
class ComparedRow:
    """One score in two folders, and the difference over the seeds that both have.

    ``interval`` is half the width of its interval, and None if they share one seed only.
    """

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
    seeds: int
    difference: float
    interval: float | None
    certain: bool | None


Line = TypeVar("Line", TableRow, ComparedRow)


def mean_of(values: Sequence[float | None]) -> SeedMean | None:
    """Return mean and deviation of the values, or None if the value of a seed is missing."""
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):
        return None
    deviation = float(np.std(known, ddof=1)) if len(known) > 1 else None
    return SeedMean(float(np.mean(known)), deviation, tuple(known))


CONFIDENCE = 0.95


@dataclass(frozen=True)
class Difference:
    """A mean difference of paired values, and half the width of its interval by Student's t; None for one pair."""

    mean: float
    half: float | None

    @classmethod
    def paired(cls, differences: Sequence[float]) -> Difference:
        """Make it from the differences of the pairs, of which there must be at least one."""
        if len(differences) < 2:
            return cls(float(differences[0]), None)
        error = float(np.std(differences, ddof=1)) / math.sqrt(len(differences))
        quantile = float(stats.t.ppf((1 + CONFIDENCE) / 2, len(differences) - 1))
        return cls(float(np.mean(differences)), quantile * error)

    @property
    def certain(self) -> bool | None:
        """Whether the interval is without 0; None if there is no interval."""
        return None if self.half is None else abs(self.mean) > self.half

    def __str__(self) -> str:
        if self.half is None:
            return f"{self.mean:+.3f}"
        return f"{self.mean:+.3f} ± {self.half:.3f}{'*' if self.certain else ''}"


def grouped(runs: Sequence[BenchRun]) -> dict[Group, list[BenchRun]]:
    """Group runs that differ only in the seed. Failed runs are left out.

    If a seed has several runs, one of the present revision counts before the others, and the newest
    counts first. If a folder has one name with several settings, the settings become part of the name, so that runs
    with different settings are not averaged.
    """
    kept = (run for run in runs if run.error is None and run.labels is not None)  # runs of a frontier have no codes
    done = sorted(kept, key=lambda run: (not is_stale(run), run.finished))
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
    store: RunStore, runs: Sequence[BenchRun], rules: Rules | None = None, score: str | None = None
) -> list[TableRow]:
    """Make a row for each method, bit length and split. ``score`` None means NDCG for label sets, MAP for classes."""
    rules = rules or Rules()
    rows = []
    for (data, protocol, split, label, bits), seeds in grouped(runs).items():
        name = score or usual_score(store, seeds[0])
        found = [scores_of(store, run, rules) for run in seeds]
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
                measure=score_title(rules, name),
                ties=rules.ties,
                learned=means["learned"],
                hashed=means["hashed"],
                seconds=seconds,
                peak_memory_bytes=max(memory, default=None),
                settings=seeds[0].definition.settings,
                stale=any(map(is_stale, seeds)),
                real=means["real"],
                **{name: mean_of([run.measured.get(name) for run in seeds]) for name in LIKENESS},
                seed_numbers=tuple(run.definition.seed for run in seeds),
            )
        )
    return rows


def cosine_rows(
    store: RunStore, runs: Sequence[BenchRun], rules: Rules | None = None, score: str | None = None
) -> list[TableRow]:
    """Make a row of float cosine for each split. Splits whose data is not there, and scores of balls, have none."""
    rules = rules or Rules()
    splits: dict[tuple[str, str, str], dict[int, BenchRun]] = {}
    for (data, name, split, *_), seeds in grouped(runs).items():
        splits.setdefault((data, name, split), {}).update({run.definition.seed: run for run in seeds})
    rows = []
    for (data, name, split), by_seed in splits.items():
        chosen = list(by_seed.values())
        measure = score or usual_score(store, chosen[0])
        found = [float_cosine(store, run, rules) for run in chosen] if measure in FLOAT_NAMES else []
        mean = mean_of([None if one is None else one[measure] for one in found])
        if mean is None:
            continue
        width = chosen[0].rows["features"]
        row = TableRow(data, name, split, FLOAT_COSINE, 32 * width, 4 * width, len(chosen), score_title(rules, measure),
                       rules.ties, None, mean, SeedMean(0.0, None), None, {})  # fmt: skip
        rows.append(row)
    return rows


def with_cosine(
    store: RunStore,
    rows: Sequence[TableRow],
    runs: Sequence[BenchRun],
    rules: Rules | None = None,
    score: str | None = None,
) -> list[TableRow]:
    """Return the rows of a table with a row of float cosine after those of each split."""
    baselines = {_split_of(row): row for row in cosine_rows(store, runs, rules, score)}
    result: list[TableRow] = []
    for number, row in enumerate(rows):
        result.append(row)
        last = number + 1 == len(rows) or _split_of(rows[number + 1]) != _split_of(row)
        if last and _split_of(row) in baselines:
            result.append(baselines[_split_of(row)])
    return result


def _split_of(row: TableRow) -> tuple[str, str, str]:
    return row.data, row.protocol, row.split


def compare(
    first: Sequence[TableRow], second: Sequence[TableRow]
) -> tuple[list[ComparedRow], list[TableRow], list[TableRow]]:
    """Compare the rows of two folders.

    Returns
    -------
    compared : list of ComparedRow
        Scores that both folders have for some seed. Differences are paired by seed, because a draw moves both folders
        in the same direction.
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
            before, after = (dict(zip(one.seed_numbers, s.values, strict=True)) for one, s in ((row, a), (other, b)))
            pairs = [after[seed] - before[seed] for seed in before if seed in after]
            if pairs:
                found = Difference.paired(pairs)
                facts = (len(pairs), found.mean, found.half, found.certain)
                compared.append(ComparedRow(*row.group, row.measure, row.ties, database, a, b, *facts))
    firsts = {row.group for row in first}
    return compared, [row for row in first if row.group not in others], [r for r in second if r.group not in firsts]


def plain_row(row: TableRow | ComparedRow) -> dict[str, Any]:
    """Return a flat row of numbers and strings for JSON and CSV. A mean ``x`` is followed by its ``x_deviation``."""
    flat: dict[str, Any] = {}
    for name, value in asdict(row).items():
        if name == "seed_numbers":
            continue
        if name == "settings":
            flat[name] = value
        elif isinstance(getattr(row, name), SeedMean):
            flat[name], flat[f"{name}_deviation"] = value["mean"], value["deviation"]
        elif name in (*DATABASES, *LIKENESS):
            flat[name] = flat[f"{name}_deviation"] = None
        else:
            flat[name] = value
    return flat


def as_csv(rows: Sequence[dict[str, Any]]) -> str:
    """Return the rows as CSV with a header line. Unknown values are empty."""
    stream = io.StringIO()
    columns = list(dict.fromkeys(name for row in rows for name in row))
    writer = csv.DictWriter(stream, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue()


def as_markdown(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return the rows as a Markdown table."""
    lines = [list(columns), ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "/") for cell in line) + " |" for line in lines)


REAL_VALUED = "e(q): the same codes, searched with the expected bits of each query."
TABLE_COLUMNS = (
    "data", "split", "measure", "method", "bits", "seeds", "learned", "hashed", "e(q)", "seconds", "memory",
    *LIKENESS.values(),
)  # fmt: skip
# The number of first columns that a heading can show once for all rows.
HEADING_COLUMNS = 3


def shown(row: TableRow) -> list[str]:
    """Return the cells of TABLE_COLUMNS as text."""
    memory = "–" if row.peak_memory_bytes is None else f"{row.peak_memory_bytes / 1e6:,.0f} MB"
    means = ["–" if mean is None else str(mean) for mean in (row.learned, row.hashed, row.real)]
    what = [row.data, row.split, f"{row.measure}, {row.ties} ties", row.method, str(row.bits), str(row.seeds)]
    beside = ["–" if (mean := getattr(row, name)) is None else f"{mean.mean:.3f}" for name in LIKENESS]
    return [*what, *means, f"{row.seconds.mean:.2f}", memory, *beside]


COMPARED_COLUMNS = ("method", "bits", "database", "A", "B", "seeds", "B - A")


def shown_compared(row: ComparedRow) -> list[str]:
    """Return the cells of COMPARED_COLUMNS as text."""
    # Without leading zeros the table fits into 80 columns.
    sides = [re.sub(r"\b0\.", ".", str(side)) for side in (row.first, row.second)]
    difference = str(Difference(row.difference, row.interval))
    return [row.method, str(row.bits), row.database, *sides, str(row.seeds), difference]


def by_split(rows: Sequence[Line]) -> dict[str, list[Line]]:
    """Group rows by a heading that names their data set, split and measure."""
    headings: dict[str, list[Line]] = {}
    for row in rows:
        headings.setdefault(f"{row.data}, {row.split}: {row.measure}, {row.ties} ties", []).append(row)
    return headings
