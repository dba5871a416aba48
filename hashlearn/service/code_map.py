"""A map of a collection: every row has a place in two dimensions, and rows with similar codes lie together."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hashlearn.collection.id_kinds import json_id
from hashlearn.service.code_places import Landmarks, fitted_landmarks, trust_of
from hashlearn.service.errors import collection_errors, to_json
from hashlearn.service.labels import labels_of
from hashlearn.service.served_collection import ServedCollection
from hashlearn.service.statistics import sampled_items
from hashlearn.typing import PackedCodes

MOST_POINTS = 100_000
MOST_LABELS = 200
_DISC = 0.25  # radius of the disc that all rows would fill if they had the same code
_GOLDEN_ANGLE = np.pi * (3 - np.sqrt(5))
_ENCODED_ROWS = 10_000


def map_of(served: ServedCollection) -> bytes:
    """The JSON answer: where the rows lie, their labels, and the landmarks by which any other code is placed."""
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


def _told(landmarks: Landmarks) -> list[dict[str, Any]]:
    places = landmarks.places.astype(np.float64).round(4).tolist()
    return [
        {"code": code.tobytes().hex(), "x": x, "y": y} for code, (x, y) in zip(landmarks.codes, places, strict=True)
    ]


def _long_list(values: list[Any]) -> bytes:
    """JSON of a long list, encoded in parts: one call for all of it would not let other threads run."""
    parts = [to_json(values[start : start + _ENCODED_ROWS])[1:-1] for start in range(0, len(values), _ENCODED_ROWS)]
    return b"[" + b",".join(parts) + b"]"
