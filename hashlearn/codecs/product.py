"""Product quantization of faiss, plain (PQ) and after a learned rotation (OPQ)."""

from __future__ import annotations

from typing import Any

import faiss

from hashlearn.codecs.faiss_codec import METRIC, FaissCodec, padded, train_on_few_rows
from hashlearn.typing import Float32Array

_BITS = 8
# The rotation of OPQ keeps this many dimensions per byte, as the guidelines of faiss recommend (4 to 8).
_OPQ_WIDTH = 8
# On CLINC150, 20 rounds take half as long again, and 16 bytes have MAP .732 / .764 with them, .732 / .766 with 10.
_OPQ_ROUNDS = 10


class ProductCodec(FaissCodec):
    """PQ: the row is cut into as many parts as there are bytes, and each part becomes one of 256 centroids."""

    def _prepared(self, X: Float32Array) -> Float32Array:
        rows = super()._prepared(X)
        return padded(rows, -(-rows.shape[1] // self.n_bytes) * self.n_bytes)

    def _new_index(self, X: Float32Array) -> Any:
        return new_pq(X.shape[1], self.n_bytes)


class RotatedProductCodec(FaissCodec):
    """OPQ: PQ after a rotation onto at most 8 dimensions per byte, which is learned together with the centroids."""

    def _new_transform(self, X: Float32Array) -> Any:
        width = self.n_bytes * min(_OPQ_WIDTH, -(-X.shape[1] // self.n_bytes))
        self._quantizer = faiss.ProductQuantizer(width, self.n_bytes, _BITS)  # the rotation has only a pointer to it
        train_on_few_rows(self._quantizer.cp)
        rotation = faiss.OPQMatrix(X.shape[1], self.n_bytes, width)
        rotation.niter = _OPQ_ROUNDS
        rotation.pq = self._quantizer
        return rotation

    def _new_index(self, X: Float32Array) -> Any:
        return new_pq(X.shape[1], self.n_bytes)


def new_pq(width: int, n_bytes: int) -> Any:
    """An untrained index of PQ with one byte per part."""
    index = faiss.IndexPQ(width, n_bytes, _BITS, METRIC)
    train_on_few_rows(index.pq.cp)
    return index
