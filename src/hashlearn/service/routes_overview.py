"""Routes that show a whole collection: figures about bits, confused labels, fields of payloads, the map."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from fastapi import APIRouter, Response
from numpy.typing import NDArray

from hashlearn.codes import n_bytes, unpack
from hashlearn.collection import Item
from hashlearn.collection.ids import json_id
from hashlearn.collection.where import kind_of
from hashlearn.service import schemas
from hashlearn.service.code_map import map_of
from hashlearn.service.errors import collection_errors, json_response, to_json
from hashlearn.service.served_collection import ServedCollection, labels_of, sampled_items
from hashlearn.service.service import CollectionDep, ServiceDep

_BIT_ROWS, _SAMPLED_ROWS = 10_000, 1_000


def bit_statistics(served: ServedCollection) -> dict[str, Any]:
    """Rows, bytes, and what a sample of the codes tells about the bits."""
    with collection_errors():
        info, ids = served.collection.info(), served.ids()
        items = sampled_items(served, ids, _BIT_ROWS)
    size = n_bytes(served.n_bits)
    codes = np.stack([item.code for item in items]) if items else np.empty((0, size), dtype=np.uint8)
    bits = unpack(codes, served.n_bits)
    ones = bits.mean(axis=0).tolist() if items else [0.0] * served.n_bits
    return {
        "rows": len(ids),
        "n_bits": served.n_bits,
        "bytes": info.get("bytes"),
        "code_bytes": size * len(ids),
        "sampled": len(items),
        "ones": [round(share, 6) for share in ones],
        "largest_correlation": _largest_correlation(bits),
        "distinct_codes": len(np.unique(codes, axis=0)),
    }


def _largest_correlation(bits: NDArray[np.uint8]) -> float | None:
    """Return the largest correlation between two bits that both vary; None when there are no two."""
    varied = bits[:, bits.any(axis=0) & ~bits.all(axis=0)] if len(bits) else bits
    if len(bits) < 2 or varied.shape[1] < 2:
        return None
    table = np.abs(np.corrcoef(varied.astype(np.float64), rowvar=False))
    np.fill_diagonal(table, 0)
    return round(float(table.max()), 6)


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
    """Return the JSON answer: the fields of a sample of the rows in the order in which payloads have them."""
    with collection_errors():
        items = sampled_items(served, served.ids(), _SAMPLED_ROWS)
    found: dict[tuple[str, ...], _Field] = {}
    for item in items:
        for path, value in _leaves(item.payload):
            if path in found or len(found) < _MOST_FIELDS:
                found.setdefault(path, _Field()).note(value)
    return to_json({"sampled": len(items), "fields": [facts.facts(path) for path, facts in found.items()]})


def _leaves(value: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the paths and values in a payload. An object is told by its fields, unless it has none or lies deep."""
    for name, part in value.items():
        if isinstance(part, dict) and part and len(path) + 1 < _DEEPEST:
            yield from _leaves(part, (*path, name))
        elif name:  # filters cannot name a field without a name
            yield (*path, name), part


NEAREST = 10
MOST_LABELS = 20


class _Seen(NamedTuple):
    """How the rows nearest to one sampled row share out, seen from one of its labels."""

    id: Any
    name: str
    shares: Counter[str]
    all: int

    @property
    def own(self) -> float:
        return self.shares[self.name]


def confusion_of(served: ServedCollection) -> bytes:
    """Return the JSON answer: for every label, which labels the nearest rows of its rows have."""
    with collection_errors():
        field = served.label_field()
        items = sampled_items(served, served.ids(), _SAMPLED_ROWS)
        labels = [labels_of(item.payload, field) for item in items]
        queries = [(item, own) for item, own in zip(items, labels, strict=True) if own]
        nearest = _labels_of_nearest(served, [item for item, _ in queries], field) if queries else []
    seen = [
        _Seen(item.id, name, _shares(name, found), len(found))
        for (item, own), found in zip(queries, nearest, strict=True)
        for name in dict.fromkeys(own)
    ]
    frequent = [name for name, _ in Counter(one.name for one in seen).most_common()]
    names = frequent
    if len(frequent) > MOST_LABELS:
        misses = dict.fromkeys(frequent, 0.0)
        for one in seen:
            misses[one.name] += one.all - one.own
        names = sorted(frequent, key=lambda name: -misses[name])[:MOST_LABELS]
    whole = sum(one.all for one in seen)
    by_label = {name: [one for one in seen if one.name == name] for name in names}
    facts = {
        "k": NEAREST,
        "sampled": len(queries),
        "all_labels": len(frequent),
        "own_share": round(sum(one.own for one in seen) / whole, 4) if whole else None,
        "labels": names,
        "rows": [_row(own, names) for own in by_label.values()],
        "most_confused": [_most_confused(own, name) for name, own in by_label.items()],
    }
    return to_json(facts)


