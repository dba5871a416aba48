"""Which labels a collection confuses: the labels of the nearest rows of a sample of rows."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

import numpy as np

from hashlearn.collection import Item
from hashlearn.collection.id_kinds import json_id
from hashlearn.service.errors import collection_errors, to_json
from hashlearn.service.labels import labels_of
from hashlearn.service.served_collection import ServedCollection
from hashlearn.service.statistics import sampled_items

NEAREST = 10
MOST_LABELS = 20
_SAMPLED_ROWS = 1_000


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
    """The JSON answer: for every label, which labels the nearest rows of its rows have."""
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
    """Per item the labels of each of its nearest rows, itself left out."""
    hits = served.collection.search(codes=np.stack([item.code for item in items]), k=NEAREST + 1)
    wanted = np.unique(hits.ids[hits.filled])
    rows = served.collection.get(wanted, vectors=False)
    labels = {row.id: labels_of(row.payload, field) for row in rows if row is not None}
    result = []
    for item, ids, filled in zip(items, hits.ids, hits.filled, strict=True):
        nearest = [one for one in ids[filled].tolist() if one != item.id][:NEAREST]
        result.append([labels.get(one, []) for one in nearest])
    return result


def _shares(name: str, nearest: list[list[str]]) -> Counter[str]:
    """How many of the nearest rows each label has: a row that has ``name`` counts for it, another for all it has."""
    shares: Counter[str] = Counter()
    for labels in nearest:
        kept = [name] if name in labels else labels
        for label in kept:
            shares[label] += 1 / len(kept)  # type: ignore[assignment]
    return shares


def _row(seen: list[_Seen], names: list[str]) -> list[dict[str, Any]]:
    """The cells of one label: of every listed label, and a last one of all others and of rows without labels."""
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
    """The label, of all there are, that the nearest rows have most often instead of ``name``; None if there is none."""
    others: Counter[str] = Counter()
    for one in seen:
        others.update(one.shares)
    del others[name]
    if not others:
        return None
    ((other, share),) = others.most_common(1)
    example = max(seen, key=lambda one: one.shares[other])
    return {"label": other, "share": round(share / sum(one.all for one in seen), 4), "id": json_id(example.id)}
