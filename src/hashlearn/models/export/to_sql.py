"""PostgreSQL: functions on the types of pgvector, so that the database makes the codes of its vectors.

pgvector adds up in single precision, as ``encode`` does for float32 rows. Weights are constants in the functions'
bodies: the functions read no tables, so they are immutable, and a generated column or an index may use them.
"""

from __future__ import annotations

import re
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
    Trees,
    Unit,
)

MOST_DIMENSIONS = 16_000
"""Of a ``vector`` of pgvector."""


def sql_script(description: Description, name: str) -> bytes:
    """Return a script that creates four functions.

    ``hash_NAME(vector) returns bit(n)`` makes codes of database rows, ``hash_query_NAME(vector) returns bit(n)`` codes
    of queries, ``expected_NAME(vector) returns vector(n)`` real-valued queries; ``project_NAME(vector)`` gives the
    projections, which the others use.
    """
    if not re.fullmatch(r"[a-z_][a-z0-9_]{0,40}", name):
        raise ExportError(
            f"The functions would be called hash_{name}, but a name has at most 41 lower-case letters, digits and "
            "underscores: give name=, or --name on the command line."
        )
    if description.n_features > MOST_DIMENSIONS:
        raise ExportError(f"A vector of pgvector has at most {MOST_DIMENSIONS} numbers. Got {description.n_features}.")
    n_bits, z, zeros = description.n_bits, f"project_{name}(x)", np.zeros(description.n_bits)
    shift = zeros if description.shift is None else description.shift
    expected = z
    if description.slopes is not None and description.offsets is not None:
        expected = _each("tanh((z * s + o) / 2)", z=z, s=_doubles(description.slopes), o=_doubles(description.offsets))
    parts = [
        f"-- {description.method} of hashlearn with {n_bits} bits, for vectors of {description.n_features} numbers.",
        "-- PostgreSQL 14 or later with pgvector 0.7 or later.",
        "CREATE EXTENSION IF NOT EXISTS vector;",
        _projection(description, name),
        _function(f"hash_{name}", f"bit({n_bits})", _bits(z, shift)),
        _function(f"hash_query_{name}", f"bit({n_bits})", _bits(z, zeros)),
        _function(f"expected_{name}", f"vector({n_bits})", f"SELECT {expected}::vector"),
    ]
    return "\n".join([*parts, ""]).encode()


def _projection(description: Description, name: str) -> str:
    """Return the function that runs the steps. PL/pgSQL reads the constants once per session, not once per row."""
    writer = _Writer()
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


class _Writer:
    """Statements of PL/pgSQL, one variable per step: v1, v2, ..., each of the type in ``kinds``."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.kinds: list[str] = []

    def run(self, steps: tuple[Step, ...], x: str) -> str:
        """Write the steps and return the variable of the last one as an array of double precision."""
        for step in steps:
            x = self._set(*self._written(step, x))
        return x

    def _set(self, expression: str, kind: str = "double precision[]") -> str:
        self.kinds.append(kind)
        name = f"v{len(self.kinds)}"
        self.lines.append(f"  {name} := {expression};")
        return name

    def _written(self, step: Step, x: str) -> tuple[str, ...]:
        """Return the expression of a step, and its type where that is not an array of double precision."""
        match step:
            case Unit():
                return f"l2_normalize({x}::vector)", "vector"
            case Subtract(vector):
                return f"{x}::vector - {_vector(vector)}", "vector"
            case Scale(factors):
                return f"{x}::vector * {_vector(factors)}", "vector"
            case Kernel(landmarks, scale):
                # exp refuses numbers whose result would be 0.
                kernel = f"exp(greatest(-{scale!r} * ({x}::vector <-> l) ^ 2, -700))"
                return (_each(kernel, l=_vectors(landmarks)),)
            case Affine(weights, bias):
                return (_each(f"b - ({x}::vector <#> w)", w=_vectors(weights.T), b=_doubles(bias)),)
            case Relu():
                return (_each("greatest(u, 0)", u=x),)
            case Cosine():
                return (_each("cos(u)", u=x),)
            case Softmax():
                most = self._set(f"(SELECT max(u) FROM unnest({x}) AS u)", "double precision")
                powers = self._set(_each(f"exp(greatest(u - {most}, -700))", u=x))
                return (_each(f"u / (SELECT sum(p) FROM unnest({powers}) AS p)", u=powers),)
            case LogOdds(limit):
                return (_each(f"2 * atanh(greatest(-{limit!r}, least({limit!r}, u)))", u=x),)
            case Largest():
                most = self._set(f"(SELECT max(u) FROM unnest({x}) AS u)", "double precision")
                first = self._set(f"array_position({x}, {most})", "int")
                places = f"(SELECT array_agg(i) FROM generate_subscripts({x}, 1) AS i)"
                return (_each(f"(i = {first})::int::double precision", i=places),)
            case Join(parts):
                return (" || ".join([self.run(part, x) for part in parts]),)
            case Trees():
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
