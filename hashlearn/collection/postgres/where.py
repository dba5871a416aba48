"""Filters as SQL over a jsonb column, equal to ``where.matches`` for every payload. All values are parameters.

Why it is equal: ``->`` with a text key looks into objects only (never by place into arrays); jsonb compares numbers as
exact decimals and scalars by type; text is ordered by COLLATE "C", which in UTF-8 is the order of code points.
``postgres_rows.exact_json`` writes floats so that their decimals compare with whole numbers as Python does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hashlearn.collection.postgres.rows import exact_json
from hashlearn.collection.where import All, AnyOf, Compare, Condition, Not, kind_of

if TYPE_CHECKING:
    from psycopg.sql import Composable


def to_sql(condition: Condition | None) -> tuple[Composable, list[Any]]:
    """A boolean SQL expression that is never NULL, and its parameters."""
    from psycopg import sql

    if condition is None:
        return sql.SQL("TRUE"), []
    if isinstance(condition, Not):
        inner, values = to_sql(condition.part)
        return sql.SQL("(NOT {})").format(inner), values
    if isinstance(condition, All):
        return _joined(condition.parts, " AND ", "TRUE")
    if isinstance(condition, AnyOf):
        return _joined(condition.parts, " OR ", "FALSE")
    return _compare(condition)


def _joined(parts: Sequence[Condition], word: str, nothing: str) -> tuple[Composable, list[Any]]:
    from psycopg import sql

    if not parts:
        return sql.SQL(nothing), []
    compiled = [to_sql(part) for part in parts]
    text = sql.SQL("({})").format(sql.SQL(word).join([expression for expression, _ in compiled]))
    return text, [value for _, values in compiled for value in values]


def _compare(condition: Compare) -> tuple[Composable, list[Any]]:
    from psycopg import sql

    field = sql.SQL("(payload{})").format(sql.SQL(" -> %s::text" * len(condition.path)))
    path: list[Any] = list(condition.path)
    operator, operand = condition.operator, condition.operand
    if operator == "exists":
        return sql.SQL("({} IS {} NULL)").format(field, sql.SQL("NOT" if operand else "")), path
    if operator == "=":
        return sql.SQL("COALESCE({} = %s::jsonb, FALSE)").format(field), [*path, exact_json(operand)]
    if operator == "in":
        # A subquery is hashed, so the time does not grow with rows times values.
        listed = "[" + ",".join(map(exact_json, operand)) + "]"
        test = "COALESCE({} IN (SELECT jsonb_array_elements(%s::jsonb)), FALSE)"
        return sql.SQL(test).format(field), [*path, listed]
    if operator == "contains":
        test = "COALESCE(jsonb_typeof({0}) = 'array' AND {0} @> %s::jsonb, FALSE)"
        value = exact_json(operand)
    # CASE keeps the cast away from values of another type.
    elif kind_of(operand) == "number":
        test = "(CASE jsonb_typeof({0}) WHEN 'number' THEN {0}::numeric {1} %s::numeric ELSE FALSE END)"
        value = exact_json(operand)
    else:
        test = "(CASE jsonb_typeof({0}) WHEN 'string' THEN ({0} #>> '{{}}') COLLATE \"C\" {1} %s ELSE FALSE END)"
        value = operand
    return sql.SQL(test).format(field, sql.SQL(operator)), [*path, *path, value]
