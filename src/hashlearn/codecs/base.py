"""The contract of a codec: rows to bytes, and scores of all stored bytes for each query."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np

from hashlearn.typing import Float32Array, IntArray, PackedCodes


class NotSuited(ValueError):
    """A codec cannot be used with these rows, labels or sizes, or needs another package; the message says why."""


class Codec(ABC):
    """Turns rows of floats into bytes, and scores these bytes for queries, which stay floats.

    Supervised codecs learn from the labels in ``y``, which may lack for some rows; all rows take part where labels are
    not needed.

    Attributes
    ----------
    bytes_per_row : int
        Number of bytes that are stored for each row, with norms and correction factors; known after ``fit``.
    model_bytes : int
        Number of bytes that are stored once for all rows: codebooks, rotations, models; known after ``fit``.
    supervised : bool
        Whether labels change the codec.
    shows_codes : bool
        Whether ``encode`` gives what is stored; a package may keep that to itself.
    revision : int
        Increased when the codec gives other scores, so that kept runs are made again.
    """

    bytes_per_row: int
    model_bytes: int = 0
    supervised: bool = False
    shows_codes: bool = True
    revision: int = 1

    @abstractmethod
    def fit(self, X: Float32Array, y: Any = None) -> Self:
        """Learn from training rows and, if the codec is supervised, from their labels."""

    @abstractmethod
    def encode(self, X: Float32Array) -> PackedCodes:
        """Return the bytes of database rows, (n, bytes_per_row)."""

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
