"""Codecs that learn without labels: floats, scalar and product quantizers, RaBitQ and TurboQuant, and signs.

faiss does most of the quantization. Rows have unit length, so the order by Euclidean distance is that by cosine.
Decoded rows have other lengths, and for them distances rank better than inner products: PQ of 8 bytes on CLINC150 has
MAP .792 / .668 (known classes / unknown ones searched alone) instead of .766 / .616.
"""

from __future__ import annotations

from abc import abstractmethod
from importlib import import_module
from typing import Any, Literal, Self

import faiss
import numpy as np

from hashlearn.codecs.base import Codec, NotSuited, signs_product, unit_rows
from hashlearn.typing import Float32Array, IntArray, PackedCodes

_METRIC = faiss.METRIC_L2
_SCALARS = {4: faiss.ScalarQuantizer.QT_4bit, 8: faiss.ScalarQuantizer.QT_8bit}
# The rotation of OPQ keeps this many dimensions per byte, as the guidelines of faiss recommend (4 to 8).
_OPQ_WIDTH = 8
# On CLINC150, 20 rounds take half as long again and change MAP by less than .002.
_OPQ_ROUNDS = 10
# Bits per dimension of a query of RaBitQ while it is searched; 8 is the most exact choice of faiss.
_RABITQ_QUERY_BITS = 8


class FloatCodec(Codec):
    """The rows as 32-bit floats, without loss: what every codec is measured against.

    ``metric`` is "cosine", "dot" or "euclidean".
    """

    def __init__(self, metric: Literal["cosine", "dot", "euclidean"] = "cosine") -> None:
        self.metric = metric

    def fit(self, X: Float32Array, y: Any = None) -> Self:
        self.bytes_per_row = 4 * X.shape[1]
        return self

    def _prepared(self, X: Float32Array) -> Float32Array:
        return unit_rows(X) if self.metric == "cosine" else np.asarray(X, dtype=np.float32)

    def encode(self, X: Float32Array) -> PackedCodes:
        return np.ascontiguousarray(self._prepared(X)).view(np.uint8)

    def scores(self, queries: Float32Array, codes: PackedCodes) -> Float32Array:
        rows = np.ascontiguousarray(codes).view(np.float32)
        product: Float32Array = self._prepared(queries) @ rows.T
        return product - np.einsum("ij,ij->i", rows, rows) / 2 if self.metric == "euclidean" else product


class FaissCodec(Codec):
    """A codec whose rows are encoded by a faiss index, which a subclass makes.

    The distance of a query and the decoded row is what faiss computes when it searches such an index, so the scores are
    computed by one matrix product.
    """

    _transform: Any = None

    @abstractmethod
    def _new_index(self, X: Float32Array) -> Any:
        """Return an untrained index for rows like X."""

    def _new_transform(self, X: Float32Array) -> Any:
        """Return an untrained linear transform for rows like X, or None."""
        return None

    def _prepared(self, X: Float32Array) -> Float32Array:
        """Return rows as the transform takes them."""
        return unit_rows(X)

    def _transformed(self, X: Float32Array) -> Float32Array:
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
        self.bytes_per_row = int(self._index.sa_code_size())
        # The file of an index without rows holds its codebooks.
        transform = 0 if self._transform is None else faiss.vector_to_array(self._transform.A).nbytes
        self.model_bytes = int(faiss.serialize_index(self._index).nbytes) + transform
        return self

    def encode(self, X: Float32Array) -> PackedCodes:
        codes: PackedCodes = self._index.sa_encode(self._transformed(X))
        return codes

    def scores(self, queries: Float32Array, codes: PackedCodes) -> Float32Array:
        decoded: Float32Array = self._index.sa_decode(codes)
        # |q - x|^2 = |q|^2 - 2 (q.x - |x|^2 / 2), and |q| is the same for all rows.
        return self._transformed(queries) @ decoded.T - np.einsum("ij,ij->i", decoded, decoded) / 2


class ScalarCodec(FaissCodec):
    """Each dimension becomes one of 16 or 256 steps between its smallest and largest training value."""

    def __init__(self, bits: Literal[4, 8]) -> None:
        self.bits = bits

    def _new_index(self, X: Float32Array) -> Any:
        return faiss.IndexScalarQuantizer(X.shape[1], _SCALARS[self.bits], _METRIC)


