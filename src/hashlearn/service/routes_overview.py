"""Routes that show a whole collection: figures about bits, fields of payloads, the map, confused labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from fastapi import APIRouter, Response
from numpy.typing import NDArray
from pydantic import BaseModel, Field
from sklearn.manifold import TSNE, trustworthiness

from hashlearn.codes import n_bytes, unpack
from hashlearn.collection import Item
from hashlearn.collection.ids import json_id
from hashlearn.collection.where import kind_of
from hashlearn.parallel import one_thread
from hashlearn.service.errors import json_response, to_json
from hashlearn.service.schemas import described
from hashlearn.service.served_collection import ServedCollection, labels_of
from hashlearn.service.service import CollectionDep, ServiceDep, reading
from hashlearn.typing import Float32Array, PackedCodes

_BIT_ROWS, _SAMPLED_ROWS = 10_000, 1_000

router = APIRouter(prefix="/api/v1/collections/{collection}", tags=["overview"])


class StatisticsResponse(BaseModel):
    rows: int
    n_bits: int
    bytes: int | None
    code_bytes: int
    sampled: int = Field(description="Rows, drawn at random, that the figures about bits come from.")
    ones: list[float] = Field(description="Share of ones of every bit; 0.5 is balanced.")
    largest_correlation: float | None = Field(description="Between two different bits, without its sign.")
    distinct_codes: int = Field(description="Among the sampled rows.")


@router.get("/stats", **described(StatisticsResponse))
@reading
def get_statistics(service: ServiceDep, served: CollectionDep) -> Response:
    """Rows, bytes, and how balanced and how independent the bits are."""
    info, ids = served.collection.info(), served.ids()
    items = served.sampled_items(ids, _BIT_ROWS)
    size = n_bytes(served.n_bits)
    codes = np.stack([item.code for item in items]) if items else np.empty((0, size), dtype=np.uint8)
    bits = unpack(codes, served.n_bits)
    ones = bits.mean(axis=0).tolist() if items else [0.0] * served.n_bits
    facts = {
        "rows": len(ids),
        "n_bits": served.n_bits,
        "bytes": info.get("bytes"),
        "code_bytes": size * len(ids),
        "sampled": len(items),
        "ones": [round(share, 6) for share in ones],
        "largest_correlation": _largest_correlation(bits),
        "distinct_codes": len(np.unique(codes, axis=0)),
    }
    return json_response(facts)


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
_LONGEST_VALUE = 80
_DEEPEST = 4


class FieldInfo(BaseModel):
    name: str = Field(description="As filters name it: names joined by dots.")
    path: list[str]
    rows: int = Field(description="Sampled rows that have the field.")
    kinds: list[str] = Field(description="Of text, number, truth, null, list and object.")
    characters: float = Field(description="Mean length of its texts.")
    distinct: int = Field(description="Different values; of a list, those of its elements.")
    values: list[Any] = Field(description="The most frequent values, at most 20.")
    lowest: float | None
    highest: float | None


class FieldsResponse(BaseModel):
    sampled: int = Field(description="Rows, drawn at random, that were looked at.")
    fields: list[FieldInfo]


@router.get("/fields", **described(FieldsResponse))
async def get_fields(service: ServiceDep, served: CollectionDep) -> Response:
    """The fields of the payloads, from a sample: their kinds, and values that filters can ask for."""
    return json_response(await service.kept(served, known_fields))


def known_fields(served: ServedCollection) -> bytes:
    """Return the JSON answer: the fields of a sample of the rows in the order in which payloads have them."""
    items = served.sampled_items(served.ids(), _SAMPLED_ROWS)
    found: dict[tuple[str, ...], list[Any]] = {}
    for item in items:
        for path, value in _leaves(item.payload):
            if path in found or len(found) < _MOST_FIELDS:
                found.setdefault(path, []).append(value)
    fields = [_field_facts(path, values) for path, values in found.items()]
    return to_json({"sampled": len(items), "fields": fields})


def _field_facts(path: tuple[str, ...], values: list[Any]) -> dict[str, Any]:
    texts = [value for value in values if isinstance(value, str)]
    numbers = [value for value in values if isinstance(value, (int, float)) and not isinstance(value, bool)]
    parts = (part for value in values for part in (value if isinstance(value, list) else [value]))
    # The kind belongs to the key: True and 1 are different values.
    counts = Counter((kind, part) for part in parts if (kind := kind_of(part)) not in (None, "null"))
    common = [value for (_, value), _ in counts.most_common(_MOST_VALUES)]
    return {
        "name": ".".join(name.replace("\\", "\\\\").replace(".", "\\.") for name in path),
        "path": list(path),
        "rows": len(values),
        "kinds": sorted({kind_of(value) or ("list" if isinstance(value, list) else "object") for value in values}),
        "characters": round(sum(map(len, texts)) / len(texts), 1) if texts else 0,
        "distinct": len(counts),
        "values": [value for value in common if not isinstance(value, str) or len(value) <= _LONGEST_VALUE],
        "lowest": min(numbers, default=None),
        "highest": max(numbers, default=None),
    }


def _leaves(value: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the paths and values in a payload. An object is told by its fields, unless it has none or lies deep."""
    for name, part in value.items():
        if isinstance(part, dict) and part and len(path) + 1 < _DEEPEST:
            yield from _leaves(part, (*path, name))
        elif name:  # filters cannot name a field without a name
            yield (*path, name), part


