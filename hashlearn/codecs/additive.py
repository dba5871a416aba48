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
# Half of the searches and 4 of the 25 rounds that faiss makes by default. On CLINC150, 10 rounds with all searches take
# twice as long: 8 bytes then have MAP .716 / .704 (seen / unseen) and recall@10 .647 / .581, here .722 / .725 and
# .635 / .583.
_LSQ_ROUNDS = 4
_LSQ_TRAIN_SEARCHES = 4
_LSQ_ENCODE_SEARCHES = 8
_LSQ_PART = 8


class _AdditiveCodec(FaissCodec):
    def _width(self, X: Float32Array) -> int:
        return min(_WIDTH, X.shape[1], len(X))

    def _new_transform(self, X: Float32Array) -> Any:
        return faiss.PCAMatrix(X.shape[1], self._width(X))


class ResidualCodec(_AdditiveCodec):
    """RQ: each byte names the centroid that is nearest to what the bytes before it left over."""

    def _new_index(self, X: Float32Array) -> Any:
        index = faiss.IndexResidualQuantizer(X.shape[1], self.n_bytes, _BITS, METRIC)
        train_on_few_rows(index.rq.cp)
        index.rq.cp.niter = _RQ_ROUNDS
        index.rq.max_beam_size = 1
        return index


class LocalSearchCodec(_AdditiveCodec):
    """LSQ: the codewords of several bytes are chosen together by a random local search.

    Up to 8 bytes, all codewords are chosen together. A longer code consists of parts of at most 8 bytes, each of which
    quantizes an equal share of the dimensions (PLSQ of faiss), because the time of LSQ grows with the third power of
    the bytes. On CLINC150, 16 bytes in two parts have higher MAP (.725 / .772 seen / unseen) than in one (.700 / .751).
    """

    def _parts(self) -> int:
        """The smallest number of equal parts that have at most 8 bytes each."""
        least = -(-self.n_bytes // _LSQ_PART)
        return next(parts for parts in range(least, self.n_bytes + 1) if self.n_bytes % parts == 0)

    def _width(self, X: Float32Array) -> int:
        width = super()._width(X)
        return max(width - width % self._parts(), self._parts())

    def _new_index(self, X: Float32Array) -> Any:
        parts = self._parts()
        if parts == 1:
            index = faiss.IndexLocalSearchQuantizer(X.shape[1], self.n_bytes, _BITS, METRIC)
            quantizers = [index.lsq]
        else:
            index = faiss.IndexProductLocalSearchQuantizer(X.shape[1], parts, self.n_bytes // parts, _BITS, METRIC)
            quantizers = [faiss.downcast_AdditiveQuantizer(index.plsq.subquantizer(part)) for part in range(parts)]
        for quantizer in quantizers:
            quantizer.train_iters, quantizer.train_ils_iters = _LSQ_ROUNDS, _LSQ_TRAIN_SEARCHES
            quantizer.encode_ils_iters = _LSQ_ENCODE_SEARCHES
        return index
