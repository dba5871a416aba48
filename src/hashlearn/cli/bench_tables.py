"""How ``hashlearn bench`` prints tables: on 80 columns, with short names that a heading explains."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hashlearn.bench import tables
from hashlearn.bench.scoring import FLOAT_COSINE, LIKENESS, RunScores, score_title
from hashlearn.bench.store import BenchRun
from hashlearn.bench.tables import is_stale
from hashlearn.cli.shell import new_table, output, print_json, show_table
from hashlearn.metrics import Rules

_MAY_LACK = ("learned", "e(q)")


def print_scores(found: list[tuple[BenchRun, RunScores]], rules: Rules) -> None:
    """Print a table of the scores of every run, one per split."""
    ball = f"≤{rules.radius}"
    titles = {"map": "MAP", "ndcg": "NDCG", "precision": f"P@{rules.precision_at}"}
    titles |= {"radius_precision": f"P{ball}", "radius_recall": f"R{ball}", "acg": f"ACG{ball}"}
    splits: dict[str, list[tuple[BenchRun, RunScores]]] = {}
    for run, scores in found:
        splits.setdefault(f"{run.definition.data}, {run.definition.split}", []).append((run, scores))
    for split, runs in splits.items():
        what = f"{score_title(rules, 'map')}, {score_title(rules, 'ndcg')}, {rules.ties} ties"
        print(f"{split}: {what}; {ball}: within {rules.radius} bits")
        numbers = ("bits", "seed", *titles.values())
        table = new_table("method", "bits", "seed", "database", *titles.values(), right=numbers, whole=numbers, gap=2)
        for run, scores in runs:
            definition = run.definition
            label = f"{definition.label} (older)" if is_stale(run) else definition.label
            for database, values in scores.items():
                if values is not None:
                    cells = ["–" if values[name] is None else f"{values[name]:.4f}" for name in titles]
                    table.add_row(label, str(definition.n_bits), str(definition.seed), database, *cells)
        show_table(output(), table)


def print_rows(rows: list[tables.TableRow], form: str, failed: list[BenchRun]) -> None:
    """Print rows of means as JSON, CSV, Markdown, or one table per split."""
    if form == "json":
        errors = [{"run": str(run.definition), "error": run.error} for run in failed]
        plain: dict[bool, list[Any]] = {False: [], True: []}
        for row in rows:
            plain[row.method == FLOAT_COSINE].append(tables.plain_row(row))
        print_json({"rows": plain[False], "baselines": plain[True], "failed": errors})
    elif form == "csv":
        print(tables.as_csv([tables.plain_row(row) for row in rows]), end="")
    elif form == "markdown":
        print(tables.as_markdown(tables.TABLE_COLUMNS, [tables.shown(row) for row in rows]))
    else:
        first, beside = tables.HEADING_COLUMNS, len(tables.TABLE_COLUMNS) - len(LIKENESS)
        for heading, group in tables.by_split(rows).items():
            cells = [tables.shown(row) for row in group]
            print_table(heading, tables.TABLE_COLUMNS[first:beside], (line[first:beside] for line in cells))
            likeness = [[*line[first : first + 2], *line[beside:]] for line in cells if line[beside] != "–"]
            if likeness:
                names = [*tables.TABLE_COLUMNS[first : first + 2], *LIKENESS.values()]
                print_table("The same codes without labels (recall@10: neighbors by the floats)", names, likeness)
        if any(row.real for row in rows):
            print(tables.REAL_VALUED)


def print_table(heading: str, columns: Iterable[str], rows: Iterable[list[str]]) -> None:
    """Print a table without the columns of scores that no row has."""
    names, cells = list(columns), list(rows)
    shown = [place for place, name in enumerate(names) if name not in _MAY_LACK or any(r[place] != "–" for r in cells)]
    table = new_table(*(names[place] for place in shown), gap=2)
    for row in cells:
        table.add_row(*(row[place] for place in shown))
    print(heading)
    show_table(output(), table)
