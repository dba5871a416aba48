"""Figures about a whole collection: distances from one code, and how its bits are used."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hashlearn.codes import n_bytes, unpack
from hashlearn.service.errors import sentences
from hashlearn.service.opened import Opened


def histogram(opened: Opened, code: NDArray[np.uint8]) -> dict[str, Any]:
    """How many rows lie at every distance from a code."""
    with sentences():
        ball = opened.collection.within(codes=code[None], radius=opened.n_bits)
    return {"n_bits": opened.n_bits, "counts": np.bincount(ball.distances, minlength=opened.n_bits + 1).tolist()}


def stats(opened: Opened, most: int = 10_000) -> dict[str, Any]:
    """Rows, bytes, and what a sample of the codes tells about the bits."""
    with sentences():
        info, ids = opened.collection.info(), opened.ids()
        chosen = ids if len(ids) <= most else np.sort(np.random.default_rng(0).choice(ids, most, replace=False))
        items = [item for item in opened.collection.get(chosen, vectors=False) if item is not None]
    size = n_bytes(opened.n_bits)
    codes = np.stack([item.code for item in items]) if items else np.empty((0, size), dtype=np.uint8)
    bits = unpack(codes, opened.n_bits)
    ones = bits.mean(axis=0).tolist() if items else [0.0] * opened.n_bits
    return {
        "rows": len(ids),
        "n_bits": opened.n_bits,
        "bytes": info.get("bytes"),
        "code_bytes": size * len(ids),
        "sampled": len(items),
        "ones": [round(share, 6) for share in ones],
        "largest_correlation": _correlation(bits),
        "distinct_codes": len(np.unique(codes, axis=0)),
    }


def _correlation(bits: NDArray[np.uint8]) -> float | None:
    """The largest of two bits that both vary; None when there are no two."""
    varied = bits[:, bits.any(axis=0) & ~bits.all(axis=0)] if len(bits) else bits
    if len(bits) < 2 or varied.shape[1] < 2:
        return None
    table = np.abs(np.corrcoef(varied.astype(np.float64), rowvar=False))
    np.fill_diagonal(table, 0)
    return round(float(table.max()), 6)