def _labels_of_nearest(served: ServedCollection, items: list[Item], field: str | None) -> list[list[list[str]]]:
    """Return for each item the labels of each of its nearest rows, itself left out."""
    hits = served.collection.search(codes=np.stack([item.code for item in items]), k=NEAREST + 1)
    return [
        [labels_of(hit.payload or {}, field) for hit in nearest if hit.id != item.id][:NEAREST]
        for item, nearest in zip(items, hits.per_query(), strict=True)
    ]


def _shares(name: str, nearest: list[list[str]]) -> Counter[str]:
    """How many of the nearest rows each label has: a row that has ``name`` counts for it, another for all it has."""
    shares: Counter[str] = Counter()
    for labels in nearest:
        kept = [name] if name in labels else labels
        for label in kept:
            shares[label] += 1 / len(kept)  # type: ignore[assignment]
    return shares


def _row(seen: list[_Seen], names: list[str]) -> list[dict[str, Any]]:
    """Return the cells of one label: of every listed label, and a last one of all others and of rows without labels."""
    parts = [[one.shares[name] for name in names] for one in seen]
    table = np.array([[*part, max(0.0, one.all - sum(part))] for part, one in zip(parts, seen, strict=True)])
    shares = table.sum(axis=0) / max(1, sum(one.all for one in seen))
    # The row whose nearest ones show most of it.
    examples = table.argmax(axis=0)
    return [
        {"share": round(float(share), 4), "id": json_id(seen[place].id) if table[place, column] > 1e-9 else None}
        for column, (share, place) in enumerate(zip(shares, examples.tolist(), strict=True))
    ]


def _most_confused(seen: list[_Seen], name: str) -> dict[str, Any] | None:
    """Return the label that the nearest rows have most often instead of ``name``; None if there is none."""
    others: Counter[str] = Counter()
    for one in seen:
        others.update(one.shares)
    del others[name]
    if not others:
        return None
    ((other, share),) = others.most_common(1)
    example = max(seen, key=lambda one: one.shares[other])
    return {"label": other, "share": round(share / sum(one.all for one in seen), 4), "id": json_id(example.id)}


router = APIRouter(prefix="/api/v1/collections/{collection}", tags=["overview"])


@router.get("/stats", **schemas.described(schemas.StatisticsResponse))
async def get_statistics(service: ServiceDep, served: CollectionDep) -> Response:
    """Rows, bytes, and how balanced and how independent the bits are."""
    return json_response(to_json(await service.reads.run(bit_statistics, served)))


@router.get("/fields", **schemas.described(schemas.FieldsResponse))
async def get_fields(service: ServiceDep, served: CollectionDep) -> Response:
    """The fields of the payloads, from a sample: their kinds, and values that filters can ask for."""
    return json_response(await service.kept(served).answer(known_fields, service.reads))


@router.get("/map", **schemas.described(schemas.MapResponse))
async def get_map(service: ServiceDep, served: CollectionDep) -> Response:
    """A place in two dimensions for every row, rows with similar codes together; at most 100,000 rows, drawn at random.

    It is computed once, and again when the collection has changed.
    """
    return json_response(await service.kept(served).answer(map_of, service.reads))


@router.get("/confusion", **schemas.described(schemas.ConfusionResponse))
async def get_confusion(service: ServiceDep, served: CollectionDep) -> Response:
    """For every label, which labels the nearest rows of its rows have; from a sample of 1,000 rows."""
    return json_response(await service.kept(served).answer(confusion_of, service.reads))
