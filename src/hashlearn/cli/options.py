"""Options that several commands share, and what they stand for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Annotated, Any

import typer

from hashlearn.cli.shell import BadUse, epilog
from hashlearn.codes import BitOrder as BitOrderName
from hashlearn.opencode.coder import EMPHASES, emphasis_number

Uri = Annotated[
    str, typer.Argument(metavar="WHERE", help="A folder, http://host:port/name, milvus://… or postgresql://….")
]
Features = Annotated[str, typer.Argument(metavar="X", help="Features: .npy .npz .csv .parquet .fvecs .h5 …")]
Model = Annotated[str, typer.Argument(metavar="MODEL", help="A model file from 'hashlearn fit'.")]
TextOption = Annotated[
    str | None,
    typer.Option("--text", metavar="COLUMN", help="The file holds texts: the column of them, .csv .jsonl .parquet."),
]
EmbedOption = Annotated[
    str | None,
    typer.Option("--embed", metavar="MODEL", help="With --text: name or folder of a sentence-transformers model."),
]
Bits = Annotated[int | None, typer.Option(help="Bits, for code files without a .json file beside them.")]
BitOrder = Annotated[
    BitOrderName, typer.Option("--bit-order", help="Bit order of codes made elsewhere (faiss: little).")
]
Unlabeled = Annotated[str | None, typer.Option(metavar="VALUE", help="The label that means 'no label', such as -1.")]
Where = Annotated[
    str | None,
    typer.Option(metavar="JSON", help="""Only rows whose payload matches, such as '{"year": {">=": 2020}}'."""),
]
Emphasis = Annotated[
    str | None,
    typer.Option(metavar="E", help="With an OpenHasher: alike, auto, label, or a number from 0 (most alike) to 1."),
]
DataDir = Annotated[
    str | None,
    typer.Option(
        "--data-dir", metavar="FOLDER", help="Folder of the data sets (environment variable: HASHLEARN_DATA)."
    ),
]
Workers = Annotated[
    int | None, typer.Option(metavar="N", min=1, help="Number of processes, which are used instead of threads.")
]
Cluster = Annotated[
    str | None,
    typer.Option(metavar="ADDRESS", help="Compute on a Dask cluster; the address of its scheduler, tcp://host:8786."),
]
Jobs = Annotated[int | None, typer.Option(help="Number of threads (default: all cores).")]
Restart = Annotated[bool, typer.Option("--restart", help="Start again instead of resuming an interrupted run.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]


def command_group(name: str, help: str, *examples: str) -> tuple[typer.Typer, typer.Typer]:
    """Return an application that has one group of commands, and the group, which alone prints its help."""
    group = typer.Typer(help=help, invoke_without_command=True, epilog=epilog(*examples))

    @group.callback()
    def print_help(context: typer.Context) -> None:
        if context.invoked_subcommand is None:
            typer.echo(context.get_help())

    app = typer.Typer()
    app.add_typer(group, name=name)
    return app, group


def emphasis_value(text: str | None) -> str | float | None:
    """Return an emphasis as the library takes it."""
    if text is None or text in EMPHASES:
        return text
    try:
        return emphasis_number(float(text))
    except ValueError:
        raise BadUse(f"--emphasis must be alike, auto, label or a number from 0 to 1. Got '{text}'.") from None


def read_object(text: str | None, option: str = "--where") -> dict[str, Any] | None:
    """Parse the value of an option, which must be a JSON object."""
    if text is None:
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadUse(f'{option} is no JSON ({error}); write it as \'{{"color": "red"}}\'.') from None
    if not isinstance(value, dict):
        raise BadUse(f"{option} must be a JSON object such as '{{\"color\": \"red\"}}'. Got '{text}'.")
    return value


@contextmanager
def working(workers: int | None, cluster: str | None) -> Iterator[Any]:
    """Yield the executor that the options choose; None stands for the threads of this process."""
    if workers is not None and cluster is not None:
        raise BadUse("Give --workers or --cluster, not both.")
    if workers is not None:
        with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
            yield pool
        return
    if cluster is None:
        yield None
        return
    try:
        from distributed import Client
    except ImportError as error:
        raise BadUse("Working on a Dask cluster needs Dask: pip install '.[cluster]'.") from error
    try:
        client = Client(cluster, timeout="30s")
    except (OSError, ValueError) as error:
        raise BadUse(f"There is no Dask scheduler at {cluster}: {error}") from error
    with client:
        yield client
