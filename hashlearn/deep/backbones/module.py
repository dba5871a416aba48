"""A network of the user's own, and no network at all."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from hashlearn.deep.backbones.base import Backbone, Recipe


def build_module(module: nn.Module, *, image_size: int | None = None, n_features: int | None = None) -> Backbone:
    """The user's module, which maps (b, 3, image_size, image_size) pixels 0..255 to (b, n_features).

    Without ``image_size`` it takes rows of features instead, and ``n_features`` must be given; else it is found by
    sending one black image through. The module does its own normalization (``Normalize`` helps).
    """
    if image_size is None:
        if n_features is None:
            raise ValueError(
                "A module needs image_size=, the pixels of the images that it takes, or, where it takes rows of "
                "features, n_features=, how many numbers it makes of them."
            )
        width = n_features
    else:
        width = _outputs(module, image_size)
        if n_features is not None and n_features != width:
            raise ValueError(f"n_features is {n_features}, but the module gives {width} features.")
    kind = type(module).__name__
    settings = {"module": kind, "image_size": image_size, "n_features": width}
    return Backbone("module", module, width, image_size, Recipe(trunk_multiplier=0.1), settings, f"{kind} as given")


def build_none(name: str, *, n_features: int) -> Backbone:
    """Rows of features as they are."""
    return Backbone(name, nn.Identity(), n_features, None, Recipe(), {"n_features": n_features})


def rebuild_module(name: str, **settings: object) -> Backbone:
    """What a model file asks for whose network was the user's own."""
    kind = settings.get("module", "nn.Module")
    raise ValueError(f"The backbone is a {kind} of your own, which no file holds: give the module itself.")


def _outputs(module: nn.Module, image_size: int) -> int:
    training = [(part, part.training) for part in module.modules()]
    first = next(module.parameters(), torch.zeros(()))
    black = torch.zeros((1, 3, image_size, image_size), dtype=first.dtype, device=first.device)
    module.eval()
    try:
        with torch.inference_mode():
            features = module(black)
    except (RuntimeError, TypeError) as error:
        reason = str(error).strip().split("\n")[0]
        raise ValueError(f"The module does not take images of {image_size}×{image_size} pixels: {reason}.") from error
    finally:
        for part, was_training in training:
            part.training = was_training
    if not isinstance(features, Tensor) or features.ndim != 2:
        found = tuple(features.shape) if isinstance(features, Tensor) else type(features).__name__
        raise ValueError(f"The module must give features of shape (b, n_features). Got {found} instead.")
    return int(features.shape[1])
