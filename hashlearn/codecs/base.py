"""The contract of a codec: rows to bytes, and queries ranked against those bytes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Protocol, Self

import numpy as np

from hashlearn.typing import Float32Array, IntArray, PackedCodes


class Searcher(Protocol):
    """Takes queries (float rows) and k, and gives the places of the k nearest database rows of each query."""

    def __call__(self, queries: Float32Array, k: int) -> IntArray: ...


class Codec(ABC):
    """Turns rows of floats into a few bytes each, and ranks these bytes by queries, which stay floats.

    All bytes that are stored for a row count in ``bytes_per_row``, also norms and correction factors. What is stored
    once for all rows (codebooks, rotations, models) counts in ``model_bytes``.
    """

    supervised: ClassVar[bool] = False

    @abstractmethod
    def fit(self, X: Float32Array, y: Any = None) -> Self:
        """Learn from training rows; ``y`` is used by supervised codecs only."""

    @abstractmethod
    def encode(self, X: Float32Array) -> PackedCodes:
        """The bytes of database rows, (n, bytes_per_row)."""

    @property
    @abstractmethod
    def bytes_per_row(self) -> int:
        """How many bytes are stored for each row."""

    @property
    @abstractmethod
    def model_bytes(self) -> int:
        """How many bytes are stored once for all rows."""

    @abstractmethod
    def scores(self, queries: Float32Array, codes: PackedCodes) -> Float32Array:
        """Similarities (n_queries, n_database) of queries and codes; larger is nearer, and equal ones are ties."""

    @abstractmethod
    def searcher(self, codes: PackedCodes) -> Searcher:
        """A function that finds the nearest codes the way a user would, for measuring time."""


def unit_rows(X: Float32Array) -> Float32Array:
    """Rows of length 1, so that inner products are cosines. A row of zeros stays as it is."""
    X = np.asarray(X, dtype=np.float32)
    norms = np.linalg.norm(X, axis=1, keepdims=True)
    return np.divide(X, norms, out=np.zeros_like(X), where=norms > 0)


def best_places(scores: Float32Array, k: int) -> IntArray:
    """The places of the k largest scores of each row, the largest first."""
    k = min(k, scores.shape[1])
    places = np.argpartition(-scores, k - 1, axis=1)[:, :k]
    order = np.argsort(-np.take_along_axis(scores, places, axis=1), axis=1, kind="stable")
    return np.take_along_axis(places, order, axis=1)
