"""RaBitQ of faiss: one bit per dimension of a random rotation, and two floats per row that correct the estimate."""

from __future__ import annotations

from typing import Any

import faiss
import numpy as np

from hashlearn.codecs.faiss_codec import METRIC, FaissCodec
from hashlearn.typing import Float32Array, PackedCodes

# Bytes of the two floats that correct the estimate, which faiss stores beside the bits.
FACTOR_BYTES = 8
# Bits per dimension of a query while it is searched; 8 is the most exact choice of faiss. Nothing of it is stored.
_QUERY_BITS = 8


class RaBitCodec(FaissCodec):
    """RaBitQ with a number of bytes in which the correction factors are counted.

    Eight of the bytes are the two factors; the rest are bits of as many principal directions, randomly rotated. A codec
    of less than 9 bytes is therefore impossible.
    """

    def __init__(self, n_bytes: int) -> None:
        if n_bytes <= FACTOR_BYTES:
            raise ValueError(f"RaBitQ needs more than {FACTOR_BYTES} bytes per row. Got {n_bytes} instead.")
        super().__init__(n_bytes)

    def _new_transform(self, X: Float32Array) -> Any:
        width = min(8 * (self.n_bytes - FACTOR_BYTES), X.shape[1], len(X))
        return faiss.PCAMatrix(X.shape[1], width, 0, True)

    def _new_index(self, X: Float32Array) -> Any:
        index = faiss.IndexRaBitQ(X.shape[1], METRIC)
        index.qb = _QUERY_BITS
        return index

    def scores(self, queries: Float32Array, codes: PackedCodes) -> Float32Array:
        # The estimate uses the factors of a row, so it is no distance to the decoded row: faiss computes it.
        index = faiss.clone_index(self._index)
        index.add_sa_codes(codes)
        values, places = index.search(self._transformed(queries), len(codes))
        scores = np.empty_like(values)
        np.put_along_axis(scores, places, -values, axis=1)
        return scores
