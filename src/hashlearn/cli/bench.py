"""``hashlearn bench``: make runs, keep them, score them again, compare them, and measure accuracy per byte."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from hashlearn.bench import frontier as frontiers
from hashlearn.bench import runner, tables
from hashlearn.bench.frontier_page import write_frontier
from hashlearn.bench.paper import tables as paper
from hashlearn.bench.paper.report import make_paper_report
from hashlearn.bench.plan import plan_from_options, spread_lists
from hashlearn.bench.plots import need_bench_extra
from hashlearn.bench.report import folder_sections, write_report
from hashlearn.bench.scoring import (
    CHOICES,
    FLOAT_COSINE,
    LIKENESS,
    NAMES,
    RunScores,
    check_score,
    rules_from_options,
    score_title,
    scores_of,
)
from hashlearn.bench.store import BenchRun, RunStore
from hashlearn.bench.tables import is_stale, stale_remark
from hashlearn.cli.options import AsJson, DataDir, EmbedOption, TextOption, command_group
from hashlearn.cli.shell import BadUse, as_bad_use, epilog, print_json, print_table, progress, say
from hashlearn.data.catalog import DATA_SETS
from hashlearn.data.own import DataSource
from hashlearn.metrics import Rules

app, bench = command_group(
    "bench",
    "Run benchmarks of many methods on a named split; keep, tabulate and compare the results.",
    "hashlearn bench run --data digits --methods auto gsdhp itq --bits 16 32 -o results",
    "hashlearn bench table results --markdown",
)


_LONG_SECONDS = 60.0
"""Methods whose training takes this long get one seed in the report of the paper."""


class ListCommand(TyperCommand):
    """A command whose list options take several values: ``--bits 16 64`` is ``--bits 16 --bits 64``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        lists = {name for one in self.params if getattr(one, "multiple", False) for name in one.opts}
        return super().parse_args(ctx, spread_lists(args, lists))


Data = Annotated[
    str | None,
    typer.Option("--data", help="A data set, or a file of your own (default: the protocol's data set)."),
]
DataLabels = Annotated[
    str | None, typer.Option("--labels", help="Labels of your file: a column or array in it, or another file.")
]
ReportFolder = Annotated[str, typer.Option("--output", "-o", metavar="FOLDER", help="Folder for the report.")]
Threads = Annotated[int | None, typer.Option("--threads", min=1, help="Threads per run (default: cores / jobs).")]
Folder = Annotated[str, typer.Argument(metavar="RESULTS", help="Folder of runs from [bold]bench run[/bold].")]
ScoreName = Annotated[
    str | None,
    typer.Option("--score", help=f"One of {', '.join(NAMES)} (default: ndcg for label sets, map for classes)."),
]
Tie = Annotated[str, typer.Option("--ties", help=f"Order of equal distances: {', '.join(CHOICES['ties'])}.")]
At = Annotated[int, typer.Option("--at", min=0, help="Cut-off of MAP and recall; 0 is the whole database.")]
NdcgAt = Annotated[int, typer.Option("--ndcg-at", min=1, help="Cut-off of NDCG.")]
Radius = Annotated[int, typer.Option("--radius", min=0, help="Hamming radius of the scores within a ball.")]
Denominator = Annotated[
    str, typer.Option("--denominator", help=f"Denominator of AP: {', '.join(CHOICES['denominator'])}.")
]
Jobs = Annotated[int, typer.Option("--jobs", min=1, help="Number of runs at the same time, each in its own process.")]


@bench.command(
    "run",
    cls=ListCommand,
    epilog=epilog(
        "hashlearn bench run --data mine.npz --labels y --methods auto gsdhp itq -o results",
        "hashlearn bench run --protocol new --data coco18 --methods auto gsdhp itq -o results",
        "hashlearn bench run --protocol cifar10-1k --methods gsdhp ksh --bits 16 64 --seeds 3 -o results",
        "hashlearn bench run plan.toml --jobs 2 -o results",
    ),
)
def run_bench(
    plan_file: Annotated[
        str | None, typer.Argument(metavar="PLAN.toml", help="A plan file, instead of options.")
    ] = None,
    protocol: Annotated[
        str | None, typer.Option(help="A named split; see [bold]hashlearn data list[/bold] (default: mixed).")
    ] = None,
    methods: Annotated[list[str] | None, typer.Option(help="Methods, several at once.")] = None,
    bits: Annotated[list[int] | None, typer.Option(help="Bit lengths, several at once (default: 16 32 64).")] = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="Number of seeds: 0, 1, 2 … (default: 1).")] = None,
    data: Data = None,
    labels: DataLabels = None,
    text: TextOption = None,
    embed: EmbedOption = None,
    data_dir: DataDir = None,
    out: Annotated[str, typer.Option("--output", "-o", metavar="FOLDER", help="Folder for the runs.")] = "results",
    jobs: Jobs = 1,
    threads: Threads = None,
    as_json: AsJson = False,
) -> int:
    """Make the runs of a plan that the folder does not contain yet.

    Runs that were of another revision of their method are made again.
    The exit code is 1 if a run failed; its error message is kept with it.
    """
    options = {"--protocol": protocol, "--methods": methods, "--bits": bits, "--seeds": seeds}
    options |= {"--data": data, "--labels": labels, "--text": text, "--embed": embed}
    plan = plan_from_options(plan_file, options)
    with progress("runs", runner.PHASE):
        outcome = runner.run_plan(plan, out, data_dir, jobs=jobs, threads=threads, on_finished=_finished())
    say(f"{len(outcome.made)} runs made, {len(outcome.kept)} were there already, {len(outcome.failed)} failed.")
    runs = [run for run in (*outcome.kept, *outcome.made) if run.error is None]
    rows = tables.table_rows(RunStore(out), runs, floats=True)
    print_rows(rows, "json" if as_json else "text", failed=outcome.failed)
    return 1 if outcome.failed else 0