NEAREST = 3  # landmarks that a code lies between
_LANDMARKS = 600
_PERPLEXITY = 30.0
_ITERATIONS = 300
_NUMBERS_AT_ONCE = 4_000_000  # bits or distances as floats
_TRUST_ROWS = 1_000
_TRUST_NEIGHBORS = 10
MOST_POINTS = 100_000
MOST_LABELS = 200
_DISC = 0.25  # radius of the disc that all rows would fill if they had the same code
_GOLDEN_ANGLE = np.pi * (3 - np.sqrt(5))


class MapLandmark(BaseModel):
    code: str = Field(description="Hexadecimal.")
    x: float
    y: float


class MapResponse(BaseModel):
    rows: int
    shown: int = Field(description="Rows on the map: all, or 100,000 drawn at random.")
    trust: float | None = Field(description="Trustworthiness of the map, from 0 to 1; null for fewer than 21 rows.")
    landmarks: list[MapLandmark] = Field(
        description="Codes that place any other code: at the mean of the 3 landmarks with the fewest differing bits, "
        "weighted by exp(-bits) and, among equally near ones, taken in their order."
    )
    labels: list[str] = Field(description="The most frequent first.")
    ids: list[int | str]
    x: list[float]
    y: list[float]
    label: list[int] = Field(description="Per row the place of its first label in labels; -1 for none of them.")


@router.get("/map", **described(MapResponse))
async def get_map(service: ServiceDep, served: CollectionDep) -> Response:
    """A place in two dimensions for every row, rows with similar codes together; at most 100,000 rows, drawn at random.

    It is computed once, and again when the collection has changed.
    """
    return json_response(await service.kept(served, map_of))


