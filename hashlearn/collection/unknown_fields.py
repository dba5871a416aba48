"""Sentences about fields of a filter that no payload has: often a name is misspelled."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from difflib import get_close_matches
from itertools import islice

from hashlearn.collection.id_kinds import TEXT_FIELD
from hashlearn.collection.store import Store
from hashlearn.collection.where import Compare, Condition, Path, paths_of

SAMPLE_ROWS, MOST_NAMES, MOST_PATHS = 1000, 20, 20


class UnknownFieldWarning(UserWarning):
    """A filter names a field that no payload of the collection has."""


def warn_of_unknown_fields(store: Store, condition: Condition, looked_for: set[Path], stacklevel: int) -> None:
    """Warn of each field of a filter that no payload has.

    It looks through payloads, so call it only where a filter has found nothing. ``looked_for`` are fields that need no
    second look; those of this filter are added to it.
    """
    paths = [path for path in dict.fromkeys(paths_of(condition)) if path not in looked_for]
    looked_for.update(paths)
    for sentence in _sentences(store, paths):
        warnings.warn(sentence, UnknownFieldWarning, stacklevel=stacklevel + 1)


def unknown_fields(store: Store, condition: Condition) -> list[str]:
    """Return a sentence about each field of a filter that no payload has, of its first 20 fields."""
    return _sentences(store, islice(dict.fromkeys(paths_of(condition)), MOST_PATHS))


def _sentences(store: Store, paths: Iterable[Path]) -> list[str]:
    unknown = [path for path in paths if not store.count(Compare(path, "exists", operand=True))]
    if not unknown or not store.count():
        return []
    rows = next(store.scan(SAMPLE_ROWS), None)
    found = dict.fromkeys(name for payload in rows.payloads for name in payload) if rows is not None else {}
    known = [name for name in found if name != TEXT_FIELD]
    listed = ", ".join(known[:MOST_NAMES]) + (", …" if len(known) > MOST_NAMES else "")
    have = f"payloads have {listed}" if known else "payloads have no fields"
    sentences = []
    for path in unknown:
        near = get_close_matches(path[0], known, 1)
        hint = f" Did you mean {near[0]!r}?" if near and len(path) == 1 else ""
        sentences.append(f"No payload has the field {'.'.join(path)!r}, so the filter finds nothing: {have}.{hint}")
    return sentences
