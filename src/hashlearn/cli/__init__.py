"""The command line: a thin shell over the library, one module per command.

Results go to standard output, progress and messages to standard error. Exit codes: 0 done, 1 failed, 2 bad use,
130 interrupted.

The module of a command is imported when the command is called, because NumPy, SciPy and scikit-learn take seconds to
import, and ``hashlearn --version`` and ``hashlearn --help`` do not need them.
"""

from __future__ import annotations

import signal
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from types import FrameType
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

import hashlearn
from hashlearn.cli.shell import epilog, say
from hashlearn.messages import one_line

GROUPS = {
    "fit": "Learn a hash function from features and labels, and save it.",
    "encode": "Turn features into codes. Rows stream through, so .npy, .fvecs and .h5 files may be bigger than memory.",
    "evaluate": "Score a ranking of the database for every query, and name every definition used.",
    "export": "Write a model for another runtime, where it makes the same codes without hashlearn.",
    "index": "Manage collections: codes with ids and payloads, in a folder or on a server.",
    "search": "Find the nearest rows of every query, by Hamming distance and then by id.",
    "dedup": "Find all pairs of codes within a Hamming radius, exactly, and the clusters that they form.",
    "methods": "List the methods that [bold]fit[/bold] knows, or tell about one of them.",
    "demo": "Compare learned codes with random codes and with floats, on data that needs no download.",
    "data": "List data sets, show their files and licenses, and download them.",
    "bench": "Run benchmarks of many methods on a named split; keep, tabulate and compare the results.",
    "serve": "Serve collections as an HTTP API and a page to explore them, until Ctrl-C.",
}
"""The commands and their lines in ``hashlearn --help``. The module of each command has the same name."""


class LazyGroup(TyperGroup):
    """Commands that are imported when they are called."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, args)
        return name, load_command(name) if name in GROUPS else command, rest


def load_command(name: str) -> Any:
    """Import a command that so far has only its line in the help."""
    group: Any = typer.main.get_group(import_module(f"hashlearn.cli.{name}").app)
    return group.commands[name]


app = typer.Typer(
    cls=LazyGroup,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=epilog("hashlearn demo", "hashlearn fit X.npy --labels y.npy --bits 64 -o model.hl"),
)


def _stand_in() -> None:
    """Take the place of a command in the list of commands; ``LazyGroup`` replaces it before the command is called."""


for _name, _summary in GROUPS.items():
    app.command(_name, help=_summary)(_stand_in)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"hashlearn {hashlearn.__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _hashlearn(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error (works anywhere).")] = False,
) -> None:
    """Turn labeled features into compact binary codes, and measure how well they retrieve."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    if arguments is None:
        # After SIGTERM the stack unwinds as it does after Ctrl-C, so that temporary files are removed.
        signal.signal(signal.SIGTERM, _terminated)
        arguments = sys.argv[1:]
    debug = "--debug" in arguments
    try:
        with _one_line_warnings():
            result = app(
                args=[argument for argument in arguments if argument != "--debug"],
                prog_name="hashlearn",
                standalone_mode=False,
            )
            sys.stdout.flush()
        code = result if isinstance(result, int) else 0
        if code == 130:
            say("interrupted.")
        return code
    except KeyboardInterrupt:
        # Typer handles Ctrl-C only while it runs a command.
        say("interrupted.")
        return 130
    except BrokenPipeError:
        # The reader of the pipe has ended. Without stdout, Python does not flush it at exit, which would fail again.
        sys.stdout = None
        return 1
    except Exception as error:
        if debug:
            traceback.print_exc()
        say(_sentence(error))
        return int(getattr(error, "exit_code", 1))


def import_called(arguments: Sequence[str]) -> None:
    """Import the module of the command, which takes seconds. Errors are ignored here: they occur again when it runs."""
    name = next((argument for argument in arguments if not argument.startswith("-")), None)
    if name in GROUPS:
        with suppress(Exception):
            import_module(f"hashlearn.cli.{name}")


def _sentence(error: Exception) -> str:
    if hasattr(error, "format_message"):  # a usage error of typer, whose class is in different modules by version
        context = getattr(error, "ctx", None)
        hint = f" See {context.command_path} --help." if context is not None else ""
        return one_line(ValueError(error.format_message())) + hint
    # Classes of errors whose messages are for users, but are no ValueError, have an exit code.
    if isinstance(error, (ValueError, OSError)) or hasattr(error, "exit_code"):
        return one_line(error)
    return f"{type(error).__name__}: {one_line(error)} Add --debug for the traceback."


def _terminated(number: int, frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)


@contextmanager
def _one_line_warnings() -> Iterator[None]:
    def show(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        say(f"warning: {' '.join(str(message).split())}")

    with warnings.catch_warnings():
        # Warnings about future changes of other libraries are for programmers, not for users of a command.
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.simplefilter("ignore", FutureWarning)
        warnings.showwarning = show
        yield
