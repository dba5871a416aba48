"""What every backbone is: a network from pixels to features, and how its authors trained it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from hashlearn.deprecation import renamed_parameters


@renamed_parameters(since="0.3", optimiser="optimizer")
@dataclass(frozen=True)
class Recipe:
    """How to train a backbone with a hash head on top: the defaults of a trainer, each of which a user may change.

    Rates are ``learning_rate`` times a multiplier: ``trunk_multiplier`` for the weights of the backbone and, times
    ``bias_multiplier``, for its biases; ``head_multiplier`` and ``head_bias_multiplier`` for the head.
    Images are scaled to ``resize`` pixels (None: straight to the size of the network), by cutting off what is too long
    (``fit="crop"``) or by squeezing (``"squash"``); then ``pad`` black pixels are put around, a window of the network's
    size is taken (at random in training, in the middle otherwise) and, in training, half of the images are mirrored.
    """

    optimizer: str = "adam"
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
        normalization folded into its convolutions, which gives the same features in less time."""
        self.module.eval()
        return self.module.folded() if isinstance(self.module, NormalizedNetwork) else self.module


class Normalize(nn.Module):
    """Scale pixels 0..255, bytes or floats, as for the training of a network: (pixel − mean) / deviation per channel.

    The constants are buffers, so they are saved with the network.
    """

    mean: Tensor
    deviation: Tensor

    def __init__(self, mean: tuple[float, float, float], deviation: tuple[float, float, float]) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor(mean).reshape(1, 3, 1, 1))
        self.register_buffer("deviation", torch.tensor(deviation).reshape(1, 3, 1, 1))

    def forward(self, pixels: Tensor) -> Tensor:
        return (pixels.to(self.mean.dtype) - self.mean) / self.deviation


class NormalizedNetwork(nn.Module):
    """A network that normalizes its input first."""

    def __init__(self, normalize: Normalize, network: nn.Module) -> None:
        super().__init__()
        self.normalise = normalize  # the names of tensors in model files begin with this name, so it stays
        self.network = network

    def forward(self, pixels: Tensor) -> Tensor:
        features: Tensor = self.network(self.normalise(pixels))
        return features

    def folded(self) -> NormalizedNetwork:
        """The same around a folded copy of the network, if the network can make one."""
        fold = getattr(self.network, "folded", None)
        return NormalizedNetwork(self.normalise, fold()).eval() if fold is not None else self


IMAGENET_MEAN = (0.485 * 255, 0.456 * 255, 0.406 * 255)
IMAGENET_DEVIATION = (0.229 * 255, 0.224 * 255, 0.225 * 255)
