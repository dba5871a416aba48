"""A small network that learns from scratch: the three convolutions of CNNH (Xia et al., 2014)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from hashlearn.deep.backbones.base import Backbone, Normalize, NormalizedNetwork, Recipe

CHANNELS = (32, 64, 128)
SIZE = 32


def build(
    name: str, *, image_size: int = SIZE, n_features: int = 500, batch_norm: bool = True, dropout: float = 0.5
) -> Backbone:
    """Three layers of 5×5 convolutions (32, 64, 128 channels), each halved by max-pooling, then ``n_features`` units.

    CNNH had no batch normalization and, as far as is known, no dropout: ``batch_norm=False, dropout=0`` is its form.
    """
    if image_size < 8:
        raise ValueError(f"'image_size' must be at least 8 pixels. Got {image_size} instead.")
    network = SmallCNN(image_size, n_features, batch_norm, dropout)
    settings = {"image_size": image_size, "n_features": n_features, "batch_norm": batch_norm, "dropout": dropout}
    recipe = Recipe(weight_decay=1e-4, pad=image_size // 8)
    module = NormalizedNetwork(Normalize((127.5,) * 3, (64.0,) * 3), network)
    return Backbone(name, module, n_features, image_size, recipe, settings)


class SmallCNN(nn.Module):
    """Normalized images (b, 3, image_size, image_size) to features (b, n_features)."""

    def __init__(self, image_size: int, n_features: int, batch_norm: bool, dropout: float) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        before = 3
        for after in CHANNELS:
            layers.append(nn.Conv2d(before, after, 5, padding=2, bias=not batch_norm))
            if batch_norm:
                layers.append(nn.BatchNorm2d(after))
            layers += [nn.ReLU(inplace=True), nn.MaxPool2d(2)]
            before = after
        self.convolutions = nn.Sequential(*layers)
        side = image_size // 2 ** len(CHANNELS)
        self.dropout = nn.Dropout(dropout)
        self.full = nn.Linear(before * side * side, n_features)

    def forward(self, images: Tensor) -> Tensor:
        flat = torch.flatten(self.convolutions(images), 1)
        return torch.relu(self.full(self.dropout(flat)))
