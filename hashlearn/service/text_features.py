"""Texts of clients as rows that a hasher takes, by the text model that the hasher was fitted with."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, Protocol

from hashlearn.typing import Float32Array


class TextFeatures(Protocol):
    """What turns texts into rows."""

    def rows(self, texts: Sequence[str]) -> Float32Array: ...


class EmbeddedTexts:
    """Rows by a sentence-transformers model, which is loaded at once and used by one thread at a time."""

    def __init__(self, name: str) -> None:
        from hashlearn.data.embed import text_model

        self._model = text_model(name)
        self._lock = threading.Lock()
        self.n_features = self._model.n_features

    def rows(self, texts: Sequence[str]) -> Float32Array:
        import numpy as np

        with self._lock:
            return np.concatenate(list(self._model.encode(texts)))


def text_features(hasher: Any, loaded: dict[str, EmbeddedTexts]) -> EmbeddedTexts | None:
    """What a hasher that was fitted to texts needs, else None. ``loaded`` keeps models that several hashers share."""
    name = getattr(hasher, "text_model_", None)
    if name is None:
        return None
    if name not in loaded:
        loaded[name] = EmbeddedTexts(name)
    features, wanted = loaded[name], int(hasher.n_features_in_)
    if features.n_features != wanted:
        raise ValueError(f"The text model {name!r} makes rows of {features.n_features}, the hasher takes {wanted}.")
    return features
