"""The text models of hashers that are served together."""

from __future__ import annotations

from typing import Any

from hashlearn.data import embed
from hashlearn.data.embed import TextModel
from hashlearn.data.named_model import check_fits


def text_features(hasher: Any, loaded: dict[str, TextModel]) -> TextModel | None:
    """The text model that a hasher names, else None. ``loaded`` keeps models that several hashers share."""
    name = getattr(hasher, "text_model_", None)
    if name is None:
        return None
    if name not in loaded:
        loaded[name] = embed.text_model(name)
    check_fits(loaded[name], hasher)
    return loaded[name]
