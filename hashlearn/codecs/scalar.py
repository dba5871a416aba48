"""Scalar quantization of faiss: 4 or 8 bits per dimension, of all dimensions or of the first ones."""

from __future__ import annotations

from typing import Any, Literal

import faiss
import numpy as np

from hashlearn.codecs.base import unit_rows
from hashlearn.codecs.faiss_codec import METRIC, FaissCodec
from hashlearn.typing import Float32Array

_KINDS = {4: faiss.ScalarQuantizer.QT_4bit, 8: faiss.ScalarQuantizer.QT_8bit}


class ScalarCodec(FaissCodec):
    """Each dimension becomes one of 16 or 256 steps between its smallest and largest training value."""

    def __init__(self, bits: Literal[4, 8]) -> None:
        super().__init__(0)
        self.bits = bits

    def _new_index(self, X: Float32Array) -> Any:
        return faiss.IndexScalarQuantizer(X.shape[1], _KINDS[self.bits], METRIC)


class CutCodec(FaissCodec):
    """Matryoshka-style: the first dimensions, one byte each, and nothing of the others.

    Embeddings that were trained for it put what matters most into their first dimensions; for others it is a poor
    choice, which is what this codec shows.
    """

    def _prepared(self, X: Float32Array) -> Float32Array:
        return unit_rows(np.asarray(X)[:, : self.n_bytes])

    def _new_index(self, X: Float32Array) -> Any:
        return faiss.IndexScalarQuantizer(X.shape[1], _KINDS[8], METRIC)
