"""Hashers of hashlearn as codecs, with queries as bits (Hamming distance) or as real values."""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np

from hashlearn import codes as code_format
from hashlearn.codecs.base import Codec, Searcher
from hashlearn.codecs.hamming import hamming_searcher, signs_product
from hashlearn.hashers import make_hasher
from hashlearn.models import dumps
from hashlearn.typing import Float32Array, PackedCodes

Queries = Literal["bits", "real"]


class HasherCodec(Codec):
    """A hasher by its name. ``real_queries()`` gives the same fitted hasher with real-valued queries."""

    def __init__(self, method: str, n_bytes: int, seed: int = 0, queries: Queries = "bits") -> None:
        self.method = method
        self.n_bytes = n_bytes
        self.seed = seed
        self.queries: Queries = queries

    def fit(self, X: Float32Array, y: Any = None) -> Self:
        self.hasher_: Any = make_hasher(self.method, {"n_bits": 8 * self.n_bytes, "random_state": self.seed})
        self.hasher_.fit(X, y)
        return self

    def real_queries(self) -> HasherCodec:
        """The same fitted hasher, with expected bits as queries."""
        other = HasherCodec(self.method, self.n_bytes, self.seed, "real")
        other.hasher_ = self.hasher_
        return other

    def encode(self, X: Float32Array) -> PackedCodes:
        codes: PackedCodes = self.hasher_.encode(X)
        return codes

    @property
    def bytes_per_row(self) -> int:
        return code_format.n_bytes(self.hasher_.n_bits_)

    @property
    def model_bytes(self) -> int:
        # A model file also keeps the codes of the training rows, which encoding does not need.
        return len(dumps(self.hasher_)) - self.hasher_.codes_.nbytes

    def _represented(self, queries: Float32Array) -> Any:
        if self.queries == "real":
            return np.asarray(self.hasher_.expected_bits(queries), dtype=np.float32)
        return self.hasher_.encode_queries(queries)

    def scores(self, queries: Float32Array, codes: PackedCodes) -> Float32Array:
        n_bits = self.hasher_.n_bits_
        if self.queries == "bits":
            return signs_product(self._represented(queries), codes, n_bits)
        signs = code_format.unpack_signs(codes, n_bits).astype(np.float32)
        product: Float32Array = self._represented(queries) @ signs.T
        return product

    def searcher(self, codes: PackedCodes) -> Searcher:
        return hamming_searcher(codes, self.hasher_.n_bits_, self._represented)
