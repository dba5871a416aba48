"""Additive quantizers of faiss: residual quantization (RQ) and local search quantization (LSQ).

A row becomes a sum of as many codewords as there are bytes. The sums are decoded when they are searched, so no byte is
stored for their norms. Both are trained on the 128 first principal directions, because training on all of them takes
minutes.
"""

from __future__ import annotations

from typing import Any

import faiss

from hashlearn.codecs.faiss_codec import METRIC, FaissCodec, train_on_few_rows
from hashlearn.typing import Float32Array

_BITS = 8
_WIDTH = 128
_RQ_ROUNDS = 10
_LSQ_ROUNDS = 10


class _AdditiveCodec(FaissCodec):
    def _new_transform(self, X: Float32Array) -> Any:
        return faiss.PCAMatrix(X.shape[1], min(_WIDTH, X.shape[1], len(X)))


class ResidualCodec(_AdditiveCodec):
    """RQ: each byte names the centroid that is nearest to what the bytes before it left over."""

    def _new_index(self, X: Float32Array) -> Any:
        index = faiss.IndexResidualQuantizer(X.shape[1], self.n_bytes, _BITS, METRIC)
        train_on_few_rows(index.rq.cp)
        index.rq.cp.niter = _RQ_ROUNDS
        index.rq.max_beam_size = 1
        return index


class LocalSearchCodec(_AdditiveCodec):
    """LSQ: the codewords of all bytes are chosen together by a random local search."""

    def _new_index(self, X: Float32Array) -> Any:
        index = faiss.IndexLocalSearchQuantizer(X.shape[1], self.n_bytes, _BITS, METRIC)
        index.lsq.train_iters = _LSQ_ROUNDS
        return index
