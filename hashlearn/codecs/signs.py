"""Signs of coordinates as bits, compared by Hamming distance: the binary codes that vector databases offer."""

from __future__ import annotations

from typing import Any, Literal, Self

import faiss
import numpy as np

from hashlearn import codes as code_format
from hashlearn.codecs.base import Codec, Searcher, unit_rows
from hashlearn.codecs.hamming import signs_product
from hashlearn.typing import Float32Array, IntArray, PackedCodes

Coordinates = Literal["zero", "mean", "pca"]


class SignCodec(Codec):
    """One bit per coordinate: whether it is at least 0, at least its mean, or the sign of a principal component.

    With fewer bits than coordinates, the first coordinates are taken, as Matryoshka embeddings are cut.
    """

    def __init__(self, n_bytes: int, coordinates: Coordinates = "zero") -> None:
        self.n_bytes = n_bytes
        self.coordinates = coordinates

    def fit(self, X: Float32Array, y: Any = None) -> Self:
        rows = unit_rows(X)
        self._width = min(8 * self.n_bytes, rows.shape[1])
        self._thresholds = np.zeros(self._width, dtype=np.float32)
        self._directions: Float32Array | None = None
        if self.coordinates == "mean":
            self._thresholds = rows[:, : self._width].mean(axis=0)
        elif self.coordinates == "pca":
            pca = faiss.PCAMatrix(rows.shape[1], self._width)
            pca.train(rows)
            matrix = faiss.vector_to_array(pca.A).reshape(pca.d_out, pca.d_in)[: self._width]
            self._directions = np.ascontiguousarray(matrix.T)
            self._thresholds = rows.mean(axis=0) @ self._directions
        return self

    def encode(self, X: Float32Array) -> PackedCodes:
        rows = unit_rows(X)
        values = rows[:, : self._width] if self._directions is None else rows @ self._directions
        return code_format.pack(values >= self._thresholds)

    @property
    def bytes_per_row(self) -> int:
        return code_format.n_bytes(self._width)

    @property
    def model_bytes(self) -> int:
        directions = 0 if self._directions is None else self._directions.nbytes
        return (self._thresholds.nbytes if self.coordinates != "zero" else 0) + directions

    def scores(self, queries: Float32Array, codes: PackedCodes) -> Float32Array:
        return signs_product(self.encode(queries), codes, self._width)

    def searcher(self, codes: PackedCodes) -> Searcher:
        # Not an index of hashlearn, whose codes have at most 1,024 bits: embeddings may have more coordinates.
        index = faiss.IndexBinaryFlat(8 * codes.shape[1])
        index.add(codes)

        def search(queries: Float32Array, k: int) -> IntArray:
            places: IntArray = index.search(self.encode(queries), k)[1]
            return places

        return search
