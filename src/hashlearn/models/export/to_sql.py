"""SQL: functions for PostgreSQL, and views for DuckDB and SQLite.

PostgreSQL gets functions on the types of pgvector, so that the database makes the codes of its vectors. pgvector adds
up in single precision, as ``encode`` does for float32 rows. Weights are constants in the functions' bodies: the
functions read no tables, so they are immutable, and a generated column or an index may use them.

DuckDB and SQLite have no functions in SQL that could hold a hasher, so rows go through a table: what stands in
``rows_NAME`` has its code in the view ``hash_NAME``, in SQL that both understand. On the way a vector is a set of lines
(id, i, v); the numbers of a step are in a table of their own. All sums are in double precision.
"""

from __future__ import annotations

import json
import re
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hashlearn.models.export import steps
from hashlearn.models.export.steps import Description, ExportError, Steps

MOST_DIMENSIONS = 16_000
"""Of a ``vector`` of pgvector."""


def sql_script(description: Description, name: str, to: str) -> bytes:
    """Return a script for PostgreSQL ("sql"), "duckdb" or "sqlite".

    For PostgreSQL it creates functions: ``hash_NAME(vector) returns bit(n)`` makes codes of database rows,
    ``hash_query_NAME(vector) returns bit(n)`` codes of queries, ``expected_NAME(vector) returns vector(n)`` real-valued
    queries; ``project_NAME(vector)`` gives the projections, which the others use.

    For the others it makes the table ``rows_NAME (id, x)`` and views. In DuckDB ``x`` is a list of numbers, in SQLite
    the text of a JSON array. ``hash_NAME (id, code)`` has codes as text of zeros and ones, ``hash_query_NAME`` those of
    queries, and ``expected_NAME (id, i, v)`` the expected bits.
    """
    if not re.fullmatch(r"[a-z_][a-z0-9_]{0,40}", name):
        raise ExportError(
            f"The script would make hash_{name}, but a name has at most 41 lower-case letters, digits and underscores: "
            "give name=, or --name on the command line."
        )
    n_bits, n_features = description.n_bits, description.n_features
    zeros = np.zeros(n_bits)
    shift = zeros if description.shift is None else description.shift
    write = _functions if to == "sql" else partial(_views, lists=to == "duckdb")
    head = f"-- {description.method} of hashlearn with {n_bits} bits, for vectors of {n_features} numbers."
    return "\n".join([head, *write(description, name, zeros, shift), ""]).encode()


def _functions(description: Description, name: str, zeros: NDArray[Any], shift: NDArray[Any]) -> list[str]:
    """Return the statements for PostgreSQL."""
    n_bits, z = description.n_bits, f"project_{name}(x)"
    if description.n_features > MOST_DIMENSIONS:
        raise ExportError(f"A vector of pgvector has at most {MOST_DIMENSIONS} numbers. Got {description.n_features}.")
    expected = z
    if description.slopes is not None and description.offsets is not None:
        expected = _each("tanh((z * s + o) / 2)", z=z, s=_doubles(description.slopes), o=_doubles(description.offsets))
    return [
        "-- PostgreSQL 14 or later with pgvector 0.7 or later.",
        "CREATE EXTENSION IF NOT EXISTS vector;",
        _projection(description, name),
        _function(f"hash_{name}", f"bit({n_bits})", _bits(z, shift)),
        _function(f"hash_query_{name}", f"bit({n_bits})", _bits(z, zeros)),
        _function(f"expected_{name}", f"vector({n_bits})", f"SELECT {expected}::vector"),
    ]


def _projection(description: Description, name: str) -> str:
    """Return the function that runs the steps. PL/pgSQL reads the constants once per session, not once per row."""
    writer = _FunctionWriter()
    z = writer.run(description.steps, "x")
    declared = [f"  v{number} {kind};" for number, kind in enumerate(writer.kinds, start=1)]
    body = ["DECLARE", *declared, "BEGIN", *writer.lines, f"  RETURN {z};", "END"]
    return _function(f"project_{name}", "double precision[]", "\n".join(body), language="plpgsql")


def _function(name: str, returns: str, body: str, language: str = "sql") -> str:
    # The function's own search path lets the function find pgvector also while a dump is restored.
    return (
        f"CREATE OR REPLACE FUNCTION {name}(x vector) RETURNS {returns}\n"
        f"LANGUAGE {language} IMMUTABLE STRICT PARALLEL SAFE SET search_path FROM CURRENT AS $$\n{body}\n$$;"
    )


def _bits(z: str, shift: NDArray[Any]) -> str:
    bit = "CASE WHEN z >= t THEN '1' ELSE '0' END"
    rows = f"SELECT unnest({z}) AS z, unnest({_doubles(shift)}) AS t"
    return f"SELECT string_agg({bit}, '')::bit({len(shift)}) FROM ({rows}) AS s"