@bench.command(epilog=epilog("hashlearn bench score results --ties stable --at 1000 --json"))
def score(
    folder: Folder,
    ties: Tie = "expected",
    at: At = 500,
    ndcg_at: NdcgAt = 50,
    radius: Radius = 2,
    denominator: Denominator = "retrieved",
    as_json: AsJson = False,
) -> None:
    """Score every run again from its codes, without training."""
    store = RunStore(folder)
    rules = rules_from_options(ties=ties, at=at, ndcg_at=ndcg_at, radius=radius, denominator=denominator)
    runs = [run for run in store.runs() if run.error is None]
    found = [(run, scores_of(store, run, rules)) for run in runs]
    _say_stale(runs)
    if as_json:
        facts = [
            {"run": run.key, "method": run.definition.label, "bits": run.definition.n_bits}
            | {"stale": is_stale(run), "scores": scores}
            for run, scores in found
        ]
        print_json({"ties": ties, "at": at or None, "ndcg_at": ndcg_at, "radius": radius, "runs": facts})
        return
    print_scores(found, rules)


@bench.command("table", epilog=epilog("hashlearn bench table results", "hashlearn bench table results --csv"))
def table(
    folder: Folder,
    score: ScoreName = None,
    ties: Tie = "expected",
    at: At = 500,
    ndcg_at: NdcgAt = 50,
    radius: Radius = 2,
    as_json: AsJson = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print a Markdown table.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print comma-separated values.")] = False,
) -> None:
    """Print mean and deviation over seeds, for the learned and the hashed database, and training seconds."""
    if as_json + markdown + as_csv > 1:
        raise BadUse("Choose one of --json, --markdown and --csv.")
    store = RunStore(folder)
    runs = store.runs()
    rules = rules_from_options(ties=ties, at=at, ndcg_at=ndcg_at, radius=radius)
    rows = tables.table_rows(store, runs, rules, check_score(score), floats=True)
    form = "json" if as_json else "markdown" if markdown else "csv" if as_csv else "text"
    failed = [run for run in runs if run.error is not None]
    print_rows(rows, form, failed)
    _say_stale(runs)
    for run in failed:
        say(f"{run.definition} failed: {run.error}")


@bench.command("compare", epilog=epilog("hashlearn bench compare results-old results-new"))
def compare_folders(
    first: Annotated[str, typer.Argument(metavar="A", help="Folder of runs.")],
    second: Annotated[str, typer.Argument(metavar="B", help="Folder of runs.")],
    score: ScoreName = None,
    ties: Tie = "expected",
    at: At = 500,
    ndcg_at: NdcgAt = 50,
    radius: Radius = 2,
    as_json: AsJson = False,
) -> None:
    """Compare two folders: print the differences B - A over the seeds of both, and which of them are certain."""
    rules, name = rules_from_options(ties=ties, at=at, ndcg_at=ndcg_at, radius=radius), check_score(score)
    both = []
    for folder in (first, second):
        runs = RunStore(folder).runs()
        _say_stale(runs, f"{folder}: ")
        both.append(tables.table_rows(RunStore(folder), runs, rules, name))
    compared, only_first, only_second = tables.compare(*both)
    if as_json:
        parts: dict[str, Any] = {"compared": compared, "only_a": only_first, "only_b": only_second}
        print_json({name: [tables.plain_row(row) for row in part] for name, part in parts.items()})
        return
    for heading, compared_here in tables.by_split(compared).items():
        print_group(heading, tables.COMPARED_COLUMNS, map(tables.shown_compared, compared_here))
    if compared:
        print("B - A: mean ± 95 % interval over common seeds; * is an interval without 0")
    for side, rows in (("A", only_first), ("B", only_second)):
        if rows:
            names = (f"{row.what.label} {row.what.n_bits} bits on {row.what.split}" for row in rows)
            say(f"only in {side}: {', '.join(names)}.")


