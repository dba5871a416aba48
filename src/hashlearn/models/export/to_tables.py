"""DuckDB and SQLite: views over a table of rows, in SQL that both understand.

These two have no functions in SQL that could hold a hasher, so rows go through a table: what stands in ``rows_NAME``
has its code in the view ``hash_NAME``. On the way a vector is a set of lines (id, i, v); the numbers of a step are in a
table of their own. All sums are in double precision.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hashlearn.models.export.steps import (
    Affine,
    Cosine,
    Description,
    ExportError,
    Join,
    Kernel,
    Largest,
    LogOdds,
    Relu,
    Scale,
    Softmax,
    Step,
    Subtract,
    Unit,
)


def table_script(description: Description, name: str, to: str) -> bytes:
    """Return a script for DuckDB or SQLite that makes the table ``rows_NAME (id, x)`` and the views.

    In DuckDB ``x`` is a list of numbers, in SQLite the text of a JSON array. ``hash_NAME (id, code)`` has codes as text
    of zeros and ones, ``hash_query_NAME`` those of queries, and ``expected_NAME (id, i, v)`` the expected bits.
    """
    if not re.fullmatch(r"[a-z_][a-z0-9_]{0,40}", name):
        raise ExportError(
            f"The views would be called hash_{name}, but a name has at most 41 lower-case letters, digits and "
            "underscores: give name=, or --name on the command line."
        )
    writer = _Writer(name, to)
    lists = to == "duckdb"
    n = description.n_features
    # A sum is finite if all numbers are; JSON has no others.
    kind = f"DOUBLE[] CHECK (len(x) = {n} AND isfinite(list_sum(x)))"
    kind = kind if lists else f"TEXT CHECK (json_array_length(x) = {n})"
    writer.add(f"CREATE TABLE IF NOT EXISTS rows_{name} (id BIGINT PRIMARY KEY, x {kind} NOT NULL)")
    x = writer.view(
        f"SELECT id, unnest(x) AS v, unnest(range(len(x))) AS i FROM rows_{name}"
        if lists
        else f"SELECT r.id AS id, e.value AS v, e.key AS i FROM rows_{name} r CROSS JOIN json_each(r.x) e"
    )
    zeros = np.zeros(description.n_bits)
    z = expected = writer.run(description.steps, x)
    if description.slopes is not None and description.offsets is not None:
        slopes, offsets = writer.numbers(description.slopes), writer.numbers(description.offsets)
        both = f"{z} p JOIN {slopes} s ON s.i = p.i JOIN {offsets} o ON o.i = p.i"
        expected = writer.view(f"SELECT p.id, p.i, tanh((p.v * s.v + o.v) / 2) AS v FROM {both}")
    writer.named(f"expected_{name}", f"SELECT id, i, v FROM {expected}")
    for view, least in ((f"hash_query_{name}", zeros), (f"hash_{name}", description.shift)):
        bits = (
            f"SELECT p.id, p.i, CASE WHEN p.v >= t.v THEN '1' ELSE '0' END AS bit "
            f"FROM {z} p JOIN {writer.numbers(zeros if least is None else least)} t ON t.i = p.i"
        )
        joined = f"SELECT id, i, string_agg(bit, '') OVER (PARTITION BY id ORDER BY i) AS code FROM ({bits}) AS b"
        joined = joined if lists else joined.replace("string_agg", "group_concat")
        writer.named(view, f"SELECT id, code FROM ({joined}) AS c WHERE i = {description.n_bits - 1}")
    head = f"-- {description.method} of hashlearn with {description.n_bits} bits, for vectors of {n} numbers."
    return "\n".join([head, *(f"{statement};" for statement in writer.statements), ""]).encode()


class _Writer:
    """Statements; every view and table has a name of its own, and ``run`` returns that of the last view."""

    def __init__(self, name: str, to: str) -> None:
        self.name, self.lists, self.count = name, to == "duckdb", 0
        self.least, self.most = ("least", "greatest") if self.lists else ("min", "max")
        self.statements: list[str] = []

    def add(self, statement: str) -> None:
        self.statements.append(statement)

    def named(self, name: str, select: str) -> None:
        self.add(f"DROP VIEW IF EXISTS {name}")
        self.add(f"CREATE VIEW {name} AS {select}")

    def view(self, select: str) -> str:
        name = self._next("step")
        self.named(name, select)
        return name

    def numbers(self, values: NDArray[Any]) -> str:
        """Write a table of numbers (i, v), or of rows of numbers (j, i, v)."""
        name, values = self._next("numbers"), np.asarray(values, dtype=np.float64)
        keys = "i" if values.ndim == 1 else "j, i"
        columns = f"{keys.replace(',', ' INTEGER,')} INTEGER, v DOUBLE"
        self.add(f"DROP TABLE IF EXISTS {name}")
        self.add(f"CREATE TABLE {name} ({columns}, PRIMARY KEY ({keys})){'' if self.lists else ' WITHOUT ROWID'}")
        rows = values[None] if values.ndim == 1 else values
        for j, row in enumerate(rows.tolist()):
            place = "" if values.ndim == 1 else f"{j}, "
            text = json.dumps(row)
            if self.lists:
                self.add(f"INSERT INTO {name} SELECT {place}unnest(range({len(row)})), unnest('{text}'::DOUBLE[])")
            else:
                self.add(f"INSERT INTO {name} SELECT {place}key, value FROM json_each('{text}')")
        return name

    def run(self, steps: Sequence[Step], x: str) -> str:
        for step in steps:
            x = self.view(self._written(step, x))
        return x

    def _next(self, kind: str) -> str:
        self.count += 1
        return f"{kind}_{self.count}_{self.name}"

    def _written(self, step: Step, x: str) -> str:
        match step:
            case Unit():
                return self._each("v / coalesce(nullif(sqrt(sum(v * v) OVER (PARTITION BY id)), 0), 1)", x)
            case Subtract(vector):
                return self._with(vector, "p.v - a.v", x)
            case Scale(factors):
                return self._with(factors, "p.v * a.v", x)
            case Kernel(landmarks, scale):
                nearness = f"exp({self.most}(-{scale!r} * sum((p.v - w.v) * (p.v - w.v)), -700))"
                return self._sums(landmarks, np.zeros(len(landmarks)), nearness, x)
            case Affine(weights, bias):
                return self._sums(weights.T, bias, "min(b.v) + sum(p.v * w.v)", x)
            case Relu():
                return self._each(f"{self.most}(v, 0)", x)
            case Cosine():
                return self._each("cos(v)", x)
            case Softmax():
                powers = f"SELECT id, i, exp({self.most}(v - max(v) OVER (PARTITION BY id), -700)) AS v FROM {x}"
                return self._each("v / sum(v) OVER (PARTITION BY id)", f"({powers}) AS q")
            case LogOdds(limit):
                return self._each(f"2 * atanh({self.most}(-{limit!r}, {self.least}({limit!r}, v)))", x)
            case Largest():
                first = "row_number() OVER (PARTITION BY id ORDER BY v DESC, i) = 1"
                return self._each(f"CASE WHEN {first} THEN 1.0 ELSE 0.0 END", x)
            case Join(parts):
                ends, start = [], 0
                for part in parts:
                    ends.append(f"SELECT id, i + {start} AS i, v FROM {self.run(part, x)}")
                    start += _width(part)
                return " UNION ALL ".join(ends)
        raise ExportError(f"The step {step.name!r} of this hasher cannot be exported to tables of SQL.")

    def _each(self, expression: str, x: str) -> str:
        return f"SELECT id, i, {expression} AS v FROM {x}"

    def _with(self, vector: NDArray[Any], expression: str, x: str) -> str:
        return f"SELECT p.id, p.i, {expression} AS v FROM {x} p JOIN {self.numbers(vector)} a ON a.i = p.i"

    def _sums(self, rows: NDArray[Any], bias: NDArray[Any], expression: str, x: str) -> str:
        """Write a sum per row of numbers. SQLite joins in this order, so that groups come one after the other."""
        b, w = self.numbers(bias), self.numbers(rows)
        # The limit makes SQLite compute x once and index it, instead of once per number.
        x = x if self.lists else f"(SELECT * FROM {x} LIMIT -1)"
        joined = f"rows_{self.name} r CROSS JOIN {b} b CROSS JOIN {w} w CROSS JOIN {x} p"
        where = "w.j = b.i AND p.id = r.id AND p.i = w.i"
        return f"SELECT r.id AS id, b.i AS i, {expression} AS v FROM {joined} WHERE {where} GROUP BY r.id, b.i"


def _width(steps: Sequence[Step]) -> int:
    """Return how many numbers the steps of a part of a joined hasher give."""
    for step in reversed(steps):
        match step:
            case Affine(_, bias):
                return len(bias)
            case Join(parts):
                return sum(map(_width, parts))
    raise ExportError("A part of this hasher has no projection, so it cannot be exported to tables of SQL.")
