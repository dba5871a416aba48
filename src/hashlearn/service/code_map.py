"""A map of a collection: every row has a place in two dimensions, and rows with similar codes lie together."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.manifold import TSNE, trustworthiness

from hashlearn.codes import unpack
from hashlearn.collection.ids import json_id
from hashlearn.parallel import one_thread
from hashlearn.service.errors import collection_errors, to_json
from hashlearn.service.served_collection import ServedCollection, labels_of, sampled_items
from hashlearn.typing import Float32Array, PackedCodes

NEAREST = 3  # landmarks that a code lies between
_LANDMARKS = 600
_PERPLEXITY = 30.0
_ITERATIONS = 300
_NUMBERS_AT_ONCE = 4_000_000  # bits or distances as floats
_TRUST_ROWS = 1_000
_TRUST_NEIGHBORS = 10


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


MOST_POINTS = 100_000
MOST_LABELS = 200
_DISC = 0.25  # radius of the disc that all rows would fill if they had the same code
_GOLDEN_ANGLE = np.pi * (3 - np.sqrt(5))
_ENCODED_ROWS = 10_000


def map_of(served: ServedCollection) -> bytes:
    """Return the JSON answer: where the rows lie, their labels, and the landmarks by which any other code is placed."""
    with collection_errors():
        ids = served.ids()
        items = sampled_items(served, ids, MOST_POINTS)
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
        "landmarks": _told(landmarks),
        "labels": names,
    }
    columns = {
        "ids": [json_id(item.id) for item in items],
        "x": spread_out[:, 0].round(4).tolist(),
        "y": spread_out[:, 1].round(4).tolist(),
        "label": [numbers.get(name, -1) for name in first],
    }
    parts = [b'"%s":%s' % (name.encode(), _long_list(values)) for name, values in columns.items()]
    return to_json(head)[:-1] + b"," + b",".join(parts) + b"}"


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


def _told(landmarks: Landmarks) -> list[dict[str, Any]]:
    places = landmarks.places.astype(np.float64).round(4).tolist()
    return [
        {"code": code.tobytes().hex(), "x": x, "y": y} for code, (x, y) in zip(landmarks.codes, places, strict=True)
    ]


def _long_list(values: list[Any]) -> bytes:
    """Return JSON of a long list, encoded in parts: one call for all of it would not let other threads run."""
    parts = [to_json(values[start : start + _ENCODED_ROWS])[1:-1] for start in range(0, len(values), _ENCODED_ROWS)]
    return b"[" + b",".join(parts) + b"]"