def map_of(served: ServedCollection) -> bytes:
    """Return the JSON answer: where the rows lie, their labels, and the landmarks by which any other code is placed."""
    ids = served.ids()
    items = served.sampled_items(ids, MOST_POINTS)
    field = served.label_field()
    if not items:
        nothing: dict[str, list[Any]] = {name: [] for name in ("landmarks", "labels", "ids", "x", "y", "label")}
        return to_json({"rows": 0, "shown": 0, "trust": None, **nothing})
    codes = np.stack([item.code for item in items])
    landmarks = fitted_landmarks(codes, served.n_bits)
    places = landmarks.places_of(codes)
    trust = trust_of(places, codes, served.n_bits)
    spread_out = places + spread(codes)
    first = [next(iter(labels_of(item.payload, field)), None) for item in items]
    names = [name for name, _ in Counter(first).most_common() if name is not None][:MOST_LABELS]
    numbers: dict[str | None, int] = {name: number for number, name in enumerate(names)}
    head = {
        "rows": len(ids),
        "shown": len(items),
        "trust": None if trust is None else round(trust, 4),
        "landmarks": [
            {"code": code.tobytes().hex(), "x": x, "y": y}
            for code, (x, y) in zip(landmarks.codes, landmarks.places.astype(np.float64).round(4).tolist(), strict=True)
        ],
        "labels": names,
    }
    columns = {
        "ids": [json_id(item.id) for item in items],
        "x": spread_out[:, 0].round(4).tolist(),
        "y": spread_out[:, 1].round(4).tolist(),
        "label": [numbers.get(name, -1) for name in first],
    }
    # Each column is encoded by itself: one call for all of them would not let other threads run.
    parts = [to_json({name: values})[1:-1] for name, values in columns.items()]
    return to_json(head)[:-1] + b"," + b",".join(parts) + b"}"


