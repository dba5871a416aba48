"""Figures about a whole collection: distances from one code, and how its bits are used."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hashlearn.codes import n_bytes, unpack
from hashlearn.collection import Item
from hashlearn.service.errors import collection_errors
from hashlearn.service.served_collection import ServedCollection

_SAMPLED_ROWS = 10_000


def distance_histogram(served: ServedCollection, code: NDArray[np.uint8]) -> dict[str, Any]:
    """How many rows lie at every distance from a code."""
    with collection_errors():
        ball = served.collection.within(codes=code[None], radius=served.n_bits)
    return {"n_bits": served.n_bits, "counts": np.bincount(ball.distances, minlength=served.n_bits + 1).tolist()}


def bit_statistics(served: ServedCollection) -> dict[str, Any]:
    """Rows, bytes, and what a sample of the codes tells about the bits."""
    with collection_errors():
        info, ids = served.collection.info(), served.ids()
        items = sampled_items(served, ids, _SAMPLED_ROWS)
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


def sampled_items(served: ServedCollection, ids: NDArray[Any], count: int) -> list[Item]:
    """At most so many items, drawn at random from these ids; the same ones each time. They come by id."""
    sample = ids if len(ids) <= count else np.sort(np.random.default_rng(0).choice(ids, count, replace=False))
    return [item for item in served.collection.get(sample, vectors=False) if item is not None]


def _largest_correlation(bits: NDArray[np.uint8]) -> float | None:
    """The largest correlation between two bits that both vary; None when there are no two."""
    varied = bits[:, bits.any(axis=0) & ~bits.all(axis=0)] if len(bits) else bits
    if len(bits) < 2 or varied.shape[1] < 2:
        return None
    table = np.abs(np.corrcoef(varied.astype(np.float64), rowvar=False))
    np.fill_diagonal(table, 0)
    return round(float(table.max()), 6)