@bench.command("report", epilog=epilog("hashlearn bench report results -o report"))
def report_folder(
    folder: Folder,
    out: ReportFolder = "report",
    title: Annotated[str, typer.Option(help="Heading of the page.")] = "Benchmark",
    score: ScoreName = None,
    ties: Tie = "expected",
    at: At = 500,
    ndcg_at: NdcgAt = 50,
    radius: Radius = 2,
) -> None:
    """Write kept runs as Markdown, CSV, JSON and one HTML page with plots."""
    store = RunStore(folder)
    rules = rules_from_options(ties=ties, at=at, ndcg_at=ndcg_at, radius=radius)
    for path in write_report(out, title, folder_sections(store, rules, check_score(score)), store.runs()):
        print(path)


@bench.command(
    "paper",
    cls=ListCommand,
    epilog=epilog(
        "hashlearn bench paper --table 1 2 --figure 5 --data-dir data -o report",
        "hashlearn bench paper --data-dir data -o report",
    ),
)
def paper_report(
    table: Annotated[list[int] | None, typer.Option(help="Tables, 1 to 6, several at once.")] = None,
    figure: Annotated[list[int] | None, typer.Option(help="Figures, 1 to 5, several at once.")] = None,
    data_dir: DataDir = None,
    out: ReportFolder = "report",
    seeds: Annotated[int, typer.Option(min=1, help="Number of seeds, if training takes under a minute.")] = 3,
    methods: Annotated[list[str] | None, typer.Option(help="Only these methods.")] = None,
    bits: Annotated[list[int] | None, typer.Option(help="Only these bit lengths.")] = None,
    protocols: Annotated[
        list[str] | None, typer.Option(help="Only these protocols, of those that a table has.")
    ] = None,
    kept: Annotated[bool, typer.Option("--kept", help="Run nothing; report on the runs that exist.")] = False,
    jobs: Jobs = 1,
    threads: Threads = None,
) -> int:
    """Make the paper's tables and figures for which there is data, all or those named, with its numbers beside ours.

    The tables also have the methods that the paper has no row for.

    Runs are kept in FOLDER/runs, so that the command can be stopped and started again.
    """
    items = paper.chosen(table or [], figure or [])
    with progress("runs", runner.PHASE):
        made = make_paper_report(
            items,
            out,
            data_dir,
            seeds=seeds,
            further_below=_LONG_SECONDS,
            methods=methods,
            bits=bits,
            protocols=protocols,
            kept=kept,
            jobs=jobs,
            threads=threads,
            on_finished=_finished(),
        )
    for sentence in made.left_out:
        say(sentence)
    for path in made.paths:
        print(path)
    return 1 if made.failed else 0


@bench.command(
    "frontier",
    cls=ListCommand,
    epilog=epilog(
        "hashlearn bench frontier mine.npz --labels y -o frontier",
        "hashlearn bench frontier --data clinc150-minilm --data-dir data --bytes 16 --no-budgets",
        "hashlearn bench frontier texts.csv --text question --labels topic --embed all-MiniLM-L6-v2 --quick",
    ),
)
def frontier(
    file: Annotated[str | None, typer.Argument(metavar="[FILE]", help="Your file of features or texts.")] = None,
    data: Data = None,
    labels: DataLabels = None,
    text: TextOption = None,
    embed: EmbedOption = None,
    data_dir: DataDir = None,
    out: ReportFolder = "frontier",
    sizes: Annotated[list[int] | None, typer.Option("--bytes", help="Bytes per row (default: 8 16 32).")] = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="Number of seeds (default: 5; 1 with --quick).")] = None,
    methods: Annotated[list[str] | None, typer.Option(help="Only these methods, by the names in the table.")] = None,
    labels_per_class: Annotated[
        list[int] | None, typer.Option(help="Also with at most this many labels of each class (default: 5 20 100).")
    ] = None,
    wrong_labels: Annotated[
        list[float] | None, typer.Option(help="Also with this share of wrong labels, from 0 to 1 (default: 0.2 0.4).")
    ] = None,
    no_budgets: Annotated[bool, typer.Option("--no-budgets", help="With all labels only.")] = False,
    matryoshka: Annotated[
        bool, typer.Option("--matryoshka", help="The model was made to be cut: also measure its first dimensions.")
    ] = False,
    against: Annotated[
        str, typer.Option(help="The row of the table that all others are compared with.")
    ] = FLOAT_COSINE,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer rows, one seed, all labels only.")] = False,
    threads: Threads = None,
) -> int:
    """Compare codes at equal bytes in a database of known classes and of classes without labels.

    Writes one page with the picture of accuracy against bytes, the table, and paired differences over the seeds. Fits
    are kept in FOLDER/runs, so that the command can be stopped and started again.
    """
    if (file is None) == (data is None):
        raise BadUse("Give either a file of your own or --data with the name of a data set.")
    name = str(file or data)
    need_bench_extra()
    with as_bad_use(ValueError):
        source = DataSource(name, labels, text, embed)
    budgets = [frontiers.ALL_LABELS, *map(frontiers.LabelBudget, labels_per_class or ())]
    budgets += [frontiers.LabelBudget(None, share) for share in wrong_labels or ()]
    if len(budgets) > 1 and no_budgets:
        raise BadUse("--no-budgets contradicts --labels-per-class and --wrong-labels.")
    if len(budgets) == 1 and not (quick or no_budgets):
        budgets = list(frontiers.BUDGETS)
    plan = frontiers.FrontierPlan(
        source,
        tuple(dict.fromkeys(sizes or (8, 16, 32))),
        seeds or (1 if quick else 5),
        quick,
        tuple(methods or ()),
        tuple(dict.fromkeys(budgets)),
        matryoshka,
    )
    with progress("runs", runner.PHASE):
        measured = frontiers.run_frontier(plan, out, data_dir, threads=threads, on_finished=_finished())
    if not any(run.views for run in measured.runs):
        return 1
    title = DATA_SETS[name].title if name in DATA_SETS else Path(name).name
    for path in write_frontier(out, title, plan, measured, against):
        print(path)
    return 1 if measured.failed else 0


