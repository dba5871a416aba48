"""``hl.export``: write a hasher for another runtime."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Literal, get_args

from hashlearn.exporting.describe import describe
from hashlearn.exporting.steps import ExportError
from hashlearn.exporting.to_onnx import onnx_model
from hashlearn.exporting.to_sql import sql_script
from hashlearn.exporting.to_text import javascript_module, numpy_file
from hashlearn.fitting.base import BaseHasher
from hashlearn.wholefile import saved

Target = Literal["onnx", "sql", "js", "numpy"]
TARGETS: tuple[Target, ...] = get_args(Target)
ENDINGS: dict[str, Target] = {".onnx": "onnx", ".sql": "sql", ".js": "js", ".mjs": "js", ".py": "numpy"}


def export(
    hasher: BaseHasher, path: str | os.PathLike[str], to: Target | None = None, *, name: str | None = None
) -> None:
    """Write a fitted hasher to a file that makes the same codes without hashlearn.

    Parameters
    ----------
    hasher : a fitted hasher
        With a linear or kernel function, trees or a network on features; also a JoinedHasher of such hashers.
    path : file to write
        It appears whole or not at all.
    to : {"onnx", "sql", "js", "numpy"} or None, default=None
        An ONNX model (needs the extra ``onnx``), a PostgreSQL script for pgvector, an ES module, or a Python file that
        needs NumPy alone. None takes the one that the ending of the file names: .onnx, .sql, .js or .mjs, .py.
    name : str or None, default=None
        The functions of the SQL script are ``hash_NAME`` and so on; None for the name of the file.

    Raises
    ------
    ExportError
        If the target cannot run the hasher.

    Examples
    --------
    >>> import runpy, tempfile
    >>> import numpy as np
    >>> import hashlearn as hl
    >>> X = np.random.default_rng(0).normal(size=(100, 8))
    >>> hasher = hl.ITQ(n_bits=8, random_state=0).fit(X)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     hl.export(hasher, f"{folder}/hasher.py")
    ...     exported = runpy.run_path(f"{folder}/hasher.py")
    >>> bool((exported["encode"](X) == hasher.encode(X)).all())
    True
    """
    to = target_of(path) if to is None else to
    if to not in TARGETS:
        raise ValueError(f"to must be one of {', '.join(TARGETS)}. Got {to!r} instead.")
    description = describe(hasher)
    if to == "onnx":
        content = onnx_model(description)
    elif to == "sql":
        content = sql_script(description, _sql_name(path) if name is None else name)
    else:
        content = javascript_module(description) if to == "js" else numpy_file(description)
    with saved(path, "export", ExportError) as stream:
        stream.write(content)


def target_of(path: str | os.PathLike[str]) -> Target:
    """Return the target that the ending of a file names."""
    ending = Path(path).suffix.lower()
    if ending not in ENDINGS:
        raise ValueError(f"The ending of {Path(path).name} names no target: give one of {', '.join(TARGETS)}.")
    return ENDINGS[ending]


def _sql_name(path: str | os.PathLike[str]) -> str:
    return re.sub(r"\W+", "_", Path(path).stem.lower(), flags=re.ASCII).strip("_")
