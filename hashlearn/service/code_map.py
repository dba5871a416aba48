"""A map of a collection: its codes projected onto two directions, so that rows with similar codes lie together."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.extmath import randomized_svd

from hashlearn.codes import unpack
from hashlearn.collection.id_kinds import json_id
from hashlearn.service.errors import collection_errors, to_json
from hashlearn.service.labels import labels_of
from hashlearn.service.served_collection import ServedCollection
from hashlearn.service.statistics import sampled_items
from hashlearn.typing import PackedCodes

MOST_POINTS = 100_000
MOST_LABELS = 200
_DIRECTION_ROWS = 5_000
_NUMBERS_AT_ONCE = 4_000_000  # bits as floats
_DISC = 0.25  # radius of the disc that all rows would fill if they had the same code
_GOLDEN_ANGLE = np.pi * (3 - np.sqrt(5))
_ENCODED_ROWS = 10_000


@dataclass(frozen=True)
class Projection:
    """Two weighted sums over the bits of a code, which are its place on the map: x, y = offsets + bits @ weights."""

    weights: NDArray[np.float64]
    offsets: NDArray[np.float64]
    explained: NDArray[np.float64]

    def places(self, codes: PackedCodes) -> NDArray[np.float64]:
        """The places (rows, 2) of packed codes, some rows at a time."""
        n_bits = len(self.weights)
        step = max(1, _NUMBERS_AT_ONCE // n_bits)
        parts = [
            unpack(codes[start : start + step], n_bits).astype(np.float32) @ self.weights.astype(np.float32)
            for start in range(0, len(codes), step)
        ]
        return np.concatenate([np.empty((0, 2)), *parts]) + self.offsets


def map_of(served: ServedCollection) -> bytes:
    """The JSON answer: where the rows lie, their labels, and how the place of any other code is found."""
    with collection_errors():
        ids = served.ids()
        items = sampled_items(served, ids, MOST_POINTS)
        field = served.label_field()
    if not items:
        nothing: dict[str, list[Any]] = {name: [] for name in ("explained", "labels", "ids", "x", "y", "label")}
        empty = {"weights": [[0.0, 0.0]] * served.n_bits, "offsets": [0.5, 0.5]}
        return to_json({"rows": 0, "shown": 0, "projection": empty, **nothing})
    codes = np.stack([item.code for item in items])
    projection = fitted_projection(codes, served.n_bits)
    places = projection.places(codes) + spread(codes)
    first = [next(iter(labels_of(item.payload, field)), None) for item in items]
    names = [name for name, _ in Counter(first).most_common() if name is not None][:MOST_LABELS]
    numbers: dict[str | None, int] = {name: number for number, name in enumerate(names)}
    head = {
        "rows": len(ids),
        "shown": len(items),
        "explained": projection.explained.round(4).tolist(),
        "projection": {"weights": projection.weights.round(6).tolist(), "offsets": projection.offsets.tolist()},
        "labels": names,
    }
    columns = {
        "ids": [json_id(item.id) for item in items],
        "x": places[:, 0].round(4).tolist(),
        "y": places[:, 1].round(4).tolist(),
        "label": [numbers.get(name, -1) for name in first],
    }
    parts = [b'"%s":%s' % (name.encode(), _long_list(values)) for name, values in columns.items()]
    return to_json(head)[:-1] + b"," + b",".join(parts) + b"}"


def fitted_projection(codes: PackedCodes, n_bits: int) -> Projection:
    """The two directions in which a sample of the codes varies most, scaled so that all places are within 0..1."""
    count = min(len(codes), _DIRECTION_ROWS, max(2, _NUMBERS_AT_ONCE // n_bits))
    sample = codes[np.random.default_rng(0).choice(len(codes), count, replace=False)]
    bits = unpack(sample, n_bits).astype(np.float32)
    mean = bits.mean(axis=0)
    centered = bits - mean
    whole = float((centered**2).sum())
    directions = np.zeros((n_bits, 2))
    explained = np.zeros(2)
    if whole:
        _, sizes, rows = randomized_svd(centered, min(2, *centered.shape), random_state=0)
        # Either sign would do: the largest weight is positive, so that the map does not turn over.
        rows *= np.sign(rows[np.arange(len(rows)), np.abs(rows).argmax(axis=1)])[:, None]
        directions[:, : len(rows)] = rows.T
        explained[: len(rows)] = sizes**2 / whole
    raw = Projection(directions, np.zeros(2), explained).places(codes)
    low, high = raw.min(axis=0), raw.max(axis=0)
    # Rounding leaves a little where all rows lie at one place.
    scale = np.where(high - low > 1e-4, 1 / np.maximum(high - low, 1e-4), 0.0)
    return Projection(directions * scale, np.where(scale > 0, -low * scale, 0.5), explained)


def spread(codes: PackedCodes) -> NDArray[np.float64]:
    """Offsets (rows, 2) that spread rows with equal codes over a disc, so that none covers another.

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


def _long_list(values: list[Any]) -> bytes:
    """JSON of a long list, encoded in parts: one call for all of it would not let other threads run."""
    parts = [to_json(values[start : start + _ENCODED_ROWS])[1:-1] for start in range(0, len(values), _ENCODED_ROWS)]
    return b"[" + b",".join(parts) + b"]"
