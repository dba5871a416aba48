"""``hl.export``: write a hasher for another runtime."""

from __future__ import annotations

import base64
import json
import os
import re
from dataclasses import fields
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from hashlearn.hashers.base import BaseHasher
from hashlearn.models.export.describe import describe
from hashlearn.models.export.steps import Description, ExportError, Step, Tables
from hashlearn.models.export.to_onnx import onnx_model
from hashlearn.models.export.to_sql import sql_script
from hashlearn.wholefile import saved

Target = Literal["onnx", "sql", "duckdb", "sqlite", "js", "numpy"]
TARGETS: tuple[Target, ...] = get_args(Target)
SQL = {"sql": "PostgreSQL", "duckdb": "DuckDB", "sqlite": "SQLite"}
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
    to : {"onnx", "sql", "duckdb", "sqlite", "js", "numpy"} or None, default=None
        An ONNX model (needs the extra ``onnx``), a PostgreSQL script for pgvector, a script of views for DuckDB or
        SQLite, an ES module, or a Python file that needs NumPy alone. None takes the one that the ending of the file
        names: .onnx, .sql, .js or .mjs, .py.
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
    if to in SQL and hasher.searched_by_tables:
        raise ExportError(
            f"{SQL[to]} has Hamming distance only, and codes of {type(hasher).__name__} are searched by tables of "
            "scores: export AutoHasher to it."
        )
    description = describe(hasher)
    if to == "onnx":
        content = onnx_model(description)
    elif to in ("js", "numpy"):
        content = _program(description, to)
    else:
        stem = re.sub(r"\W+", "_", Path(path).stem.lower(), flags=re.ASCII).strip("_")
        content = sql_script(description, stem if name is None else name, to)
    with saved(path, "export", ExportError) as stream:
        stream.write(content)


def target_of(path: str | os.PathLike[str]) -> Target:
    """Return the target that the ending of a file names."""
    ending = Path(path).suffix.lower()
    if ending not in ENDINGS:
        raise ValueError(f"The ending of {Path(path).name} names no target: give one of {', '.join(TARGETS)}.")
    return ENDINGS[ending]


def _program(description: Description, to: Target) -> bytes:
    """Return an ES module for browsers and Node ("js"), or a Python file that needs NumPy alone."""
    here = Path(__file__)
    text = here.with_name("runtime.mjs" if to == "js" else "runtime.py.txt").read_text(encoding="utf-8")
    for mark in ("METHOD", "N_BITS", "N_FEATURES"):
        text = text.replace(mark, str(getattr(description, mark.lower())), 1)
    # JSON of a text without control characters is a string of both languages.
    model = json.dumps(json.dumps(_plain(description), allow_nan=False))
    text = text.replace('"MODEL_JSON"', model)
    if to == "numpy" and description.tables is not None:
        text += here.with_name("tables.py.txt").read_text(encoding="utf-8")
    return text.encode()


def _plain(value: Any) -> Any:
    """Return a description, or a part of one, as JSON holds it.

    An array is ``{"type": "f4", "shape": [3, 2], "data": "..."}``: little-endian numbers in row order. Single precision
    stays single precision, so the text is not longer than the model needs.
    """
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    if isinstance(value, Step | Description | Tables):
        name = {"step": value.name} if isinstance(value, Step) else {}
        return name | {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if not isinstance(value, np.ndarray):
        return value
    kind = {"float32": "<f4", "int32": "<i4"}.get(value.dtype.name, "<f8")
    data = base64.b64encode(np.ascontiguousarray(value, dtype=kind).tobytes()).decode()
    return {"type": kind[1:], "shape": list(value.shape), "data": data}
