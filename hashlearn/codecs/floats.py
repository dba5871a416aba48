"""The rows themselves as 32-bit floats, compared by cosine: what every codec is measured against."""

from __future__ import annotations

from typing import Any

import faiss

from hashlearn.codecs.faiss_codec import METRIC, FaissCodec
from hashlearn.typing import Float32Array


class FloatCodec(FaissCodec):
    """Four bytes per dimension, without loss."""

    def __init__(self) -> None:
        super().__init__(0)

    def _new_index(self, X: Float32Array) -> Any:
        return faiss.IndexFlat(X.shape[1], METRIC)
