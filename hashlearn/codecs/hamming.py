"""Scores and searches of packed bits, by Hamming distance or by real-valued queries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hashlearn.codecs.base import Searcher
from hashlearn.index import Index
from hashlearn.typing import Float32Array, IntArray, PackedCodes


def signs_product(queries: PackedCodes, codes: PackedCodes, n_bits: int) -> Float32Array:
    """Bits that agree less bits that differ: larger where the Hamming distance is smaller, with the same ties."""
    # Signs of embeddings may have more bits than codes of hashlearn, so the functions for codes cannot unpack them.
    sides = [2 * np.unpackbits(side, axis=1, count=n_bits).astype(np.float32) - 1 for side in (queries, codes)]
    return sides[0] @ sides[1].T


def hamming_searcher(codes: PackedCodes, n_bits: int, represent: Callable[[Float32Array], Any]) -> Searcher:
    """A search in an index of hashlearn. ``represent`` turns rows into packed bits, or into floats per bit."""
    index = Index(n_bits)
    index.add(codes)

    def search(queries: Float32Array, k: int) -> IntArray:
        places: IntArray = index.search(represent(queries), k).ids
        return places

    return search
