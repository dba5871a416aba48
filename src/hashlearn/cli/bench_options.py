"""What the commands of ``hashlearn bench`` share: options of data, lists of values, and the bar of finished runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn
from typer.core import TyperCommand

from hashlearn.bench.plan import spread_lists
from hashlearn.bench.runner import PHASE
from hashlearn.progress import listening

_LISTS = (
    "--methods",
    "--bits",
    "--bytes",
    "--table",
    "--figure",
    "--labels-per-class",
    "--wrong-labels",
    "--protocols",
)


class ListCommand(TyperCommand):
    """A command whose list options take several values: ``--bits 16 64`` is ``--bits 16 --bits 64``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, spread_lists(args, _LISTS))


Data = Annotated[
    str | None,
    typer.Option("--data", "--data-set", help="A data set, or a file of your own (default: the protocol's data set)."),
]
DataLabels = Annotated[
    str | None,
    typer.Option("--labels", help="Labels of your file: a column or array in it, or another file."),
]
ReportFolder = Annotated[str, typer.Option("--output", "-o", metavar="FOLDER", help="Folder for the report.")]
Threads = Annotated[int | None, typer.Option("--threads", min=1, help="Threads per run (default: cores / jobs).")]


@contextmanager
def bench_progress(shown: str = PHASE) -> Iterator[None]:
    """Show one bar of runs with the time left. Phases inside a run have no bar, because most are too short to read."""
    console = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("runs"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bars:
        task = bars.add_task("runs", total=None)

        def listener(phase: str, done: int, total: int) -> None:
            if phase == shown:
                bars.update(task, completed=done, total=total)

        with listening(listener):
            yield