@dataclass(frozen=True)
class Landmarks:
    """Codes whose places (rows, 2) within 0..1 are known; they give every other code its place.

    A code lies at the mean of the landmarks nearest to it. The nearest one has the weight 1, and one that differs in d
    bits more has the weight exp(-d). The first in order wins among equally near ones.
    """

    codes: PackedCodes
    places: Float32Array
    n_bits: int

    def places_of(self, codes: PackedCodes) -> Float32Array:
        """Return the places (rows, 2) of packed codes, some rows at a time."""
        signs = _signs(self.codes, self.n_bits)
        step = max(1, _NUMBERS_AT_ONCE // max(self.n_bits, len(signs)))
        parts = [
            self._between(_signs(codes[start : start + step], self.n_bits) @ signs.T)
            for start in range(0, len(codes), step)
        ]
        return np.concatenate([np.empty((0, 2), dtype=np.float32), *parts])

    def _between(self, products: Float32Array) -> Float32Array:
        """Return the places of codes by their inner products (rows, landmarks) with the landmarks, which it overwrites.

        A bit that differs takes 2 from the inner product of two codes of -1 and 1.
        """
        rows = np.arange(len(products))
        best = products.max(axis=1)
        sums, whole = np.zeros((len(products), 2), dtype=np.float32), np.zeros(len(products), dtype=np.float32)
        for _ in range(min(NEAREST, len(self.codes))):
            chosen = products.argmax(axis=1)
            weights = np.exp((products[rows, chosen] - best) / 2)
            sums += weights[:, None] * self.places[chosen]
            whole += weights
            products[rows, chosen] = -np.inf
        return sums / whole[:, None]


def fitted_landmarks(codes: PackedCodes, n_bits: int) -> Landmarks:
    """Draw landmarks from packed codes, the same ones each time, and place them by t-SNE."""
    order = np.random.default_rng(0).permutation(len(codes))
    _, first = np.unique(codes[order], axis=0, return_index=True)
    chosen = codes[order[np.sort(first)[:_LANDMARKS]]]
    return Landmarks(chosen, _within_unit(_laid_out(unpack(chosen, n_bits))), n_bits)


def trust_of(places: Float32Array, codes: PackedCodes, n_bits: int) -> float | None:
    """Return the trustworthiness of the places of a sample of codes, from 0 to 1 (best); None for too few rows.

    It is less than 1 where rows are near on the map and their codes are not: see scikit-learn's ``trustworthiness``.
    """
    count = min(len(codes), _TRUST_ROWS)
    if count <= 2 * _TRUST_NEIGHBORS:
        return None
    sample = np.random.default_rng(1).choice(len(codes), count, replace=False)
    bits = unpack(codes[sample], n_bits).astype(np.float32)
    return float(trustworthiness(bits, places[sample], n_neighbors=_TRUST_NEIGHBORS))


def _laid_out(bits: NDArray[np.uint8]) -> Float32Array:
    """Place different codes by t-SNE, which uses squared Euclidean distances: of bits, these are Hamming distances."""
    if len(bits) < 4:  # t-SNE has nothing to decide: a point, a line, a triangle
        return np.array([[0, 0], [1, 0], [0.5, 1]], dtype=np.float32)[: len(bits)]
    perplexity = min(_PERPLEXITY, (len(bits) - 1) / 3)
    tsne = TSNE(perplexity=perplexity, init="pca", max_iter=_ITERATIONS, random_state=0)
    with one_thread():  # several wait for each other at each of the many steps: 8 times slower on a busy machine
        return np.asarray(tsne.fit_transform(bits.astype(np.float32)), dtype=np.float32)


def _within_unit(places: Float32Array) -> Float32Array:
    """Move and scale places so that they fill 0..1 on both axes; 0.5 on an axis on which all are equal."""
    low, size = places.min(axis=0), np.ptp(places, axis=0)
    return np.where(size > 0, (places - low) / np.where(size > 0, size, 1), np.float32(0.5)).astype(np.float32)


def _signs(codes: PackedCodes, n_bits: int) -> Float32Array:
    return unpack(codes, n_bits).astype(np.float32) * 2 - 1


def spread(codes: PackedCodes) -> NDArray[np.float64]:
    """Return offsets (rows, 2) that spread rows with equal codes over a disc, so that none covers another.

    The area of a disc grows with the number of its rows; the first row stays at the place of its code.
    """
    _, groups = np.unique(codes, axis=0, return_inverse=True)
    groups = groups.reshape(-1)
    order = np.argsort(groups, kind="stable")
    starts = np.searchsorted(groups[order], groups[order])
    ranks = np.empty(len(codes))
    ranks[order] = np.arange(len(codes)) - starts
    radius = _DISC * np.sqrt(ranks / len(codes))
    return np.stack([radius * np.cos(ranks * _GOLDEN_ANGLE), radius * np.sin(ranks * _GOLDEN_ANGLE)], axis=1)


_ROWS_NEAR = 10
_MOST_CONFUSED = 20


class ConfusionCell(BaseModel):
    share: float
    id: int | str | None = Field(description="A row of this label whose nearest rows show it.")


class ConfusedWith(BaseModel):
    label: str
    share: float
    id: int | str = Field(description="A row whose nearest rows show it.")


class ConfusionResponse(BaseModel):
    k: int = Field(description="Nearest rows that were looked at per sampled row.")
    sampled: int = Field(description="Rows with labels, drawn at random.")
    all_labels: int
    own_share: float | None = Field(description="Of all nearest rows, those that have the label of the row.")
    labels: list[str] = Field(description="The most frequent first; of more than 20, those with the most misses.")
    rows: list[list[ConfusionCell]] = Field(
        description="Per label one cell per label, and a last one for other labels and rows without any."
    )
    most_confused: list[ConfusedWith | None] = Field(
        description="Per listed label the one, of all labels, that its nearest rows have most often instead of it."
    )


@router.get("/confusion", **described(ConfusionResponse))
async def get_confusion(service: ServiceDep, served: CollectionDep) -> Response:
    """For every label, which labels the nearest rows of its rows have; from a sample of 1,000 rows."""
    return json_response(await service.kept(served, confusion_of))


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
    field = served.label_field()
    items = served.sampled_items(served.ids(), _SAMPLED_ROWS)
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
    if len(frequent) > _MOST_CONFUSED:
        misses = dict.fromkeys(frequent, 0.0)
        for one in seen:
            misses[one.name] += one.all - one.own
        names = sorted(frequent, key=lambda name: -misses[name])[:_MOST_CONFUSED]
    whole = sum(one.all for one in seen)
    by_label = {name: [one for one in seen if one.name == name] for name in names}
    facts = {
        "k": _ROWS_NEAR,
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
    hits = served.collection.search(codes=np.stack([item.code for item in items]), k=_ROWS_NEAR + 1)
    return [
        [labels_of(hit.payload, field) for hit in nearest if hit.id != item.id][:_ROWS_NEAR]
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
