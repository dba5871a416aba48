"""What every backbone is: a network from pixels to features, and how its authors trained it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Recipe:
    """How to train a backbone with a hash head on top: the defaults of a trainer, each of which a user may change.

    Rates are ``learning_rate`` times a multiplier: ``trunk_multiplier`` for the weights of the backbone and, times
    ``bias_multiplier``, for its biases; ``head_multiplier`` and ``head_bias_multiplier`` for the head.
    Images are scaled to ``resize`` pixels (None: straight to the size of the network), by cutting off what is too long
    (``fit="crop"``) or by squeezing (``"squash"``); then ``pad`` black pixels are put around, a window of the network's
    size is taken (at random in training, in the middle otherwise) and, in training, half of the images are mirrored.
    """

    optimiser: str = "adam"
    learning_rate: float = 1e-3
    momentum: float = 0.9
    weight_decay: float = 1e-5
    batch_size: int = 128
    trunk_multiplier: float = 1.0
    bias_multiplier: float = 1.0
    head_multiplier: float = 1.0
    head_bias_multiplier: float = 1.0
    decay_on_bias: bool = False
    resize: int | None = None
    fit: str = "crop"
    resample: str = "bicubic"
    pad: int = 0
    mirror: bool = True


@dataclass
class Backbone:
    """A network that turns images (b, 3, height, width) of pixels 0..255 into features (b, n_features).

    ``name`` and ``settings`` go into a model file: ``build(name, **settings)`` makes the same network again, without
    its weights, which the file holds. ``image_size`` is None where rows of features come in. ``weights`` says where the
    weights came from.
    """

    name: str
    module: nn.Module
    n_features: int
    image_size: int | None
    recipe: Recipe
    settings: dict[str, Any] = field(default_factory=dict)
    weights: str = "random"

    def for_features(self) -> nn.Module:
        """The network for use without training: in evaluation mode, where it stays, and, if it can be, with its batch
        normalisation folded into its convolutions, which gives the same features sooner."""
        self.module.eval()
        return self.module.folded() if isinstance(self.module, Normalised) else self.module


class Normalise(nn.Module):
    """Pixels 0..255, bytes or floats, to what a network was trained on: (pixel − mean) / deviation, for each colour.

    The constants are buffers, so they are saved with the network and nobody need know them.
    """

    mean: Tensor
    deviation: Tensor

    def __init__(self, mean: tuple[float, float, float], deviation: tuple[float, float, float]) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor(mean).reshape(1, 3, 1, 1))
        self.register_buffer("deviation", torch.tensor(deviation).reshape(1, 3, 1, 1))

    def forward(self, pixels: Tensor) -> Tensor:
        return (pixels.to(self.mean.dtype) - self.mean) / self.deviation


class Normalised(nn.Module):
    """A network with its normalisation in front."""

    def __init__(self, normalise: Normalise, network: nn.Module) -> None:
        super().__init__()
        self.normalise = normalise
        self.network = network

    def forward(self, pixels: Tensor) -> Tensor:
        features: Tensor = self.network(self.normalise(pixels))
        return features

    def folded(self) -> Normalised:
        """The same around a folded copy of the network, where it knows how to make one."""
        fold = getattr(self.network, "folded", None)
        return Normalised(self.normalise, fold()).eval() if fold is not None else self


IMAGENET_MEAN = (0.485 * 255, 0.456 * 255, 0.406 * 255)
IMAGENET_DEVIATION = (0.229 * 255, 0.224 * 255, 0.225 * 255)
