"""Sentences about why a filter finds nothing: no payload has the field, or its values are of another kind."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from itertools import islice
from typing import Any, NamedTuple

from hashlearn.collection.id_kinds import TEXT_FIELD
from hashlearn.collection.store import Store
from hashlearn.collection.where import AnyOf, Compare, Condition, Listed, Not, Path, kind_of, value_at

SAMPLE_ROWS, MOST_NAMES, MOST_ASKED = 1000, 20, 20
LIST = ("list",)
_NAMES = {
    "number": "numbers",
    "text": "text",
    "truth": "true or false",
    "null": "null",
    "list": "lists",
    "object": "objects",
}


class FilterWarning(UserWarning):
    """A filter finds nothing because no payload has its field, or none has a value of the kind that is asked for."""


class Asked(NamedTuple):
    """What one comparison needs of a field: a value of one of these kinds; no kinds if any value will do.

    The kinds are those of ``where.kind_of``, or ``LIST``.
    """

    path: Path
    kinds: tuple[str, ...] = ()


def warn_of_filter(store: Store, condition: Condition, told: set[Asked], stacklevel: int) -> None:
    """Warn of each comparison of a filter that no payload can fulfil.

    It looks through payloads, so call it only where a filter has found nothing. ``told`` are comparisons that need no
    second look; those of this filter are added to it.
    """
    asked = [one for one in dict.fromkeys(_asked(condition)) if one not in told]
    told.update(asked)
    for sentence in _sentences(store, asked):
        warnings.warn(sentence, FilterWarning, stacklevel=stacklevel + 1)


def filter_advice(store: Store, condition: Condition) -> list[str]:
    """Return a sentence about each comparison of a filter that no payload can fulfil, of its first 20."""
    return _sentences(store, islice(dict.fromkeys(_asked(condition)), MOST_ASKED))


def _asked(condition: Condition, negated: bool = False) -> Iterator[Asked]:
    """Iterate over what the comparisons of a filter need. A comparison under $not needs no kind: it may fail."""
    if isinstance(condition, Compare):
        yield Asked(condition.path, () if negated else _kinds_asked(condition))
    elif isinstance(condition, Not):
        yield from _asked(condition.part, not negated)
    else:
        for part in condition.parts:
            yield from _asked(part, negated)


def _kinds_asked(compare: Compare) -> tuple[str, ...]:
    if compare.operator == "exists":
        return ()
    if compare.operator == "contains":
        return LIST
    values = compare.operand if compare.operator == "in" else (compare.operand,)
    kinds = {kind_of(value) or "" for value in values}
    return () if "null" in kinds else tuple(sorted(kinds))  # who asks for null does not expect that there is any


def _sentences(store: Store, asked: Iterable[Asked]) -> list[str]:
    sentences: dict[str, None] = {}
    known: list[str] | None = None
    for path, kinds in asked:
        rows = next(store.scan(SAMPLE_ROWS, Compare(path, "exists", operand=True)), None)
        if rows is not None:
            values = [value_at(payload, path) for payload in rows.payloads]
            if kinds and not _is_held(store, path, kinds, values):
                sentences[_other_kind(path, kinds, values)] = None
            continue
        if known is None:
            known = _known_fields(store)
        if known is not None:
            sentences[_unknown_field(path, known)] = None
    return list(sentences)


def _is_held(store: Store, path: Path, kinds: tuple[str, ...], values: list[Any]) -> bool:
    """Whether a payload has a value of one of these kinds. ``values`` are the first ones; lists are not looked for
    beyond them, because no filter asks for any list."""
    if any(_kind(value) in kinds for value in values):
        return True
    return kinds != LIST and store.count(AnyOf(tuple(part for kind in kinds for part in _of_kind(path, kind)))) > 0


def _of_kind(path: Path, kind: str) -> tuple[Compare, ...]:
    """Comparisons of which one holds for every number, every text, or true and false."""
    if kind == "number":
        return Compare(path, "<", 0), Compare(path, ">=", 0)
    return (Compare(path, ">=", "") if kind == "text" else Compare(path, "in", Listed((True, False))),)


def _kind(value: Any) -> str:
    return kind_of(value) or ("list" if isinstance(value, list) else "object")


def _other_kind(path: Path, asked: tuple[str, ...], values: list[Any]) -> str:
    field, held = ".".join(path), dict.fromkeys(map(_kind, values))
    names, wanted = (" or ".join(_NAMES[kind] for kind in kinds) for kinds in (held, asked))
    said = f"The field {field!r} holds {names}, not {wanted}, so the filter finds nothing"
    if "list" in held:
        return f"{said}: write {{{field!r}: {{'contains': ...}}}} for a value in a list."
    if "object" in held:
        inner = next((name for value in values if isinstance(value, dict) for name in value), "name")
        return f"{said}: name a field inside of it, such as {f'{field}.{inner}'!r}."
    if asked == LIST:
        return f"{said}: 'contains' asks for a value in a list; write {{{field!r}: ...}} for equal values."
    return f"{said}: a comparison holds only between values of one kind."


def _known_fields(store: Store) -> list[str] | None:
    """The fields of the first payloads; None if there are no rows."""
    rows = next(store.scan(SAMPLE_ROWS), None)
    if rows is None or not len(rows.ids):
        return None
    return [name for name in dict.fromkeys(name for payload in rows.payloads for name in payload) if name != TEXT_FIELD]


def _unknown_field(path: Path, known: list[str]) -> str:
    listed = ", ".join(known[:MOST_NAMES]) + (", …" if len(known) > MOST_NAMES else "")
    have = f"payloads have {listed}" if known else "payloads have no fields"
    near = get_close_matches(path[0], known, 1)
    hint = f" Did you mean {near[0]!r}?" if near and len(path) == 1 else ""
    return f"No payload has the field {'.'.join(path)!r}, so the filter finds nothing: {have}.{hint}"