class CutCodec(ScalarCodec):
    """The first dimensions alone, with one byte each: for models that were trained to be cut (Matryoshka)."""

    def __init__(self, n_bytes: int) -> None:
        super().__init__(8)
        self.n_bytes = n_bytes

    def _prepared(self, X: Float32Array) -> Float32Array:
        return unit_rows(X[:, : self.n_bytes])


class RescoredSignCodec(ScalarCodec):
    """Sign bits that propose rows, and one byte per dimension that orders the whole ranking again; both are stored."""

    def __init__(self) -> None:
        super().__init__(8)

    def fit(self, X: Float32Array, y: Any = None) -> Self:
        super().fit(X)
        self.bytes_per_row += -(-X.shape[1] // 8)
        return self

    def encode(self, X: Float32Array) -> PackedCodes:
        return np.hstack([super().encode(X), np.packbits(X >= 0, axis=1)])

    def scores(self, queries: Float32Array, codes: PackedCodes) -> Float32Array:
        return super().scores(queries, np.ascontiguousarray(codes[:, : self._index.sa_code_size()]))


class ProductCodec(FaissCodec):
    """PQ: the row is cut into parts, and each part becomes one of 256 centroids (8 bits) or 16 (4 bits)."""

    def __init__(self, n_bytes: int, bits: Literal[4, 8] = 8) -> None:
        self.n_bytes, self.bits = n_bytes, bits

    def _prepared(self, X: Float32Array) -> Float32Array:
        rows, parts = super()._prepared(X), self.n_bytes * 8 // self.bits
        # Zeros at the end change no distance.
        return np.ascontiguousarray(np.pad(rows, ((0, 0), (0, -rows.shape[1] % parts))))

    def _new_index(self, X: Float32Array) -> Any:
        return _new_pq(X, self.n_bytes, self.bits)


class RotatedProductCodec(FaissCodec):
    """OPQ: PQ after a rotation onto at most 8 dimensions per byte, which is learned together with the centroids."""

    def __init__(self, n_bytes: int) -> None:
        self.n_bytes = n_bytes

    def _new_transform(self, X: Float32Array) -> Any:
        width = self.n_bytes * min(_OPQ_WIDTH, -(-X.shape[1] // self.n_bytes))
        self._quantizer = faiss.ProductQuantizer(width, self.n_bytes, 8)  # the rotation has only a pointer to it
        self._quantizer.cp.min_points_per_centroid = 1
        rotation = faiss.OPQMatrix(X.shape[1], self.n_bytes, width)
        rotation.niter = _OPQ_ROUNDS
        rotation.pq = self._quantizer
        return rotation

    def _new_index(self, X: Float32Array) -> Any:
        return _new_pq(X, self.n_bytes, 8)


def _new_pq(X: Float32Array, n_bytes: int, bits: int) -> Any:
    if len(X) < 2**bits:
        raise NotSuited(f"PQ learns {2**bits} centroids from at least as many rows. Got {len(X)} rows instead.")
    index = faiss.IndexPQ(X.shape[1], n_bytes * 8 // bits, bits, _METRIC)
    index.pq.cp.min_points_per_centroid = 1  # otherwise k-means warns for every codebook of few rows
    return index


class RaBitCodec(FaissCodec):
    """RaBitQ of faiss: principal directions, rotated at random, with 1 to 8 bits each, and factors that are counted."""

    def __init__(self, n_bytes: int, bits: int = 1) -> None:
        self.n_bytes, self.bits = n_bytes, bits
        # With one bit faiss stores 8 bytes of factors, with several bits 20.
        least = (8 if bits == 1 else 20) + bits - 1
        if n_bytes <= least:
            raise NotSuited(f"RaBitQ with {bits} bits needs more than {least} bytes per row. Got {n_bytes} instead.")
        # The first bit and the others of a row are padded to bytes each, so whole bytes of directions fit best.
        self._width = 8 * ((n_bytes - least + bits - 1) // bits)

    def _new_transform(self, X: Float32Array) -> Any:
        return faiss.PCAMatrix(X.shape[1], min(self._width, X.shape[1], len(X)), 0, True)

    def _new_index(self, X: Float32Array) -> Any:
        index = faiss.IndexRaBitQ(X.shape[1], _METRIC, self.bits)
        index.qb = _RABITQ_QUERY_BITS
        return index

    def scores(self, queries: Float32Array, codes: PackedCodes) -> Float32Array:
        # The estimate uses the factors of a row, so it is no distance to the decoded row: faiss computes it.
        index = faiss.clone_index(self._index)
        index.add_sa_codes(codes)
        return _by_row(*index.search(self._transformed(queries), len(codes))) * np.float32(-1)


class TurboCodec(Codec):
    """TurboQuant of the package turbovec: 2 to 4 bits per dimension after a random rotation, learned from no data.

    turbovec keeps its codes to itself, so ``encode`` gives the rows, and ``bytes_per_row`` is what turbovec stores: the
    bits and a norm of 4 bytes.
    """

    shows_codes = False

    def __init__(self, bits: Literal[2, 4]) -> None:
        self.bits = bits

    def _prepared(self, X: Float32Array) -> Float32Array:
        rows = unit_rows(X)
        return np.ascontiguousarray(np.pad(rows, ((0, 0), (0, -rows.shape[1] % 8))))  # it takes multiples of 8

    def fit(self, X: Float32Array, y: Any = None) -> Self:
        try:
            self._turbovec = import_module("turbovec")
        except ImportError as error:
            raise NotSuited("TurboQuant needs turbovec: pip install turbovec.") from error
        self._width = X.shape[1] + -X.shape[1] % 8
        self.bytes_per_row = self._width * self.bits // 8 + 4
        self.model_bytes = 4 * self._width**2  # the rotation
        return self

    def encode(self, X: Float32Array) -> PackedCodes:
        return self._prepared(X).view(np.uint8)

    def scores(self, queries: Float32Array, codes: PackedCodes) -> Float32Array:
        index = self._turbovec.TurboQuantIndex(dim=self._width, bit_width=self.bits)
        index.add(codes.view(np.float32))
        return _by_row(*index.search(self._prepared(queries), k=len(codes)))


def _by_row(values: Float32Array, places: IntArray) -> Float32Array:
    """Return the values of a search for all rows in the order of the rows."""
    ordered = np.empty(values.shape, dtype=np.float32)
    np.put_along_axis(ordered, places, values, axis=1)
    return ordered


class SignCodec(Codec):
    """One bit per coordinate: whether it is positive. Queries are bits too, or floats.

    With ``n_bytes`` the bits are the signs of as many principal components; without it, of all coordinates.
    """

    def __init__(self, n_bytes: int | None = None, queries: Literal["bits", "floats"] = "bits") -> None:
        self.n_bytes, self.queries = n_bytes, queries

    def fit(self, X: Float32Array, y: Any = None) -> Self:
        rows = unit_rows(X)
        self._directions: Float32Array | None = None
        self._width, self._mean = rows.shape[1], np.zeros(rows.shape[1], dtype=np.float32)
        if self.n_bytes is not None:
            self._width, self._mean = min(8 * self.n_bytes, rows.shape[1]), rows.mean(axis=0)
            centered = rows - self._mean
            vectors = np.linalg.eigh(centered.T @ centered)[1][:, ::-1]
            self._directions = np.ascontiguousarray(vectors[:, : self._width], dtype=np.float32)
            self.model_bytes = self._mean.nbytes + self._directions.nbytes
        self.bytes_per_row = -(-self._width // 8)
        return self

    def _values(self, X: Float32Array) -> Float32Array:
        rows = unit_rows(X)
        return rows if self._directions is None else (rows - self._mean).astype(np.float32) @ self._directions

    def encode(self, X: Float32Array) -> PackedCodes:
        return np.packbits(self._values(X) >= 0, axis=1)

    def scores(self, queries: Float32Array, codes: PackedCodes) -> Float32Array:
        values = self._values(queries)
        if self.queries == "bits":
            values = np.where(values >= 0, np.float32(1), np.float32(-1))
        return signs_product(values, codes, self._width)
