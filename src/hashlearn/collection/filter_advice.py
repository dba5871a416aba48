"""Sentences about why a filter finds nothing: no payload has the field, or its values are of another kind."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from itertools import islice
from typing import TYPE_CHECKING, Any

from hashlearn.collection.store import Payload, Store
from hashlearn.collection.where import (
    MISSING,
    TEXT_FIELD,
    AnyOf,
    Compare,
    Condition,
    Listed,
    Not,
    Path,
    kind_of,
    parse,
    value_at,
)

if TYPE_CHECKING:
    from hashlearn.collection.collection import Collection

FIRST_ROWS, SAMPLE_ROWS, MOST_NAMES, MOST_ASKED = 100, 1000, 20, 20
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


Asked = tuple[Path, tuple[str, ...]]
"""What one comparison needs of a field: a value of one of these kinds; no kinds if any value will do.

The kinds are those of ``where.kind_of``, or ``LIST``.
"""


def warn_of_filter(store: Store, condition: Condition, told: set[Asked], stacklevel: int) -> None:
    """Warn of each comparison of a filter that no payload can fulfil.

    It looks through payloads, so call it only where a filter has found nothing. ``told`` are comparisons that need no
    second look; those of this filter are added to it.
    """
    asked = [one for one in dict.fromkeys(_asked(condition)) if one not in told]
    told.update(asked)
    for sentence in _sentences(store, asked):
        warnings.warn(sentence, FilterWarning, stacklevel=stacklevel + 1)


def filter_advice(self: Collection, where: Mapping[str, Any]) -> list[str]:
    """Return one sentence per field of a filter that cannot match, with the reason.

    No payload has the field, or its values are of another kind (numbers for text, lists for one value). ``search`` and
    other methods warn so by themselves if a filter finds nothing. Only the first 20 fields are looked for.
    """
    return _sentences(self._store, islice(dict.fromkeys(_asked(parse(where))), MOST_ASKED))


def _asked(condition: Condition, negated: bool = False) -> Iterator[Asked]:
    """Iterate over what the comparisons of a filter need. A comparison under $not needs no kind: it may fail."""
    if isinstance(condition, Compare):
        yield condition.path, () if negated else _kinds_asked(condition)
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
    return () if "null" in kinds else tuple(sorted(kinds))  # a filter for null often looks for what should not be there


def _sentences(store: Store, asked: Iterable[Asked]) -> list[str]:
    first = _payloads(store, FIRST_ROWS)
    sentences: dict[str, None] = {}
    for path, kinds in asked:
        # Most filters that find nothing are right, which the first rows tell without a look through all payloads.
        if not first or _hold(first, path, kinds):
            continue
        having = _payloads(store, SAMPLE_ROWS, Compare(path, "exists", operand=True))
        if not having:
            sentences[_unknown_field(path, _payloads(store, SAMPLE_ROWS))] = None
        elif not _hold(having, path, kinds) and not _any_row_holds(store, path, kinds):
            sentences[_other_kind(path, kinds, [value_at(payload, path) for payload in having])] = None
    return list(sentences)


def _payloads(store: Store, n_rows: int, where: Condition | None = None) -> list[Payload]:
    """Return the payloads of the first rows that match."""
    rows = next(store.scan(n_rows, where), None)
    return [] if rows is None else rows.payloads


def _hold(payloads: list[Payload], path: Path, kinds: tuple[str, ...]) -> bool:
    """Return whether one of these payloads has the field, with a value of one of these kinds if there are any."""
    values = (value_at(payload, path) for payload in payloads)
    return any(value is not MISSING and (not kinds or _kind(value) in kinds) for value in values)


def _any_row_holds(store: Store, path: Path, kinds: tuple[str, ...]) -> bool:
    """Return whether a payload has a value of one of these kinds.

    False for lists: no condition holds for every list.
    """
    holding = {
        "number": [Compare(path, "<", 0), Compare(path, ">=", 0)],
        "text": [Compare(path, ">=", "")],
        "truth": [Compare(path, "in", Listed((True, False)))],
    }
    return kinds != LIST and store.count(AnyOf(tuple(part for kind in kinds for part in holding[kind]))) > 0


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


def _unknown_field(path: Path, payloads: list[Payload]) -> str:
    known = [name for name in dict.fromkeys(name for payload in payloads for name in payload) if name != TEXT_FIELD]
    listed = ", ".join(known[:MOST_NAMES]) + (", …" if len(known) > MOST_NAMES else "")
    have = f"payloads have {listed}" if known else "payloads have no fields"
    near = get_close_matches(path[0], known, 1)
    hint = f" Did you mean {near[0]!r}?" if near and len(path) == 1 else ""
    return f"No payload has the field {'.'.join(path)!r}, so the filter finds nothing: {have}.{hint}"