def _each(expression: str, **arrays: str) -> str:
    """Return the array of an expression over the elements of arrays, side by side.

    ``unnest`` stands in the list of columns, where it streams; in FROM it would first copy all weights for every row.
    """
    columns = ", ".join(f"unnest({array}) AS {name}" for name, array in arrays.items())
    return f"(SELECT array_agg({expression}) FROM (SELECT {columns}) AS s)"


class _FunctionWriter:
    """Statements of PL/pgSQL, one variable per step: v1, v2, ..., each of the type in ``kinds``."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.kinds: list[str] = []

    def run(self, path: Steps, x: str) -> str:
        """Write the steps and return the variable of the last one as an array of double precision."""
        for step in path:
            x = self._set(*self._written(step, x))
        return x

    def _set(self, expression: str, kind: str = "double precision[]") -> str:
        self.kinds.append(kind)
        name = f"v{len(self.kinds)}"
        self.lines.append(f"  {name} := {expression};")
        return name

    def _written(self, step: steps.Step, x: str) -> tuple[str, ...]:
        """Return the expression of a step, and its type where that is not an array of double precision."""
        match step:
            case steps.Unit():
                return f"l2_normalize({x}::vector)", "vector"
            case steps.Subtract(vector):
                return f"{x}::vector - {_vector(vector)}", "vector"
            case steps.Scale(factors):
                return f"{x}::vector * {_vector(factors)}", "vector"
            case steps.Kernel(landmarks, scale):
                # exp refuses numbers whose result would be 0.
                kernel = f"exp(greatest(-{scale!r} * ({x}::vector <-> l) ^ 2, -700))"
                return (_each(kernel, l=_vectors(landmarks)),)
            case steps.Affine(weights, bias):
                return (_each(f"b - ({x}::vector <#> w)", w=_vectors(weights.T), b=_doubles(bias)),)
            case steps.Relu():
                return (_each("greatest(u, 0)", u=x),)
            case steps.Cosine():
                return (_each("cos(u)", u=x),)
            case steps.Softmax():
                most = self._set(f"(SELECT max(u) FROM unnest({x}) AS u)", "double precision")
                powers = self._set(_each(f"exp(greatest(u - {most}, -700))", u=x))
                return (_each(f"u / (SELECT sum(p) FROM unnest({powers}) AS p)", u=powers),)
            case steps.LogOdds(limit):
                return (_each(f"2 * atanh(greatest(-{limit!r}, least({limit!r}, u)))", u=x),)
            case steps.Largest():
                most = self._set(f"(SELECT max(u) FROM unnest({x}) AS u)", "double precision")
                first = self._set(f"array_position({x}, {most})", "int")
                places = f"(SELECT array_agg(i) FROM generate_subscripts({x}, 1) AS i)"
                return (_each(f"(i = {first})::int::double precision", i=places),)
            case steps.Join(parts):
                return (" || ".join([self.run(part, x) for part in parts]),)
            case steps.Trees():
                raise ExportError("Trees cannot be exported to SQL; ONNX, JavaScript and NumPy can run them.")
        raise ExportError(f"The step {step.name!r} of this hasher cannot be exported to SQL.")


def _vector(values: NDArray[Any]) -> str:
    return f"'{_listed(values)}'::vector"


def _vectors(rows: NDArray[Any]) -> str:
    if rows.shape[1] > MOST_DIMENSIONS:
        raise ExportError(f"A vector of pgvector has at most {MOST_DIMENSIONS} numbers. Got {rows.shape[1]}.")
    listed = ",".join(f'"{_listed(row)}"' for row in rows)
    return f"'{{{listed}}}'::vector[]"


def _listed(values: NDArray[Any]) -> str:
    """Return numbers of single precision, with the 9 digits that give back each of them."""
    return f"[{','.join(f'{value:.9g}' for value in values.tolist())}]"


def _doubles(values: NDArray[Any]) -> str:
    listed = ",".join(repr(value) for value in values.astype(np.float64).tolist())
    return f"'{{{listed}}}'::double precision[]"


def _views(description: Description, name: str, zeros: NDArray[Any], shift: NDArray[Any], lists: bool) -> list[str]:
    """Return the statements for DuckDB, which has ``lists``, or for SQLite."""
    n, writer = description.n_features, _ViewWriter(name, lists)
    # A sum is finite if all numbers are; JSON has no others.
    kind = f"DOUBLE[] CHECK (len(x) = {n} AND isfinite(list_sum(x)))"
    kind = kind if lists else f"TEXT CHECK (json_array_length(x) = {n})"
    writer.add(f"CREATE TABLE IF NOT EXISTS rows_{name} (id BIGINT PRIMARY KEY, x {kind} NOT NULL)")
    x = writer.view(
        f"SELECT id, unnest(x) AS v, unnest(range(len(x))) AS i FROM rows_{name}"
        if lists
        else f"SELECT r.id AS id, e.value AS v, e.key AS i FROM rows_{name} r CROSS JOIN json_each(r.x) e"
    )
    z = expected = writer.run(description.steps, x)
    if description.slopes is not None and description.offsets is not None:
        slopes, offsets = writer.numbers(description.slopes), writer.numbers(description.offsets)
        both = f"{z} p JOIN {slopes} s ON s.i = p.i JOIN {offsets} o ON o.i = p.i"
        expected = writer.view(f"SELECT p.id, p.i, tanh((p.v * s.v + o.v) / 2) AS v FROM {both}")
    writer.named(f"expected_{name}", f"SELECT id, i, v FROM {expected}")
    for view, least in ((f"hash_query_{name}", zeros), (f"hash_{name}", shift)):
        bits = (
            f"SELECT p.id, p.i, CASE WHEN p.v >= t.v THEN '1' ELSE '0' END AS bit "
            f"FROM {z} p JOIN {writer.numbers(least)} t ON t.i = p.i"
        )
        joined = f"SELECT id, i, string_agg(bit, '') OVER (PARTITION BY id ORDER BY i) AS code FROM ({bits}) AS b"
        joined = joined if lists else joined.replace("string_agg", "group_concat")
        writer.named(view, f"SELECT id, code FROM ({joined}) AS c WHERE i = {description.n_bits - 1}")
    return [f"{statement};" for statement in writer.statements]


class _ViewWriter:
    """Statements; every view and table has a name of its own, and ``run`` returns that of the last view."""

    def __init__(self, name: str, lists: bool) -> None:
        self.name, self.lists, self.count = name, lists, 0
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
        """Write a table of numbers (i, v), or of rows of numbers (j, i, v), which are found by i."""
        name, values = self._next("numbers"), np.asarray(values, dtype=np.float64)
        columns, keys = ("i INTEGER", "i") if values.ndim == 1 else ("j INTEGER, i INTEGER", "i, j")
        self.add(f"DROP TABLE IF EXISTS {name}")
        self.add(
            f"CREATE TABLE {name} ({columns}, v DOUBLE, PRIMARY KEY ({keys})){'' if self.lists else ' WITHOUT ROWID'}"
        )
        rows = values[None] if values.ndim == 1 else values
        for j, row in enumerate(rows.tolist()):
            place = "" if values.ndim == 1 else f"{j}, "
            text = json.dumps(row)
            if self.lists:
                self.add(f"INSERT INTO {name} SELECT {place}unnest(range({len(row)})), unnest('{text}'::DOUBLE[])")
            else:
                self.add(f"INSERT INTO {name} SELECT {place}key, value FROM json_each('{text}')")
        return name

    def run(self, path: Steps, x: str) -> str:
        for step in path:
            x = self.view(self._written(step, x))
        return x

    def _next(self, kind: str) -> str:
        self.count += 1
        return f"{kind}_{self.count}_{self.name}"

    def _written(self, step: steps.Step, x: str) -> str:
        match step:
            case steps.Unit():
                return self._each("v / coalesce(nullif(sqrt(sum(v * v) OVER (PARTITION BY id)), 0), 1)", x)
            case steps.Subtract(vector):
                return self._with(vector, "p.v - a.v", x)
            case steps.Scale(factors):
                return self._with(factors, "p.v * a.v", x)
            case steps.Kernel(landmarks, scale):
                nearness = f"exp({self.most}(-{scale!r} * sum((p.v - w.v) * (p.v - w.v)), -700))"
                return self._sums(landmarks, np.zeros(len(landmarks)), nearness, x)
            case steps.Affine(weights, bias):
                return self._sums(weights.T, bias, "min(b.v) + sum(p.v * w.v)", x)
            case steps.Relu():
                return self._each(f"{self.most}(v, 0)", x)
            case steps.Cosine():
                return self._each("cos(v)", x)
            case steps.Softmax():
                powers = f"SELECT id, i, exp({self.most}(v - max(v) OVER (PARTITION BY id), -700)) AS v FROM {x}"
                return self._each("v / sum(v) OVER (PARTITION BY id)", f"({powers}) AS q")
            case steps.LogOdds(limit):
                return self._each(f"2 * atanh({self.most}(-{limit!r}, {self.least}({limit!r}, v)))", x)
            case steps.Largest():
                first = "row_number() OVER (PARTITION BY id ORDER BY v DESC, i) = 1"
                return self._each(f"CASE WHEN {first} THEN 1.0 ELSE 0.0 END", x)
            case steps.Join(parts):
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
        """Write a sum per row of numbers. SQLite joins in this order: it reads x once and finds the others by key."""
        b, w = self.numbers(bias), self.numbers(rows)
        joined = f"{x} p CROSS JOIN {w} w CROSS JOIN {b} b WHERE w.i = p.i AND b.i = w.j"
        return f"SELECT p.id AS id, b.i AS i, {expression} AS v FROM {joined} GROUP BY p.id, b.i"


def _width(path: Steps) -> int:
    """Return how many numbers the steps of a part of a joined hasher give."""
    for step in reversed(path):
        match step:
            case steps.Affine(_, bias):
                return len(bias)
            case steps.Join(parts):
                return sum(map(_width, parts))
    raise ExportError("A part of this hasher has no projection, so it cannot be exported to tables of SQL.")
