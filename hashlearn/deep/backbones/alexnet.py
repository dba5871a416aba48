"""AlexNet (Krizhevsky, 2014, "one weird trick"), the network of the paper, up to its layer fc7: 4096 features.

Layers are called as in torchvision, so its weights, and files of them, fit.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

from hashlearn.deep.backbones.base import (
    IMAGENET_DEVIATION,
    IMAGENET_MEAN,
    Backbone,
    Normalize,
    NormalizedNetwork,
    Recipe,
)
from hashlearn.deep.backbones.weights import PRETRAINED, load_weights
from hashlearn.files.arrays import FileError

N_FEATURES = 4096
SIZE = 224
# The training of Caffe's hashing networks: images are scaled to 256² without keeping their proportions, cropped and
# mirrored at random; biases learn at twice the rate and without decay, a new hash layer at ten times the rate.
RECIPE = Recipe(
    optimizer="sgd",
    learning_rate=1e-3,
    momentum=0.9,
    weight_decay=5e-4,
    batch_size=128,
    trunk_multiplier=1.0,
    bias_multiplier=2.0,
    head_multiplier=10.0,
    head_bias_multiplier=20.0,
    decay_on_bias=False,
    resize=256,
    fit="squash",
    resample="bilinear",
    mirror=True,
)


def build(name: str, *, weights: str | Path | None = PRETRAINED) -> Backbone:
    """AlexNet without its last layer. ``weights``: torchvision's (``"pretrained"``, which may download them), a file of
    them (.pth or .safetensors; with the convolutions alone the other layers start at random), or None for random ones.
    """
    network = AlexNet()
    last = ("classifier.6.weight", "classifier.6.bias")
    origin = load_weights(network, weights, _torchvision_file, name, optional=last, fresh=("classifier.",))
    module = NormalizedNetwork(Normalize(IMAGENET_MEAN, IMAGENET_DEVIATION), network)
    return Backbone(name, module, N_FEATURES, SIZE, RECIPE, {"weights": None}, origin)


class AlexNet(nn.Module):
    """Normalized images (b, 3, 224, 224) to the 4096 numbers of fc7 or, with ``n_classes``, to scores of classes."""

    def __init__(self, n_classes: int | None = None) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 64, 11, stride=4, padding=2),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, stride=2),
            nn.Conv2d(64, 192, 5, padding=2),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, stride=2),
            nn.Conv2d(192, 384, 3, padding=1),
            nn.ReLU(inplace=True),
            nn.Conv2d(384, 256, 3, padding=1),
            nn.ReLU(inplace=True),
            nn.Conv2d(256, 256, 3, padding=1),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, stride=2),
        )
        self.avgpool = nn.AdaptiveAvgPool2d(6)
        self.classifier = nn.Sequential(
            nn.Dropout(),
            nn.Linear(256 * 6 * 6, N_FEATURES),
            nn.ReLU(inplace=True),
            nn.Dropout(),
            nn.Linear(N_FEATURES, N_FEATURES),
            nn.ReLU(inplace=True),
        )
        if n_classes:
            self.classifier.append(nn.Linear(N_FEATURES, n_classes))

    def forward(self, images: Tensor) -> Tensor:
        scores: Tensor = self.classifier(torch.flatten(self.avgpool(self.features(images)), 1))
        return scores


def _torchvision_file() -> Path:
    """Torchvision's weights of AlexNet, fetched by it into torch's own cache the first time."""
    try:
        from torchvision.models import AlexNet_Weights
    except ImportError as error:
        raise FileError(
            "AlexNet's weights come with torchvision: pip install torchvision, or give a file as weights=, or "
            "weights=None to train from scratch."
        ) from error
    url = AlexNet_Weights.IMAGENET1K_V1.url
    path = Path(torch.hub.get_dir()) / "checkpoints" / Path(url).name
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            torch.hub.download_url_to_file(url, str(path), progress=False)
        except OSError as error:
            raise FileError(f"AlexNet's weights could not be fetched from {url}: give a file as weights=.") from error
    return path
