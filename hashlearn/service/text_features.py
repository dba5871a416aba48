"""Texts of clients as rows of features, and the text models of hashers that are served together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hashlearn.data import embed
from hashlearn.data.embed import TextModel
from hashlearn.data.named_model import check_fits
from hashlearn.service.errors import ApiError, bad
from hashlearn.service.served_collection import ServedCollection
from hashlearn.service.settings import Limits
from hashlearn.typing import Float32Array


def text_features(hasher: Any, loaded: dict[str, TextModel]) -> TextModel | None:
    """The text model that a hasher names, else None. ``loaded`` keeps models that several hashers share."""
    name = getattr(hasher, "text_model_", None)
    if name is None:
        return None
    if name not in loaded:
        loaded[name] = embed.text_model(name)
    check_fits(loaded[name], hasher)
    return loaded[name]


def rows_of_texts(served: ServedCollection, texts: Sequence[str], limits: Limits) -> Float32Array:
    """The rows that the text model of a collection makes of texts that a client sent."""
    if served.texts is None:
        why = "its hasher names no text model, or the server was started without --search-texts"
        raise bad("no_texts", f"The collection {served.name} takes no texts: {why}.")
    if len(texts) > limits.texts:
        raise ApiError(413, "too_many", f"At most {limits.texts} texts are taken at once. Got {len(texts):,}.")
    if not all(map(str.strip, texts)):
        raise bad("bad_request", "texts: each must be a text that is not empty.")
    longest = max(map(len, texts))
    if longest > limits.text_chars:
        raise ApiError(413, "too_large", f"A text may have {limits.text_chars:,} characters. Got {longest:,}.")
    return served.texts.rows(texts)
