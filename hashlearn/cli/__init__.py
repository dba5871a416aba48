"""The command line: a thin shell over the library, one module a command group.

Results go to standard output, progress and messages to standard error. Exit codes: 0 done, 1 failed, 2 bad use,
130 interrupted.
"""

from __future__ import annotations

import signal
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from types import FrameType
from typing import Annotated, Any, NoReturn

import typer
from sklearn.utils._param_validation import InvalidParameterError

import hashlearn
from hashlearn.cli.shell import BadUse, epilog, say
from hashlearn.collection import CollectionError
from hashlearn.files.arrays import one_line

GROUPS = (
    "fit",
    "encode",
    "evaluate",
    "index",
    "search",
    "methods",
    "demo",
    "data",
    "bench",
    "serve",
)

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=epilog("hashlearn demo", "hashlearn fit X.npy --labels y.npy --bits 64 -o model.hl"),
)
for _group in GROUPS:
    app.add_typer(import_module(f"hashlearn.cli.{_group}").app)


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
    """Turn labelled features into compact binary codes, and measure how well they retrieve."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    if arguments is None:
        # A polite kill unwinds like Ctrl-C does, so temporary files go away.
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
    except BrokenPipeError:
        # The reader has gone: nothing to say and nobody to say it to, nor at the flush when Python ends.
        sys.stdout = None
        return 1
    except Exception as error:
        if debug:
            traceback.print_exc()
        say(_sentence(error))
        return 2 if isinstance(error, (BadUse, InvalidParameterError)) else int(getattr(error, "exit_code", 1))


def _sentence(error: Exception) -> str:
    if hasattr(error, "format_message"):  # usage errors of typer, whose class moved between its versions
        context = getattr(error, "ctx", None)
        hint = f" See {context.command_path} --help." if context is not None else ""
        return one_line(ValueError(error.format_message())) + hint
    expected = (ValueError, OSError, BadUse, CollectionError)
    if isinstance(error, expected):
        return one_line(error)
    return f"{type(error).__name__}: {one_line(error)} Add --debug for the traceback."


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
