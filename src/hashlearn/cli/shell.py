"""Parts that the commands share: messages, progress bars, tables and JSON, each on the right stream.

rich is imported where progress is drawn, because ``hashlearn --version`` and error messages do not need it.
"""

from __future__ import annotations

import difflib
import json
import os
import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from hashlearn.progress import Listener, last_note, listening

PROSE_WIDTH = 80


class BadUse(Exception):
    """A command or its options are wrong. The message is one sentence."""

    exit_code = 2


@contextmanager
def as_bad_use(*kinds: type[Exception]) -> Iterator[None]:
    """Report errors of these kinds as mistakes in the command."""
    try:
        yield
    except kinds as error:
        raise BadUse(str(error)) from error


def say(message: str) -> None:
    """Print one line on standard error."""
    print(f"hashlearn: {message}", file=sys.stderr, flush=True)


def epilog(*commands: str) -> str:
    """Return the examples under a command's help. They must not have brackets, which would be taken for markup."""
    title = "Example:" if len(commands) == 1 else "Examples:"
    return "\n".join([f"[bold]{title}[/bold]", *(f"  {command}" for command in commands)])


def width_of_output() -> int | None:
    """Return the width of the terminal; None for a pipe, which has none."""
    narrow = sys.stdout.isatty() or "COLUMNS" in os.environ
    return shutil.get_terminal_size().columns if narrow else None


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[str] = (), width: int | None = None
) -> None:
    """Print rows under their headings. Cells of the last column get several lines where a row is wider than ``width``.

    Columns named in ``right`` are aligned at the right.
    """
    lines = [columns, *rows]
    widths = [max(len(line[place]) for line in lines) for place in range(len(columns))]
    before = sum(widths[:-1]) + 2 * len(widths[:-1])
    if width is not None and widths[-1] > width - before:
        widths[-1] = max(width - before, 20)
    sides = [str.rjust if name in right else str.ljust for name in columns]
    for number, line in enumerate(lines):
        first, *more = (
            textwrap.wrap(line[-1], widths[-1], break_on_hyphens=False) if len(line[-1]) > widths[-1] else [line[-1]]
        )
        cells = [side(cell, size) for side, cell, size in zip(sides, [*line[:-1], first], widths, strict=True)]
        print("  ".join(cells).rstrip())
        for text in more:
            print(" " * before + text)
        if number == 0:
            print("─" * (before + widths[-1]))


def folded(text: str, indent: int = 0, width: int = PROSE_WIDTH) -> str:
    """Return the text in lines of at most ``width`` characters, of which those after the first are indented.

    No word is cut.
    """
    return textwrap.fill(text, width, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False)


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


@contextmanager
def progress(title: str, only: str | None = None) -> Iterator[Listener]:
    """Show one progress bar per phase on standard error, if that is a terminal; with ``only``, that of one phase."""
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
            if only not in (None, phase):
                return
            if phase not in tasks:
                # The first named phase takes over the bar that had only the title.
                tasks[phase] = tasks.pop("") if "" in tasks else bars.add_task(phase, note="")
            bars.update(tasks[phase], description=phase, completed=done, total=total, note=last_note())

        with listening(listener):
            yield listener
