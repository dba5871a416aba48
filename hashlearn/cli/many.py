"""Parts that the streaming commands share: names that stand for many files, and the choice of an executor."""

from __future__ import annotations

import glob
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated, Any

import typer

from hashlearn.cli.shell import BadUse
from hashlearn.files.arrays import split_part

Workers = Annotated[
    int | None, typer.Option(metavar="N", help="Number of processes, which are used instead of threads.")
]
Cluster = Annotated[
    str | None,
    typer.Option(metavar="ADDRESS", help="Compute on a Dask cluster; the address of its scheduler, tcp://host:8786."),
]


def is_many(name: str) -> bool:
    """Whether a name stands for several files or a folder, which are read in chunks."""
    path = split_part(name)[0]
    head = name.rpartition(":")[0]
    return not path.is_file() and (glob.has_magic(name) or path.is_dir() or bool(head and Path(head).is_dir()))


@contextmanager
def working(workers: int | None, cluster: str | None) -> Iterator[Any]:
    """The executor that the options choose; None stands for the threads of this process."""
    if workers is not None and cluster is not None:
        raise BadUse("Give --workers or --cluster, not both.")
    if workers is not None:
        if workers < 1:
            raise BadUse(f"--workers must be at least 1. Got {workers}.")
        with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
            yield pool
        return
    if cluster is None:
        yield None
        return
    try:
        from distributed import Client
    except ImportError as error:
        raise BadUse("Working on a Dask cluster needs Dask: pip install 'hashlearn[cluster]'.") from error
    try:
        client = Client(cluster, timeout="30s")
    except (OSError, ValueError) as error:
        raise BadUse(f"There is no Dask scheduler at {cluster}: {error}") from error
    with client:
        yield client
