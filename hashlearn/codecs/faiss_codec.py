"""What the codecs made of a faiss index share: training, bytes, and ranking by distances of unit rows."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Self

import faiss
import numpy as np

from hashlearn.codecs.base import Codec, Searcher, unit_rows
from hashlearn.typing import Float32Array, IntArray, PackedCodes

# Rows have unit length, so the order by Euclidean distance is that by cosine. Decoded rows have other lengths, and for
# them distances rank better than inner products: PQ of 8 bytes on CLINC150 has MAP .792 / .668 instead of .766 / .616.
METRIC = faiss.METRIC_L2


class FaissCodec(Codec):
    """A codec whose rows are encoded by a faiss index.

    A subclass makes the index in ``_new_index`` and, if it needs one, a linear transform before it in
    ``_new_transform``. The distance of a query and the decoded row is what faiss computes when it searches such an
    index, so the scores are computed by one matrix product.
    """

    def __init__(self, n_bytes: int) -> None:
        self.n_bytes = n_bytes

    @abstractmethod
    def _new_index(self, X: Float32Array) -> Any:
        """An untrained index for rows like X."""

    def _new_transform(self, X: Float32Array) -> Any:
        """An untrained transform for rows like X, or None."""
        return None

    def _prepared(self, X: Float32Array) -> Float32Array:
        """Rows as the transform takes them."""
        return unit_rows(X)

    def _transformed(self, X: Float32Array) -> Float32Array:
        """Rows as the index takes them."""
        rows = self._prepared(X)
        return rows if self._transform is None else self._transform.apply(rows)

    def fit(self, X: Float32Array, y: Any = None) -> Self:
        rows = self._prepared(X)
        self._transform = self._new_transform(rows)
        if self._transform is not None:
            self._transform.train(rows)
            rows = self._transform.apply(rows)
        self._index = self._new_index(rows)
        self._index.train(rows)
        return self

    def encode(self, X: Float32Array) -> PackedCodes:
        codes: PackedCodes = self._index.sa_encode(self._transformed(X))
        return codes

    @property
    def bytes_per_row(self) -> int:
        return int(self._index.sa_code_size())

    @property
    def model_bytes(self) -> int:
        # The file of an index without rows holds its codebooks.
        transform = 0 if self._transform is None else faiss.vector_to_array(self._transform.A).nbytes
        return int(faiss.serialize_index(self._index).nbytes) + transform

    def scores(self, queries: Float32Array, codes: PackedCodes) -> Float32Array:
        decoded: Float32Array = self._index.sa_decode(codes)
        # |q - x|^2 = |q|^2 - 2 (q.x - |x|^2 / 2), and |q| is the same for all rows.
        return self._transformed(queries) @ decoded.T - np.einsum("ij,ij->i", decoded, decoded) / 2

    def searcher(self, codes: PackedCodes) -> Searcher:
        index = faiss.clone_index(self._index)
        index.add_sa_codes(codes)

        def search(queries: Float32Array, k: int) -> IntArray:
            places: IntArray = index.search(self._transformed(queries), k)[1]
            return places

        return search


def train_on_few_rows(clustering: Any) -> None:
    """Let k-means take fewer than 39 rows per centroid without a warning for each codebook."""
    clustering.min_points_per_centroid = 1


def padded(X: Float32Array, width: int) -> Float32Array:
    """Rows with zeros at the end, up to a width. Zeros change no distance."""
    return np.ascontiguousarray(np.pad(X, ((0, 0), (0, width - X.shape[1]))))
