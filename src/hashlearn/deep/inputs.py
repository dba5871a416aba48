"""Rows of an array or images as inputs of a network, batch by batch, and the outputs of a network for all of them."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor, nn

from hashlearn.deep import backbones
from hashlearn.deep.backbones import IMAGE_FIELDS, Backbone, Recipe
from hashlearn.deep.images import ImageSource
from hashlearn.parallel import row_blocks
from hashlearn.progress import report
from hashlearn.typing import Float32Array, IntArray


class Inputs(Protocol):
    """Rows by number. A ``seed`` asks for augmentation. ``usable`` are the rows that can be read, None for all."""

    usable: IntArray | None

    def __len__(self) -> int: ...

    def batches(self, plan: Sequence[IntArray], seed: Sequence[int] | None = None) -> Iterator[Tensor]:
        """Yield the rows of each batch of the plan."""
        ...

    def stamp(self) -> str:
        """Return a hash that changes when files do; nothing where rows are in memory."""
        ...

    def close(self) -> None: ...


class ArrayInputs:
    """Rows of an array of any shape, or of a sparse matrix, as float32 (float64 where the network is)."""

    usable: IntArray | None = None

    def __init__(self, rows: Any, dtype: Any = np.float32) -> None:
        self.rows = rows
        self.dtype = dtype

    def __len__(self) -> int:
        return int(self.rows.shape[0])

    def batches(self, plan: Sequence[IntArray], seed: Sequence[int] | None = None) -> Iterator[Tensor]:
        for indices in plan:
            # NumPy copies only the requested rows, also from a memory-mapped file.
            rows = self.rows[indices]
            yield torch.from_numpy(np.asarray(rows.toarray() if sparse.issparse(rows) else rows, dtype=self.dtype))

    def stamp(self) -> str:
        return ""

    def close(self) -> None:
        """Nothing is open."""


class ImageInputs:
    """The images of an ``ImageSource``; ``own`` ones are closed after use.

    Where damaged images are to be skipped, all are read once to know which.
    """

    def __init__(self, source: ImageSource, own: bool = False) -> None:
        self.source, self.own = source, own
        self.usable: IntArray | None = None
        if source.on_error == "skip":
            self.usable = source.usable()
            if source.damaged:
                # Threads find them in any order.
                row = min(source.damaged)
                left_out = f"{len(source.damaged)} of {len(source)} images are left out"
                warnings.warn(f"{left_out} (all in .damaged); row {row}: {source.damaged[row]}", stacklevel=2)

    def __len__(self) -> int:
        return len(self.source)

    def batches(self, plan: Sequence[IntArray], seed: Sequence[int] | None = None) -> Iterator[Tensor]:
        return self.source.whole_batches(plan, seed)

    def stamp(self) -> str:
        return self.source.stamp()

    def close(self) -> None:
        if self.own:
            self.source.close()


def open_inputs(description: dict[str, Any], X: Any, n_jobs: int | None) -> Inputs:
    """Return inputs for a backbone by its description."""
    images = description["images"]
    if images is not None and isinstance(X, ImageSource):
        return ImageInputs(X)
    if images is not None and not _is_float_array(X):
        recipe = Recipe(**{field: images[field] for field in IMAGE_FIELDS})
        return ImageInputs(ImageSource(X, images["size"], recipe=recipe, n_jobs=n_jobs), own=True)
    rows: NDArray[Any] = np.asarray(X)
    if rows.dtype.kind not in "fiub" or rows.ndim < 2 or len(rows) == 0:
        raise ValueError(
            f"The backbone takes an array of numbers (n, ...). Got {rows.dtype} of shape {rows.shape} instead."
        )
    if rows.dtype.kind == "f" and not np.isfinite(rows).all():
        raise ValueError("Input X contains NaN or infinity.")
    return ArrayInputs(rows)


def fresh_backbone(backbone: Any, X: Any, seed: int) -> Backbone:
    """Return a backbone that is to be trained on X. Its module is a copy, so that a user's own stays as it is.

    Weights that start at random depend on the seed alone.
    """
    name, settings = _name_and_settings(backbone)
    if isinstance(name, nn.Module):
        name = copy.deepcopy(name)
        if _is_float_array(X) and not settings:
            first = torch.from_numpy(np.array(X[:2], dtype=np.float32))
            settings = {"n_features": backbones.output_width(name, first, "these rows")}
    with torch.random.fork_rng(devices=[]):
        # Not the seed of the head: two layers of the same shape would get the same weights.
        torch.manual_seed(seed + 1)
        return backbones.build(name, **settings)


def own_module(backbone: Any) -> nn.Module | None:
    """Return the user's own module among the ways to name a backbone."""
    module = _name_and_settings(backbone)[0]
    return module if isinstance(module, nn.Module) else None


def _name_and_settings(backbone: Any) -> tuple[Any, dict[str, Any]]:
    if not isinstance(backbone, Mapping):
        return backbone, {}
    settings = dict(backbone)
    if "name" not in settings:
        raise ValueError(f"A backbone given as a dict needs 'name'. Got {sorted(settings)} instead.")
    return settings.pop("name"), settings


def _is_float_array(X: Any) -> bool:
    return isinstance(X, np.ndarray) and X.dtype.kind == "f"


ROWS, IMAGES = 2048, 64


def outputs(
    module: nn.Module,
    inputs: Inputs,
    n_bits: int,
    device: torch.device | str = "cpu",
    places: IntArray | None = None,
) -> Float32Array:
    """Return the first ``n_bits`` outputs for all inputs or those at ``places``, in the inputs' own precision.

    Inputs that cannot be read and are to be left out have NaN for outputs.
    """
    if places is None and inputs.usable is not None:
        result = np.full((len(inputs), n_bits), np.nan, dtype=np.float32)
        result[inputs.usable] = outputs(module, inputs, n_bits, device, inputs.usable)
        return result
    module.to(device).eval()
    places = np.arange(len(inputs)) if places is None else places
    result = np.empty((len(places), n_bits), dtype=np.float32)
    images = isinstance(inputs, ImageInputs)
    blocks = row_blocks(len(places), IMAGES if images else ROWS)
    if getattr(inputs, "dtype", None) == np.float64:
        module = copy.deepcopy(module).double()
    batches = inputs.batches([places[block] for block in blocks])
    with torch.inference_mode():
        for block, batch in zip(blocks, batches, strict=True):
            result[block] = module(batch.to(device))[:, :n_bits].float().cpu().numpy()
            if images:
                report("encoding", block.stop, len(places))
    return result
