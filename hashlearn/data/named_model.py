"""The text model that a fitted hasher names: loaded, checked, and noted."""

from __future__ import annotations

from copy import copy
from typing import Any

from hashlearn.data import embed
from hashlearn.data.embed import TextModel


class TextModelError(ValueError):
    """A hasher names no text model, or one that makes other rows than it takes; the message says what to do."""


def named_model(hasher: Any, where: str) -> TextModel:
    """Load the text model that a fitted hasher names. ``where`` is the hasher's file or collection, for errors."""
    name = getattr(hasher, "text_model_", None)
    if name is not None:
        return checked_model(hasher, name)
    if hasher is None:
        raise TextModelError(f"{where} has no hasher to encode texts: give codes instead.")
    if hasher.info.name == "migrated":
        raise TextModelError(
            f"{where} was migrated to an embedding model whose name it does not know, so it cannot embed texts: give "
            "X, or name the new model with text_model= of 'migrate', afterwards with Collection.set_text_model (on "
            "the command line: index migrate --embed NAME)."
        )
    raise TextModelError(
        f"{where} names no text model, so it cannot embed texts: give X, or name the model whose embeddings the hasher "
        "was fitted to, with text_model= of Collection.create or with Collection.set_text_model (on the command line: "
        "--embed of 'fit', 'index create' and 'index migrate')."
    )


def checked_model(hasher: Any, name: str) -> TextModel:
    """Load a text model, and check that it makes rows as a fitted hasher takes them."""
    model = embed.text_model(name)
    check_fits(model, hasher)
    return model


def check_fits(model: TextModel, hasher: Any) -> None:
    """Raise TextModelError if a text model makes other rows than a fitted hasher takes."""
    if model.n_features != hasher.n_features_in_:
        raise TextModelError(
            f"The text model {model.name!r} makes rows of {model.n_features} numbers, the hasher takes "
            f"{hasher.n_features_in_}."
        )


def with_text_model(hasher: Any, name: str) -> Any:
    """Return a shallow copy of a fitted hasher that names a text model.

    The hasher itself stays as it is, because it may be fitted again, to rows of another model.
    """
    result = copy(hasher)
    result.text_model_ = name
    return result
