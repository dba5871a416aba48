"""Which labels a collection confuses: the labels of the nearest rows of a sample of rows."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from hashlearn.collection import Item
from hashlearn.service.errors import collection_errors, to_json
from hashlearn.service.labels import labels_of
from hashlearn.service.served_collection import ServedCollection
from hashlearn.service.statistics import sampled_items

NEAREST = 10
MOST_LABELS = 20
_SAMPLED_ROWS = 1_000
_OTHER = "\0"  # no label is this: stores refuse the character


def confusion_of(served: ServedCollection) -> bytes:
    """The JSON answer: for every label, which labels the nearest rows of its rows have."""
    with collection_errors():
        field = served.label_field()
        items = sampled_items(served, served.ids(), _SAMPLED_ROWS)
        own = [labels_of(item.payload, field) for item in items]
        queries = [(item, labels) for item, labels in zip(items, own, strict=True) if labels]
        names = [name for name, _ in Counter(label for labels in own for label in labels).most_common(MOST_LABELS)]
        found = _labels_of_nearest(served, [item for item, _ in queries], field) if queries else []
    counts: dict[str, Counter[str]] = {name: Counter() for name in names}
    examples: dict[tuple[str, str], tuple[float, int]] = {}
    for (item, labels), nearest in zip(queries, found, strict=True):
        for name in set(labels) & set(names):
            shares = _shares(name, nearest, counts)
            counts[name].update(shares)
            for other, share in shares.items():
                # The row whose nearest ones show most of it.
                if share > examples.get((name, other), (0.0, 0))[0]:
                    examples[name, other] = (share, item.id)
    rows = [_row(name, [*names, _OTHER], counts[name], examples) for name in names]
    return to_json({"k": NEAREST, "sampled": len(queries), "labels": names, "rows": rows})


def _labels_of_nearest(served: ServedCollection, items: list[Item], field: str | None) -> list[list[list[str]]]:
    """Per item the labels of each of its nearest rows, itself left out."""
    hits = served.collection.search(codes=np.stack([item.code for item in items]), k=NEAREST + 1)
    wanted = np.unique(hits.ids[hits.ids >= 0])
    rows = served.collection.get(wanted, vectors=False)
    labels = {row.id: labels_of(row.payload, field) for row in rows if row is not None}
    result = []
    for item, ids in zip(items, hits.ids.tolist(), strict=True):
        nearest = [number for number in ids if number >= 0 and number != item.id][:NEAREST]
        result.append([labels.get(number, []) for number in nearest])
    return result


def _shares(name: str, nearest: list[list[str]], known: dict[str, Any]) -> Counter[str]:
    """How much of the nearest rows each label has: a row that has ``name`` counts for it, another for all it has."""
    shares: Counter[str] = Counter()
    for labels in nearest:
        kept = [name] if name in labels else labels or [_OTHER]
        for label in kept:
            shares[label if label in known else _OTHER] += 1 / len(kept)  # type: ignore[assignment]
    return shares


def _row(
    name: str, columns: list[str], counts: Counter[str], examples: dict[tuple[str, str], tuple[float, int]]
) -> list[dict[str, Any]]:
    whole = sum(counts.values()) or 1
    cells = []
    for other in columns:
        _, number = examples.get((name, other), (0.0, None))
        cells.append({"share": round(counts[other] / whole, 4), "id": number})
    return cells
