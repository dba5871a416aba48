"""The fields of payloads, from a sample of the rows: what filters can ask for, and how rows can be shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from hashlearn.collection.where import kind_of
from hashlearn.service.errors import collection_errors, to_json
from hashlearn.service.served_collection import ServedCollection
from hashlearn.service.statistics import sampled_items

_SAMPLED_ROWS = 1_000
_MOST_FIELDS = 200
_MOST_VALUES = 20  # that a field is told with
_COUNTED_VALUES = 2_000  # different ones, of a field
_LONGEST_VALUE = 80
_DEEPEST = 4


@dataclass
class _Field:
    """What the sampled rows hold in one field."""

    rows: int = 0
    kinds: set[str] = field(default_factory=set)
    characters: int = 0
    texts: int = 0
    lowest: float | None = None
    highest: float | None = None
    values: Counter[Any] = field(default_factory=Counter)

    def note(self, value: Any) -> None:
        self.rows += 1
        self.kinds.add(kind_of(value) or ("list" if isinstance(value, list) else "object"))
        if isinstance(value, str):
            self.texts += 1
            self.characters += len(value)
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            self.lowest = value if self.lowest is None else min(self.lowest, value)
            self.highest = value if self.highest is None else max(self.highest, value)
        for part in value if isinstance(value, list) else (value,):
            # The kind belongs to the key: True and 1 are different values.
            key = (kind_of(part), part) if kind_of(part) not in (None, "null") else None
            if key is not None and (key in self.values or len(self.values) < _COUNTED_VALUES):
                self.values[key] += 1

    def facts(self, path: tuple[str, ...]) -> dict[str, Any]:
        common = [value for (_, value), _ in self.values.most_common(_MOST_VALUES)]
        return {
            "name": ".".join(name.replace("\\", "\\\\").replace(".", "\\.") for name in path),
            "path": list(path),
            "rows": self.rows,
            "kinds": sorted(self.kinds),
            "characters": round(self.characters / self.texts, 1) if self.texts else 0,
            "distinct": len(self.values),
            "values": [value for value in common if not isinstance(value, str) or len(value) <= _LONGEST_VALUE],
            "lowest": self.lowest,
            "highest": self.highest,
        }


def known_fields(served: ServedCollection) -> bytes:
    """The JSON answer: the fields of a sample of the rows in the order in which payloads have them."""
    with collection_errors():
        items = sampled_items(served, served.ids(), _SAMPLED_ROWS)
    found: dict[tuple[str, ...], _Field] = {}
    for item in items:
        for path, value in _leaves(item.payload):
            if path in found or len(found) < _MOST_FIELDS:
                found.setdefault(path, _Field()).note(value)
    return to_json({"sampled": len(items), "fields": [facts.facts(path) for path, facts in found.items()]})


def _leaves(value: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The paths and values in a payload. An object is told by the fields in it, unless it has none or lies deep."""
    for name, part in value.items():
        if isinstance(part, dict) and part and len(path) + 1 < _DEEPEST:
            yield from _leaves(part, (*path, name))
        elif name:  # filters cannot name a field without a name
            yield (*path, name), part
