"""Hashers of hashlearn as codecs, and the ways to ask for their codes."""

from __future__ import annotations

import copy
from typing import Any, Self

import numpy as np

from hashlearn import codes as code_format
from hashlearn.codecs.base import Codec, signs_product
from hashlearn.codecs.labeled import RowMap
from hashlearn.methods import find_method, make_hasher
from hashlearn.models import dumps
from hashlearn.typing import Float32Array, PackedCodes


class OpenMetric(RowMap):
    """The directions that OpenHasher learns from labels, before it quantizes them."""

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed

    def fit(self, X: Float32Array, y: Any) -> Self:
        self._metric = make_hasher("open", {"random_state": self.seed}).fit(X, y).coder_.metric
        self.n_bytes = sum(held.nbytes for held in vars(self._metric).values() if isinstance(held, np.ndarray))
        return self

    def transform(self, X: Float32Array) -> Float32Array:
        return np.asarray(self._metric.map_block(X), dtype=np.float32)


class HasherCodec(Codec):
    """A hasher by its name.

    ``queries`` is "bits" (Hamming distance) or "real" (expected bits). The codes of OpenHasher are asked with an
    emphasis instead: "alike", "auto" or "label". ``asked(queries)`` is the same fitted hasher, asked in another way.
    Without ``labels`` the hasher is fitted to the rows alone.
    """

    def __init__(self, method: str, n_bytes: int, seed: int = 0, queries: str = "bits", labels: bool = True) -> None:
        self.method, self.n_bytes, self.seed, self.queries, self.labels = method, n_bytes, seed, queries, labels
        info = find_method(method).info
        self.supervised, self.revision = labels and bool(info.supervised), info.revision

    def fit(self, X: Float32Array, y: Any = None) -> Self:
        self.hasher_: Any = make_hasher(self.method, {"n_bits": 8 * self.n_bytes, "random_state": self.seed})
        self.hasher_.fit(X, y if self.labels else None)
        self.bytes_per_row = code_format.n_bytes(self.hasher_.n_bits_)
        # A model file also keeps the codes of the training rows, which encoding does not need.
        self.model_bytes = len(dumps(self.hasher_)) - self.hasher_.codes_.nbytes
        return self

    def asked(self, queries: str) -> Self:
        """Return the same fitted hasher with other queries."""
        other = copy.copy(self)
        other.queries = queries
        return other

    def encode(self, X: Float32Array) -> PackedCodes:
        codes: PackedCodes = self.hasher_.encode(X)
        return codes

    def scores(self, queries: Float32Array, codes: PackedCodes) -> Float32Array:
        n_bits = self.hasher_.n_bits_
        if self.queries == "bits":
            asked = code_format.unpack_signs(self.hasher_.encode_queries(queries), n_bits)
        elif self.queries == "real":
            asked = self.hasher_.expected_bits(queries)
        else:
            scores: Float32Array = self.hasher_.query(queries, self.queries).scores(codes)
            return scores
        return signs_product(np.asarray(asked, dtype=np.float32), codes, n_bits)
