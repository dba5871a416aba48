"""Parts that the commands share: messages, progress bars, tables and JSON, each on the right stream.

rich is imported in the functions that draw with it, because ``hashlearn --version`` and error messages do not need it.
"""

from __future__ import annotations

import difflib
import json
import os
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from hashlearn.progress import Listener, last_note, listening

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

PIPE_WIDTH = 240
PROSE_WIDTH = 80


class BadUse(Exception):
    """A command or its options are wrong. The message is one sentence, the exit code 2."""


def say(message: str) -> None:
    """Print one line on standard error."""
    print(f"hashlearn: {message}", file=sys.stderr, flush=True)


def epilog(*commands: str) -> str:
    """Return the examples under a command's help."""
    title = "Example:" if len(commands) == 1 else "Examples:"
    return "\n".join([f"[bold]{title}[/bold]", *(f"  {_without_markup(command)}" for command in commands)])


def _without_markup(text: str) -> str:
    """Escape brackets, which rich takes for markup. Most examples have none and do not need the import of rich."""
    if "[" not in text:
        return text
    from rich.markup import escape

    return escape(text)


def output(*, prose: bool = False) -> Console:
    """Return a console for standard output.

    A pipe has no width. It gets a large one, so that each row of a table is one line for other programs. Tables of
    sentences (``prose``) are for people, and get the width of a page.
    """
    from rich.console import Console

    narrow = sys.stdout.isatty() or "COLUMNS" in os.environ
    return Console(width=None if narrow else PROSE_WIDTH if prose else PIPE_WIDTH, highlight=False)


def new_table(*columns: str, right: tuple[str, ...] = (), whole: tuple[str, ...] = (), gap: int = 3) -> Table:
    """Return a table with two or three spaces between columns.

    Where it is wider than the terminal, cells get several lines, but not those of the columns in ``whole``: these have
    names, of which rich would cut the longest.
    """
    from rich import box
    from rich.table import Table

    # The box itself puts one space between columns, and the padding on the right of cells another.
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, gap - 2))
    for name in columns:
        justify: Any = "right" if name in right else "left"
        table.add_column(name, justify=justify, overflow="fold", no_wrap=name in whole)
    return table


def plain_lines(columns: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[str]) -> list[str]:
    """Return the lines of a table, laid out as by ``new_table`` but without folding. rich takes 0.2 ms per line."""
    cells = list(zip(columns, *rows, strict=True))
    widths = [max(map(len, column)) for column in cells]
    sides = [str.rjust if name in right else str.ljust for name in columns]
    head, *body = (
        "  ".join(side(cell, width) for side, cell, width in zip(sides, line, widths, strict=True)).rstrip()
        for line in (columns, *rows)
    )
    return [head, "─" * (sum(widths) + 2 * len(widths) - 2), *body]


def show_table(console: Console, table: Table) -> None:
    """Print a table without the spaces that rich puts at the end of lines."""
    with console.capture() as captured:
        console.print(table)
    print("\n".join(line.rstrip() for line in captured.get().splitlines()))


def unknown_name(what: str, name: str, known: Sequence[str]) -> BadUse:
    """Return the error for a name that does not exist, with the name that was probably meant."""
    close = difflib.get_close_matches(name.lower(), known, 1)
    return BadUse(
        f"There is no {what} {name!r}"
        + (f": did you mean {close[0]!r}?" if close else f"; there are {', '.join(known)}.")
    )


def plain_value(text: str) -> Any:
    """Parse the text as JSON; if it is not JSON, return the text, so that the value of ridge=auto needs no quotes."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


def print_json(value: dict[str, Any]) -> None:
    """Print one JSON object on standard output. NaN, which JSON does not have, raises a ValueError."""
    print(json.dumps(value, indent=2, allow_nan=False))


def tell(facts: dict[str, Any], as_json: bool) -> None:
    """Print facts on standard output, as JSON or in two columns, which leave out what is empty."""
    if as_json:
        print_json(facts)
        return
    kept = {name.replace("_", " "): value for name, value in facts.items() if value not in (None, {}, [])}
    width = max(map(len, kept))
    for name, value in kept.items():
        if isinstance(value, dict):
            value = [f"{key}={item}" for key, item in value.items()]
        print(f"{name:<{width}}  {', '.join(map(str, value)) if isinstance(value, list) else value}")


def folded(text: str, indent: int = 0) -> str:
    """Return the text in lines of at most 80 characters, of which those after the first are indented.

    No word is cut.
    """
    return textwrap.fill(
        text, PROSE_WIDTH, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False
    )


@contextmanager
def progress(title: str) -> Iterator[Listener]:
    """Show one progress bar per phase on standard error, if that is a terminal."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    console = Console(stderr=True)
    bars = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        MofNCompleteColumn(),
        TextColumn("{task.fields[note]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    with bars:
        tasks = {"": bars.add_task(title, total=None, note="")}

        def listener(phase: str, done: int, total: int) -> None:
            if phase not in tasks:
                # The first named phase takes over the bar that had only the title.
                tasks[phase] = tasks.pop("") if "" in tasks else bars.add_task(phase, note="")
            bars.update(tasks[phase], description=phase, completed=done, total=total, note=last_note())

        with listening(listener):
            yield listener


def counted(listener: Listener, phase: str) -> Callable[[int, int], None]:
    """Return a listener of one phase, for code that reports only (done, total)."""
    return lambda done, total: listener(phase, done, total)
