"""From what a user gives to what a training needs: inputs, a trunk, settings, a held-out part."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from hashlearn.deep.inputs import ArrayInputs, ImageInputs, Inputs
from hashlearn.deep.network import Spec
from hashlearn.deep.trainer import TrainingSettings
from hashlearn.typing import IntArray, Rng

if TYPE_CHECKING:
    from hashlearn.deep.hashers.base import DeepHasher

LEAST_HELD_OUT = 4
IMAGE_FIELDS = ("resize", "fit", "resample", "pad", "mirror")
MULTIPLIERS = ("trunk_multiplier", "bias_multiplier", "head_multiplier", "head_bias_multiplier")


@dataclass
class Opened:
    """Inputs, and the trunk that reads them.

    ``rows`` are the features, where the inputs are features. ``backbone`` is the trunk's part of a network's
    description, ``trunk`` the module itself, with its weights.
    """

    inputs: Inputs
    rows: Any = None
    trunk: nn.Module | None = None
    n_features: int = 0
    backbone: dict[str, Any] | None = None
    recipe: Any = None

    @property
    def name(self) -> str:
        return repr(self.backbone)

    def spec(self, head: Any, n_outputs: int) -> Spec:
        kind = head if isinstance(head, str) else [int(width) for width in head]
        return {"backbone": self.backbone, "head": kind, "n_features": self.n_features, "n_outputs": n_outputs}


def open_rows(X: Any) -> Opened:
    """Return inputs of features that are checked already."""
    return Opened(ArrayInputs(X, X.dtype), X, n_features=int(X.shape[1]))


def open_backbone(backbone: Any, X: Any, n_jobs: int | None, seed: int) -> Opened:
    """Return inputs for a backbone that is to be trained. Its module is a copy, so that a user's own stays as it is.

    Weights that start at random depend on the seed alone.
    """
    from hashlearn.deep import backbones

    name, settings = _name_and_settings(backbone)
    if isinstance(name, nn.Module):
        name = copy.deepcopy(name)
        if _is_float_array(X) and not settings:
            settings = {"n_features": _width(name, ArrayInputs(X))}
    with torch.random.fork_rng(devices=[]):
        # Not the seed of the head: two layers of the same shape would get the same weights.
        torch.manual_seed(seed + 1)
        built = backbones.build(name, **settings)
    images = None
    if built.image_size is not None:
        images = {"size": built.image_size} | {field: getattr(built.recipe, field) for field in IMAGE_FIELDS}
    described = {"name": built.name, "settings": built.settings, "images": images}
    return Opened(open_inputs(described, X, n_jobs), None, built.module, built.n_features, described, built.recipe)


def open_inputs(backbone: dict[str, Any], X: Any, n_jobs: int | None) -> Inputs:
    """Return inputs for a backbone by its part of a network's description."""
    images = backbone["images"]
    if images is None or _is_float_array(X):
        return ArrayInputs(_checked_array(X))
    from hashlearn.deep.backbones import Recipe
    from hashlearn.deep.images import ImageSource, image_source

    if isinstance(X, ImageSource):
        return ImageInputs(X)
    recipe = Recipe(**{field: images[field] for field in IMAGE_FIELDS})
    return ImageInputs(image_source(X, images["size"], recipe=recipe, n_jobs=n_jobs), own=True)


def own_module(backbone: Any) -> nn.Module | None:
    """Return the user's own module among the ways to name a backbone."""
    module = _name_and_settings(backbone)[0] if isinstance(backbone, Mapping) else backbone
    return module if isinstance(module, nn.Module) else None


def hold_out(known: IntArray, share: float, rng: Rng) -> tuple[IntArray, IntArray]:
    """Return rows to train on and rows to choose the best epoch by."""
    if share == 0:
        return known, known[:0]
    count = round(share * len(known))
    if count < LEAST_HELD_OUT or len(known) - count < 2:
        raise ValueError(
            f"validation={share:g} holds out {count} of {len(known)} labeled rows: it must leave at least 2 and hold "
            f"out at least {LEAST_HELD_OUT}."
        )
    order = rng.permutation(known)
    return np.sort(order[count:]), order[:count]


def settings_of(hasher: DeepHasher, recipe: Any, seed: int) -> TrainingSettings:
    """Return the hasher's own values, else those of the backbone's recipe, else the usual ones."""
    settings = TrainingSettings(
        n_epochs=hasher.n_epochs,
        schedule=hasher.schedule,
        patience=hasher.patience,
        mixed=_mixed(hasher.precision, hasher.device),
        seed=seed,
    )
    if recipe is not None:
        settings = replace(
            settings,
            batch_size=recipe.batch_size,
            optimizer=recipe.optimizer,
            learning_rate=recipe.learning_rate,
            momentum=recipe.momentum,
            weight_decay=recipe.weight_decay,
            decay_on_bias=recipe.decay_on_bias,
            **{name: getattr(recipe, name) for name in MULTIPLIERS},
        )
    own: dict[str, Any] = {
        "batch_size": hasher.batch_size,
        "optimizer": hasher.optimizer,
        "learning_rate": hasher.learning_rate,
        "weight_decay": hasher.weight_decay,
        "trunk_multiplier": hasher.trunk_rate,
    }
    return replace(settings, **{name: value for name, value in own.items() if value is not None})


def _mixed(precision: str, device: str) -> bool:
    if precision != "auto":
        return precision == "mixed"
    on_gpu = torch.cuda.is_available() and not device.startswith("cpu")
    return on_gpu and torch.cuda.is_bf16_supported(including_emulation=False)


def _name_and_settings(backbone: Any) -> tuple[Any, dict[str, Any]]:
    if not isinstance(backbone, Mapping):
        return backbone, {}
    settings = dict(backbone)
    if "name" not in settings:
        raise ValueError(f"A backbone given as a dict needs 'name'. Got {sorted(settings)} instead.")
    return settings.pop("name"), settings


def _is_float_array(X: Any) -> bool:
    return isinstance(X, np.ndarray) and X.dtype.kind == "f"


def _checked_array(X: Any) -> NDArray[Any]:
    X = np.asarray(X)
    if X.dtype.kind not in "fiub" or X.ndim < 2 or len(X) == 0:
        raise ValueError(f"The backbone takes an array of numbers (n, ...). Got {X.dtype} of shape {X.shape} instead.")
    if X.dtype.kind == "f" and not np.isfinite(X).all():
        raise ValueError("Input X contains NaN or infinity.")
    return X


def _width(module: nn.Module, inputs: ArrayInputs) -> int:
    """Return how many features a module makes of a row."""
    module.eval()
    with torch.inference_mode():
        features = module(inputs.batch(np.arange(min(2, len(inputs))), False, np.random.default_rng(0)))
    if not isinstance(features, torch.Tensor) or features.ndim != 2:
        found = tuple(features.shape) if isinstance(features, torch.Tensor) else type(features).__name__
        raise ValueError(f"The module must give features of shape (b, n_features). Got {found} instead.")
    return int(features.shape[1])
