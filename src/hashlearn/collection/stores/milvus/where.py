"""Filters as Milvus expressions, but only where Milvus 2.3 means exactly what ``where.matches`` means.

What is left out and why: null (Milvus cannot compare with it); numbers from 2^53 on, which Milvus compares as floats;
names with quotes, brackets, backslashes or control characters, which its parser does not read as names; texts with
control characters; nested names that look like places in a list, because Milvus would look into lists; long lists of
values. ``split`` returns those parts, which are then evaluated in Python.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from hashlearn.collection.where import All, Compare, Condition, Not, Scalar, kind_of

EXACT_BELOW = 2**53
MAX_LISTED = 10_000  # values in a list; an expression is text, and Milvus reads long ones slowly
EVERY_ROW, NO_ROW = "(id >= -1)", "(id < -1)"
_NAME = re.compile(r"[^\x00-\x1f\x7f\"'\\\[\]]+")
_TEXT = re.compile(r"[^\x00-\x1f\x7f]*")


def split(where: Condition | None) -> tuple[str, Condition | None]:
    """(expression for the server, what the server cannot say); "" is every row, None is nothing left."""
    if where is None:
        return "", None
    if not isinstance(where, All):
        text = to_expression(where)
        return (text, None) if text is not None else ("", where)
    told, left = [], []
    for part in where.parts:
        text, rest = split(part)
        if text:
            told.append(text)
        if rest is not None:
            left.append(rest)
    return " and ".join(told), All(tuple(left)) if left else None


def to_expression(condition: Condition) -> str | None:
    """Return an expression with the meaning of the condition; None when there is none."""
    if isinstance(condition, Compare):
        return _compare(condition)
    if isinstance(condition, Not):
        text = to_expression(condition.part)
        return None if text is None else f"(not {text})"
    parts = [to_expression(part) for part in condition.parts]
    word, nothing = (" and ", EVERY_ROW) if isinstance(condition, All) else (" or ", NO_ROW)
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    return "(" + word.join(known) + ")" if known else nothing


def _compare(condition: Compare) -> str | None:
    if not all(_NAME.fullmatch(name) for name in condition.path) or any(map(_is_place, condition.path[1:])):
        return None
    field = "payload" + "".join(f'["{name}"]' for name in condition.path)
    operator, operand = condition.operator, condition.operand
    if operator == "exists":
        return f"(exists {field})" if operand else f"(not (exists {field}))"
    if operator == "in":
        return _any_of(field, operand)
    text = _literal(operand)
    if text is None:
        return None
    if operator == "contains":
        # Inside lists a whole number would not equal a float; a float equals both.
        number = kind_of(operand) == "number"
        return f"(json_contains({field}, {float(operand)!r}))" if number else f"(json_contains({field}, {text}))"
    return f"({field} {'==' if operator == '=' else operator} {text})"


def _any_of(field: str, operand: Sequence[Scalar]) -> str | None:
    if not operand:
        return NO_ROW
    if len(operand) > MAX_LISTED:
        return None
    # A list of Milvus must be of one type.
    lists: dict[str, list[str]] = {}
    for item in operand:
        text = _literal(item)
        if text is None:
            return None
        kind = str(kind_of(item))
        whole = kind == "number" and text.lstrip("-").isdecimal()
        lists.setdefault("whole" if whole else kind, []).append(text)
    parts = [f"{field} in [{', '.join(texts)}]" for kind, texts in lists.items() if kind != "truth"]
    parts += [f"{field} == {text}" for text in lists.get("truth", ())]
    return "(" + " or ".join(parts) + ")"


def _literal(value: Scalar) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"' if _TEXT.fullmatch(value) else None
    if abs(value) >= EXACT_BELOW:
        return None
    if value == int(value):
        return str(int(value))
    return repr(value)


def _is_place(name: str) -> bool:
    return name.isdecimal() or name == "-"
