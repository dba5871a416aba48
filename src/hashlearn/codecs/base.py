"""The contract of a codec: rows to bytes, and scores of all stored bytes for each query."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self

import numpy as np

from hashlearn.typing import Float32Array, IntArray, PackedCodes


class Codec(ABC):
    """Turns rows of floats into bytes, and scores these bytes for queries, which stay floats.

    All bytes that are stored for a row count in ``bytes_per_row``, also norms and correction factors. What is stored
    once for all rows (codebooks, rotations, models) counts in ``model_bytes``. Supervised codecs learn from the labels
    in ``y``, which may lack for some rows; all rows take part where labels are not needed. ``shows_codes`` says whether
    ``encode`` gives what is stored; a package may keep that to itself.
    """

    supervised: ClassVar[bool] = False
    shows_codes: ClassVar[bool] = True

    @abstractmethod
    def fit(self, X: Float32Array, y: Any = None) -> Self:
        """Learn from training rows and, if the codec is supervised, from their labels."""

    @abstractmethod
    def encode(self, X: Float32Array) -> PackedCodes:
        """Return the bytes of database rows, (n, bytes_per_row)."""

    @property
    @abstractmethod
    def bytes_per_row(self) -> int:
        """Number of bytes that are stored for each row."""

    @property
    @abstractmethod
    def model_bytes(self) -> int:
        """Number of bytes that are stored once for all rows."""

    @abstractmethod
    def scores(self, queries: Float32Array, codes: PackedCodes) -> Float32Array:
        """Return similarities (n_queries, n_database); larger is nearer, and equal ones are ties."""


def unit_rows(X: Float32Array) -> Float32Array:
    """Return rows of length 1, so that inner products are cosines. A row of zeros stays as it is."""
    X = np.asarray(X, dtype=np.float32)
    norms = np.linalg.norm(X, axis=1, keepdims=True)
    return np.divide(X, norms, out=np.zeros_like(X), where=norms > 0)


def best_places(scores: Float32Array, k: int) -> IntArray:
    """Return the places of the k largest scores of each row, the largest first."""
    k = min(k, scores.shape[1])
    places = np.argpartition(-scores, k - 1, axis=1)[:, :k]
    order = np.argsort(-np.take_along_axis(scores, places, axis=1), axis=1, kind="stable")
    return np.take_along_axis(places, order, axis=1)


def signs_product(queries: Float32Array, codes: PackedCodes, n_bits: int) -> Float32Array:
    """Return the inner products of real-valued queries and packed bits, which count as ±1."""
    product: Float32Array = queries @ (2 * np.unpackbits(codes, axis=1, count=n_bits).astype(np.float32) - 1).T
    return product
