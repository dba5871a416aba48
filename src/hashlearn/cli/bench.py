"""``hashlearn bench``: make runs, keep them, score them again and compare them."""

from __future__ import annotations

import sys
import time
from typing import Annotated, Any

import typer

from hashlearn.bench import runner, tables
from hashlearn.bench.paper import tables as paper
from hashlearn.bench.paper.report import make_paper_report
from hashlearn.bench.plan import plan_from_options
from hashlearn.bench.report import write_report
from hashlearn.bench.scoring import CHOICES, NAMES, check_score, rules_from_options, scores_of
from hashlearn.bench.sections import folder_sections
from hashlearn.bench.store import BenchRun, RunStore
from hashlearn.bench.tables import is_stale, stale_remark, with_cosine
from hashlearn.cli import frontier as frontier_command
from hashlearn.cli.bench_options import Data, DataLabels, ListCommand, ReportFolder, Threads, bench_progress
from hashlearn.cli.bench_tables import print_rows, print_scores, print_table
from hashlearn.cli.data import AsJson, DataDir
from hashlearn.cli.shell import BadUse, epilog, print_json, say
from hashlearn.cli.texts import EmbedOption, TextOption

app = typer.Typer()
bench = typer.Typer(
    help="Run benchmarks of many methods on a named split; keep, tabulate and compare the results.",
    invoke_without_command=True,
    epilog=epilog(
        "hashlearn bench run --data digits --methods auto gsdhp itq --bits 16 32 -o results",
        "hashlearn bench table results --markdown",
    ),
)
app.add_typer(bench, name="bench")
bench.command("frontier", cls=ListCommand, epilog=frontier_command.EPILOG)(frontier_command.frontier)


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


@bench.callback()
def _bench(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


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
    with bench_progress():
        outcome = runner.run_plan(plan, out, data_dir, jobs=jobs, threads=threads, on_finished=SayFinished())
    say(f"{len(outcome.made)} runs made, {len(outcome.kept)} were there already, {len(outcome.failed)} failed.")
    if outcome.replaced:
        say(f"{len(outcome.replaced)} of them were there, but of another revision of their methods.")
    runs = [run for run in (*outcome.kept, *outcome.made) if run.error is None]
    rows = with_cosine(RunStore(out), tables.table_rows(RunStore(out), runs), runs)
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
    rows = with_cosine(store, tables.table_rows(store, runs, rules, check_score(score)), runs, rules, score)
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
        print_table(heading, tables.COMPARED_COLUMNS, map(tables.shown_compared, compared_here))
    if compared:
        print("B - A: mean ± 95 % interval over common seeds; * is an interval without 0")
    for side, rows in (("A", only_first), ("B", only_second)):
        if rows:
            say(f"only in {side}: {', '.join(f'{row.method} {row.bits} bits on {row.split}' for row in rows)}.")


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
    seeds: Annotated[int, typer.Option(min=1, help="Number of seeds.")] = 3,
    further_seeds_below: Annotated[
        float, typer.Option(metavar="SECONDS", help="One seed only where training takes this long.")
    ] = 60.0,
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
    with bench_progress():
        made = make_paper_report(
            items,
            out,
            data_dir,
            seeds=seeds,
            further_below=further_seeds_below,
            methods=methods,
            bits=bits,
            protocols=protocols,
            kept=kept,
            jobs=jobs,
            threads=threads,
            on_finished=SayFinished(),
        )
    for sentence in made.left_out:
        say(sentence)
    for path in made.paths:
        print(path)
    return 1 if made.failed else 0


def _say_stale(runs: list[BenchRun], before: str = "") -> None:
    remark = stale_remark(runs)
    if remark:
        say(before + remark)


class SayFinished:
    """Print a line on standard error for each finished run, with an estimate of the time left."""

    def __init__(self) -> None:
        self.started = time.monotonic()

    def __call__(self, run: BenchRun, done: int, total: int) -> None:
        if run.error is not None:
            say(f"{run.definition} failed: {run.error}")
        elif not sys.stderr.isatty():
            left = (time.monotonic() - self.started) / done * (total - done)
            say(f"{done}/{total} {run.definition}: {run.seconds['fit']:.2f} s to train, about {left:.0f} s left.")
