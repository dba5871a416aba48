"""Networks from images to features, one per file; ``build`` makes any of them by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from torch import nn

from hashlearn.deep.backbones import alexnet, efficientnet_lite, small_cnn
from hashlearn.deep.backbones.base import Backbone, Normalize, Recipe
from hashlearn.deep.backbones.module import build_module, build_none, rebuild_module
from hashlearn.deep.backbones.weights import PRETRAINED
from hashlearn.deprecation import renamed_attribute

__all__ = ["BACKBONES", "PRETRAINED", "Backbone", "Normalize", "Recipe", "build"]

BACKBONES: dict[str, Callable[..., Backbone]] = {
    "none": build_none,
    "alexnet": alexnet.build,
    "small_cnn": small_cnn.build,
    **dict.fromkeys(efficientnet_lite.VARIANTS, efficientnet_lite.build),
}


def build(backbone: str | nn.Module | Backbone | None, **settings: Any) -> Backbone:
    """The backbone of that name, or around a module of your own; None and "none" take rows of features as they are.

    >>> build("small_cnn", n_features=64).n_features
    64
    """
    if isinstance(backbone, Backbone):
        if settings:
            raise ValueError(f"The backbone {backbone.name} is made already; it takes no {', '.join(settings)}.")
        return backbone
    if isinstance(backbone, nn.Module):
        _check(build_module, "A module", settings)
        return build_module(backbone, **settings)
    name = "none" if backbone is None else backbone
    if name == "module":
        return rebuild_module(name, **settings)
    if name not in BACKBONES:
        raise ValueError(
            f"The backbone must be one of {', '.join(BACKBONES)}, or a torch.nn.Module. Got {backbone!r} instead."
        )
    _check(BACKBONES[name], f"The backbone {name}", settings)
    return BACKBONES[name](name, **settings)


def _check(make: Callable[..., Backbone], title: str, settings: dict[str, Any]) -> None:
    known = {
        key: value for key, value in inspect.signature(make).parameters.items() if value.kind == value.KEYWORD_ONLY
    }
    strange = [key for key in settings if key not in known]
    if strange:
        raise ValueError(f"{title} takes {', '.join(known)}. Got {strange[0]!r} instead.")
    missing = [key for key, value in known.items() if value.default is value.empty and key not in settings]
    if missing:
        raise ValueError(f"{title} needs {', '.join(missing)}.")


def __getattr__(name: str) -> Any:
    return renamed_attribute(__name__, name, {"Normalise": "hashlearn.deep.backbones.Normalize"}, since="0.3")
