"""The command line: a thin shell over the library, one module per command.

Results go to standard output, progress and messages to standard error. Exit codes: 0 done, 1 failed, 2 bad use,
130 interrupted.

A command's module is imported when the command is called: NumPy, SciPy and scikit-learn take seconds to import, and
``hashlearn --version`` or ``hashlearn --help`` need none of them.
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
from hashlearn.cli.shell import BadUse, epilog, say
from hashlearn.messages import one_line
from hashlearn.starting import exit_on_interrupt

GROUPS = {
    "fit": "Learn a hash function from features and labels, and save it.",
    "encode": "Turn features into codes. Rows stream through, so .npy, .fvecs and .h5 files may be bigger than memory.",
    "evaluate": "Score a ranking of the database for every query, and name every definition used.",
    "index": "Collections: codes with ids and payloads, in a folder, on Milvus or on PostgreSQL.",
    "search": "Find the nearest rows of every query, by Hamming distance and then by id.",
    "methods": "List the methods that [bold]fit[/bold] knows, with their papers.",
    "demo": "Compare learned codes with random ones and with floats, on data that is already here.",
    "data": "Data sets: what there is, what it needs, and getting it.",
    "bench": "Benchmarks: many methods on a named split, kept, tabled, compared.",
    "serve": "Serve collections as an HTTP API and a page to explore them, until Ctrl-C.",
}
"""The commands and the line that ``hashlearn --help`` says about each; their modules have the same names."""

RENAMED_OPTIONS = {"--bitorder": "--bit-order"}
"""Old names of options, which still work in 0.3."""


class LazyGroup(TyperGroup):
    """Commands that are imported when they are called."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, args)
        return name, load_command(name) if name in GROUPS else command, rest


def load_command(name: str) -> Any:
    """The real command behind a line of the help."""
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
    """Has its place in the list of commands; ``LazyGroup`` puts the real command there before it can be called."""


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
        # A polite kill unwinds like Ctrl-C does, so temporary files go away.
        signal.signal(signal.SIGTERM, _terminated)
        arguments = sys.argv[1:]
        with exit_on_interrupt():
            _import_called(arguments)
    debug = "--debug" in arguments
    try:
        with _one_line_warnings():
            result = app(
                args=[_renamed(argument) for argument in arguments if argument != "--debug"],
                prog_name="hashlearn",
                standalone_mode=False,
            )
            sys.stdout.flush()
        code = result if isinstance(result, int) else 0
        if code == 130:
            say("interrupted.")
        return code
    except KeyboardInterrupt:
        # Before or after typer's own care of it.
        say("interrupted.")
        return 130
    except BrokenPipeError:
        # The reader has gone: nothing to say and nobody to say it to, nor at the flush when Python ends.
        sys.stdout = None
        return 1
    except Exception as error:
        if debug:
            traceback.print_exc()
        say(_sentence(error))
        bad_use = isinstance(error, BadUse) or _is_a(error, "hashlearn.parameters", "InvalidParameterError")
        return 2 if bad_use else int(getattr(error, "exit_code", 1))


def _renamed(argument: str) -> str:
    """An option by its new name, with a warning if it was called by its old one."""
    name, equals, value = argument.partition("=")
    if name not in RENAMED_OPTIONS:
        return argument
    say(f"warning: {name} is now {RENAMED_OPTIONS[name]}; the old name goes with hashlearn 0.4.")
    return RENAMED_OPTIONS[name] + equals + value


def _import_called(arguments: Sequence[str]) -> None:
    """Import the command that is called, which takes seconds. What is wrong with it is said when it is run."""
    name = next((argument for argument in arguments if not argument.startswith("-")), None)
    if name in GROUPS:
        with suppress(Exception):
            import_module(f"hashlearn.cli.{name}")


def _sentence(error: Exception) -> str:
    if hasattr(error, "format_message"):  # usage errors of typer, whose class moved between its versions
        context = getattr(error, "ctx", None)
        hint = f" See {context.command_path} --help." if context is not None else ""
        return one_line(ValueError(error.format_message())) + hint
    if isinstance(error, (ValueError, OSError, BadUse)) or _is_a(error, "hashlearn.collection", "CollectionError"):
        return one_line(error)
    return f"{type(error).__name__}: {one_line(error)} Add --debug for the traceback."


def _is_a(error: Exception, module: str, name: str) -> bool:
    """Whether an error is of a class of some module. That is not imported to find out: without it no such error is."""
    return module in sys.modules and isinstance(error, getattr(sys.modules[module], name))


def _terminated(number: int, frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)


@contextmanager
def _one_line_warnings() -> Iterator[None]:
    def show(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        say(f"warning: {' '.join(str(message).split())}")

    with warnings.catch_warnings():
        # What a library warns about its own future is not for the people who run a command.
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.simplefilter("ignore", FutureWarning)
        warnings.showwarning = show
        yield
