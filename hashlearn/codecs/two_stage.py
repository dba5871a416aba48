"""Search in two stages: a codec proposes rows, and vectors that are stored too put them in order."""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np

from hashlearn.codecs.base import Codec, Searcher, best_places, unit_rows
from hashlearn.codecs.floats import FloatCodec
from hashlearn.codecs.scalar import ScalarCodec
from hashlearn.typing import Float32Array, IntArray, PackedCodes

Vectors = Literal["int8", "float"]
K, OVERSAMPLE = 10, 10


class TwoStageCodec(Codec):
    """The first ``k`` × ``oversample`` rows by a fitted codec are ranked again by the cosine of stored vectors.

    The bytes of the vectors are counted with those of the codes: 1 per dimension for int8, 4 for floats. Rows that are
    not proposed keep their order behind the others.
    """

    def __init__(self, first: Codec, vectors: Vectors = "int8", k: int = K, oversample: int = OVERSAMPLE) -> None:
        self.first = first
        self.vectors: Vectors = vectors
        self.candidates = k * oversample

    def fit(self, X: Float32Array, y: Any = None) -> Self:
        """Learn how vectors are stored. The codec of the first stage is fitted already."""
        self._second: Codec = ScalarCodec(8) if self.vectors == "int8" else FloatCodec()
        self._second.fit(X)
        return self

    def encode(self, X: Float32Array) -> PackedCodes:
        return np.hstack([self.first.encode(X), self._second.encode(X)])

    @property
    def bytes_per_row(self) -> int:
        return self.first.bytes_per_row + self._second.bytes_per_row

    @property
    def model_bytes(self) -> int:
        return self.first.model_bytes + self._second.model_bytes

    def _parts(self, codes: PackedCodes) -> tuple[PackedCodes, PackedCodes]:
        cut = self.first.bytes_per_row
        return np.ascontiguousarray(codes[:, :cut]), np.ascontiguousarray(codes[:, cut:])

    def scores(self, queries: Float32Array, codes: PackedCodes) -> Float32Array:
        short, stored = self._parts(codes)
        scores = self.first.scores(queries, short)
        places = best_places(scores, self.candidates)
        again = np.take_along_axis(self._second.scores(queries, stored), places, axis=1)
        # Scores of unit rows lie between -1.5 and 0.5, so this puts every proposed row before all others.
        above = scores.max(axis=1, keepdims=True) + 2
        np.put_along_axis(scores, places, above + again, axis=1)
        return scores

    def searcher(self, codes: PackedCodes) -> Searcher:
        short, stored = self._parts(codes)
        propose = self.first.searcher(short)

        def search(queries: Float32Array, k: int) -> IntArray:
            places = propose(queries, min(self.candidates, len(short)))
            rows = unit_rows(queries)
            again = np.empty(places.shape, dtype=np.float32)
            for number, found in enumerate(places):
                again[number] = self._second.scores(rows[number : number + 1], stored[found])[0]
            return np.take_along_axis(places, best_places(again, k), axis=1)

        return search