def _say_stale(runs: list[BenchRun], before: str = "") -> None:
    remark = stale_remark(runs)
    if remark:
        say(before + remark)


def _finished() -> Callable[[BenchRun, int, int], None]:
    """Return what prints a line on standard error for each finished run, with an estimate of the time left."""
    started = time.monotonic()

    def finished(run: BenchRun, done: int, total: int) -> None:
        if run.unsuited:
            return  # the page of the frontier says why
        if run.error is not None:
            say(f"{run.definition} failed: {run.error}")
        elif not sys.stderr.isatty():
            left = (time.monotonic() - started) / done * (total - done)
            say(f"{done}/{total} {run.definition}: {run.seconds['fit']:.2f} s to train, about {left:.0f} s left.")

    return finished


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
        rows = []
        for run, scores in runs:
            definition = run.definition
            label = f"{definition.label} (older)" if is_stale(run) else definition.label
            for database, values in scores.items():
                if values is not None:
                    cells = ["–" if values[name] is None else f"{values[name]:.4f}" for name in titles]
                    rows.append((label, str(definition.n_bits), str(definition.seed), database, *cells))
        print_table(("method", "bits", "seed", "database", *titles.values()), rows, right=numbers)


def print_rows(rows: list[tables.TableRow], form: str, failed: list[BenchRun]) -> None:
    """Print rows of means as JSON, CSV, Markdown, or one table per split."""
    if form == "json":
        errors = [{"run": str(run.definition), "error": run.error} for run in failed]
        plain: dict[bool, list[Any]] = {False: [], True: []}
        for row in rows:
            plain[row.what.label == FLOAT_COSINE].append(tables.plain_row(row))
        print_json({"rows": plain[False], "baselines": plain[True], "failed": errors})
    elif form == "csv":
        print(tables.as_csv([tables.plain_row(row) for row in rows]), end="")
    elif form == "markdown":
        print(tables.as_markdown(tables.TABLE_COLUMNS, [tables.shown(row) for row in rows]))
    else:
        first, beside = tables.HEADING_COLUMNS, len(tables.TABLE_COLUMNS) - len(LIKENESS)
        for heading, group in tables.by_split(rows).items():
            cells = [tables.shown(row) for row in group]
            print_group(heading, tables.TABLE_COLUMNS[first:beside], (line[first:beside] for line in cells))
            likeness = [[*line[first : first + 2], *line[beside:]] for line in cells if line[beside] != "–"]
            if likeness:
                names = [*tables.TABLE_COLUMNS[first : first + 2], *LIKENESS.values()]
                print_group("The same codes without labels (recall@10: neighbors by the floats)", names, likeness)
        if any(row.mean("real") for row in rows):
            print(tables.REAL_VALUED)


def print_group(heading: str, columns: Iterable[str], rows: Iterable[list[str]]) -> None:
    """Print a table without the columns of scores that no row has."""
    names, cells = list(columns), list(rows)
    shown = [place for place, name in enumerate(names) if name not in _MAY_LACK or any(r[place] != "–" for r in cells)]
    print(heading)
    print_table([names[place] for place in shown], [[row[place] for place in shown] for row in cells])
