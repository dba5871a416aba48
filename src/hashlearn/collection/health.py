"""Whether a collection still fits its queries: figures that tell when to fit a hasher again."""

from __future__ import annotations

import threading
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

NEAR = 0.2
"""A bit with an expected value below this in size is 60 : 40 at best."""
DRIFT = 0.9
"""Below this share of the confidence of training, queries have drifted; benchmarks/health.py measures it."""
LOOKED_AT = 10_000
EVERY = 16
"""One query out of this number is looked at, so that figures cost next to nothing."""


class QueryFigures(NamedTuple):
    """How certain the bits of queries are.

    queries : how many there were. near_threshold : share of bits whose expected value is below 0.2 in size.
    confidence : mean size of the expected bits. Both are of every 16th query, and None before the first one.
    """

    queries: int
    near_threshold: float | None
    confidence: float | None


class Health(NamedTuple):
    """What ``Collection.health`` tells.

    rows : how many there are. looked_at, distinct_codes : the first 10,000 rows at most, and their distinct codes.
    queries, near_threshold, confidence : of queries by X since the collection was opened; see ``QueryFigures``.
    trained_confidence : the confidence on a sample of training rows; None without a hasher, or if its model file is of
    an earlier release and does not tell it.
    """

    rows: int
    looked_at: int
    distinct_codes: int
    queries: int
    near_threshold: float | None
    confidence: float | None
    trained_confidence: float | None

    @property
    def relative_confidence(self) -> float | None:
        """The confidence of queries as a share of that of training; None if one of them is not known."""
        if self.confidence is None or not self.trained_confidence:
            return None
        return self.confidence / self.trained_confidence


class QueryLog:
    """Adds up figures of queries; any thread may add."""

    def __init__(self, every: int = EVERY) -> None:
        self._every = every
        self._lock = threading.Lock()
        self._queries = self._bits = self._near = 0
        self._size = 0.0

    def count(self, n_queries: int) -> slice:
        """Count queries and return which of them to look at."""
        with self._lock:
            first = -self._queries % self._every
            self._queries += n_queries
        return slice(first, n_queries, self._every)

    def add(self, expected: NDArray[np.floating]) -> None:
        """Add the expected bits (n, n_bits) of queries that are looked at."""
        size = np.abs(expected)
        near, total = int(np.count_nonzero(size < NEAR)), float(size.sum(dtype=np.float64))
        with self._lock:
            self._bits += expected.size
            self._near += near
            self._size += total

    def figures(self) -> QueryFigures:
        """Return what was added up so far."""
        with self._lock:
            if not self._bits:
                return QueryFigures(self._queries, None, None)
            return QueryFigures(self._queries, self._near / self._bits, self._size / self._bits)


def trained_confidence(hasher: Any) -> float | None:
    """Return the confidence on a sample of training rows; None without a hasher, or if a model file does not tell it.

    Joined hashers are asked one by one, because ``partial_fit`` updates some of them.
    """
    if (inner := getattr(hasher, "hasher_", None)) is not None:
        return trained_confidence(inner)
    if (parts := getattr(hasher, "hashers_", None)) is None:
        return getattr(hasher, "confidence_", None)
    known = [(trained_confidence(part), part.n_bits_) for part in parts]
    sizes = [confidence * n_bits for confidence, n_bits in known if confidence is not None]
    return sum(sizes) / hasher.n_bits_ if len(sizes) == len(known) else None
