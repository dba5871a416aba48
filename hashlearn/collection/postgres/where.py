"""Filters as SQL over a jsonb column, equal to ``where.matches`` for every payload. All values are parameters.

Why it is equal: ``->`` with a text key looks into objects only (never by place into arrays); jsonb compares numbers as
exact decimals and scalars by type; text is ordered by COLLATE "C", which in UTF-8 is the order of code points.
``rows.exact_json`` writes floats so that their decimals compare with whole numbers as Python does.

A comparison with a field that is missing is NULL, which WHERE takes for false; only a negation has to make it false.
Comparisons stand alone and not inside functions, so that the indexes of ``indexed_fields`` can answer them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hashlearn.collection.postgres.rows import exact_json
from hashlearn.collection.where import All, AnyOf, Compare, Condition, Not, Path, kind_of

if TYPE_CHECKING:
    from psycopg.sql import Composable


_MAX_COMPARED = 100  # values in a list that an index is asked for one by one


def to_sql(condition: Condition | None) -> tuple[Composable, list[Any]]:
    """A boolean SQL expression, which holds where it is true and not NULL, and its parameters."""
    from psycopg import sql

    if condition is None:
        return sql.SQL("TRUE"), []
    if isinstance(condition, Not):
        inner, values = to_sql(condition.part)
        return sql.SQL("(NOT COALESCE({}, FALSE))").format(inner), values
    if isinstance(condition, All):
        return _joined(condition.parts, " AND ", "TRUE")
    if isinstance(condition, AnyOf):
        return _joined(condition.parts, " OR ", "FALSE")
    return _compare(condition)


def indexed_fields(paths: Sequence[Path]) -> list[Composable]:
    """What to index so that comparisons with these fields are quick: values as they are, and texts by code point."""
    from psycopg import sql

    made: list[Composable] = []
    for path in paths:
        field = sql.SQL("(payload{})").format(sql.SQL("").join(sql.SQL(" -> {}::text").format(name) for name in path))
        made += [sql.SQL("({})").format(field), sql.SQL("(({} #>> '{{}}') COLLATE \"C\")").format(field)]
    return made


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
        return sql.SQL("({} = %s::jsonb)").format(field), [*path, exact_json(operand)]
    if operator == "in" and len(operand) <= _MAX_COMPARED:
        return sql.SQL("({} = ANY(%s::jsonb[]))").format(field), [*path, list(map(exact_json, operand))]
    if operator == "in":
        # A subquery is hashed, so the time does not grow with rows times values.
        listed = "[" + ",".join(map(exact_json, operand)) + "]"
        return sql.SQL("({} IN (SELECT jsonb_array_elements(%s::jsonb)))").format(field), [*path, listed]
    if operator == "contains":
        kind, test, value = "array", "{} @> %s::jsonb", exact_json(operand)
    elif kind_of(operand) == "number":
        kind, test, value = "number", "{} {} %s::jsonb", exact_json(operand)
    else:
        kind, test, value = "string", "({} #>> '{{}}') COLLATE \"C\" {} %s", operand
    text = sql.SQL(f"({test} AND jsonb_typeof({{}}) = '{kind}')").format
    parts = (field, field) if operator == "contains" else (field, sql.SQL(operator), field)
    return text(*parts), [*path, value, *path]
