"""Whether a collection still fits its queries: figures that tell when to fit a hasher again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hashlearn.collection.encoder import QueryLog

if TYPE_CHECKING:
    from hashlearn.collection.collection import Collection

DRIFT = 0.9
"""Below this share of the confidence of training, queries have drifted; benchmarks/health.py measures it."""
LOOKED_AT = 10_000


class Health(NamedTuple):
    """What ``Collection.health`` tells.

    rows : how many there are. looked_at, distinct_codes : the first 10,000 rows at most, and their distinct codes.
    queries : how many came as X since the collection was opened. near_threshold : share of their bits whose expected
    value is below 0.2 in size. confidence : mean size of their expected bits. Both are of every 16th query, and None
    before the first one.
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


def health(self: Collection, X: Any = None) -> Health:
    """Tell whether the collection still fits its queries.

    Few distinct codes for many rows mean that codes cannot tell rows apart. A confidence of queries well below that of
    training, or more and more bits near their thresholds, mean that queries have drifted away from what the hasher
    learned: fit again, or ``migrate``.

    Parameters
    ----------
    X : array (queries, n_features), default=None
        Queries to judge. None for those that came as X since the collection was opened.
    """
    encoder = self._encoder
    log = encoder.log
    if X is not None:
        log = QueryLog(every=1)
        encoder.note_queries(encoder.given(X, None, None)[0], log)
    first = next(self.scan(LOOKED_AT), None)
    codes = np.empty((0, 1), dtype=np.uint8) if first is None else first.codes
    confidence, distinct = trained_confidence(self.hasher), len(np.unique(codes, axis=0))
    return Health(self.count(), len(codes), distinct, **log.figures(), trained_confidence=confidence)


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
