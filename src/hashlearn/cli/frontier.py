"""``hashlearn bench frontier``: accuracy per byte of hashers, quantizers, class numbers and floats, as one page."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from hashlearn.bench.frontier import ALL_LABELS, BUDGETS, FLOATS, PHASE, FrontierPlan, LabelBudget, run_frontier
from hashlearn.bench.frontier_page import write_frontier
from hashlearn.bench.plots import need_bench_extra
from hashlearn.cli.bench_options import Data, DataLabels, ReportFolder, Threads, bench_progress
from hashlearn.cli.data import DataDir
from hashlearn.cli.shell import BadUse, epilog, say
from hashlearn.cli.texts import EmbedOption, TextOption
from hashlearn.data.catalog import DATA_SETS
from hashlearn.data.own import DataSource

EPILOG = epilog(
    "hashlearn bench frontier mine.npz --labels y -o frontier",
    "hashlearn bench frontier --data clinc150-minilm --data-dir data --bytes 16 --no-budgets",
    "hashlearn bench frontier texts.csv --text question --labels topic --embed all-MiniLM-L6-v2 --quick",
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
    against: Annotated[str, typer.Option(help="The row of the table that all others are compared with.")] = FLOATS,
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
    try:
        source = DataSource(name, labels, text, embed)
    except ValueError as error:
        raise BadUse(str(error)) from error
    budgets = [ALL_LABELS, *map(LabelBudget, labels_per_class or ())]
    budgets += [LabelBudget(None, share) for share in wrong_labels or ()]
    if len(budgets) > 1 and no_budgets:
        raise BadUse("--no-budgets contradicts --labels-per-class and --wrong-labels.")
    if len(budgets) == 1 and not (quick or no_budgets):
        budgets = list(BUDGETS)
    plan = FrontierPlan(
        source,
        tuple(dict.fromkeys(sizes or (8, 16, 32))),
        seeds or (1 if quick else 5),
        quick,
        tuple(methods or ()),
        tuple(dict.fromkeys(budgets)),
        matryoshka,
    )
    with bench_progress(PHASE):
        measured = run_frontier(
            plan, out, data_dir, threads=threads, on_finished=None if sys.stderr.isatty() else _say_fit
        )
    for sentence in measured.failed:
        say(f"failed: {sentence}")
    if not measured.points:
        return 1
    title = DATA_SETS[name].title if name in DATA_SETS else Path(name).name
    for path in write_frontier(out, title, plan, measured, against):
        print(path)
    return 1 if measured.failed else 0


def _say_fit(what: str, seconds: float, done: int, total: int) -> None:
    say(f"{done}/{total} {what}: {seconds:.1f} s.")
