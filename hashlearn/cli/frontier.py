"""``hashlearn bench frontier``: accuracy per byte of hashers, faiss codecs and floats, as one page."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from hashlearn.bench.frontier import FrontierPlan, frontier_notes, run_frontier, write_frontier
from hashlearn.bench.frontier.run import PHASE
from hashlearn.bench.plots import need_bench_extra
from hashlearn.cli.bench_options import Data, DataLabels, ReportFolder, Threads, bench_progress
from hashlearn.cli.data import DataDir
from hashlearn.cli.shell import BadUse, epilog, say
from hashlearn.cli.texts import EmbedOption, TextOption
from hashlearn.data.catalog import DATA_SETS
from hashlearn.data.own import DataSource

EPILOG = epilog(
    "hashlearn bench frontier --data clinc150-minilm --data-dir data -o frontier",
    "hashlearn bench frontier --data texts.csv --text question --labels topic --embed all-MiniLM-L6-v2 --quick",
)


def frontier(
    data: Data = None,
    labels: DataLabels = None,
    text: TextOption = None,
    embed: EmbedOption = None,
    data_dir: DataDir = None,
    out: ReportFolder = "frontier",
    sizes: Annotated[list[int] | None, typer.Option("--bytes", help="Bytes per row (default: 8 16 32).")] = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="Number of seeds (default: 3; 1 with --quick).")] = None,
    methods: Annotated[list[str] | None, typer.Option(help="Only these methods, by the names in the table.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer rows, one seed, without the slow codecs.")] = False,
    keep_outdated: Annotated[
        bool, typer.Option("--keep-outdated", help="Take kept fits of older code; the page then says so.")
    ] = False,
    threads: Threads = None,
) -> int:
    """Compare codes at equal bytes: hashers, faiss codecs and floats, on classes seen and unseen in training.

    Writes one page with the picture of accuracy against bytes, the table, and what dominates what. Fits are kept in
    FOLDER/points, so that the command can be stopped and started again. Fits of methods whose code has changed since
    are made again, unless --keep-outdated.
    """
    if data is None:
        raise BadUse("--data is missing: give a data set or a file of your own.")
    need_bench_extra()
    try:
        source = DataSource(data, labels, text, embed)
    except ValueError as error:
        raise BadUse(str(error)) from error
    plan = FrontierPlan(source, tuple(sizes or (8, 16, 32)), seeds or (1 if quick else 3), quick, tuple(methods or ()))
    with bench_progress(PHASE):
        measured = run_frontier(
            plan,
            out,
            data_dir,
            threads=threads,
            keep_outdated=keep_outdated,
            on_finished=None if sys.stderr.isatty() else _say_fit,
        )
    for sentence in measured.failed:
        say(f"failed: {sentence}")
    if not measured.points:
        return 1
    title = DATA_SETS[data].title if data in DATA_SETS else Path(data).name
    for path in write_frontier(out, title, measured.points, plan.sizes, frontier_notes(plan, measured)):
        print(path)
    return 1 if measured.failed else 0


def _say_fit(what: str, seconds: float, done: int, total: int) -> None:
    say(f"{done}/{total} {what}: {seconds:.1f} s.")
