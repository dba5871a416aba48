"""Rows of an array or images as inputs of a network, batch by batch, and the outputs of a network for all of them."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

import numpy as np
import torch
from scipy import sparse
from torch import Tensor, nn

from hashlearn.parallel import in_order, row_blocks
from hashlearn.progress import report
from hashlearn.typing import Float32Array, FloatArray, IntArray

WAITING = 2


class Inputs(Protocol):
    """Rows by number. ``slow`` inputs are read ahead in a thread; ``train`` asks for augmentation, from ``rng``.

    ``usable`` are the rows that can be read, None for all of them.
    """

    slow: bool
    usable: IntArray | None

    def __len__(self) -> int: ...

    def batch(self, indices: IntArray, train: bool, rng: np.random.Generator) -> Tensor: ...

    def stamp(self) -> str:
        """Return a hash that changes when files do; nothing where rows are in memory."""
        ...

    def close(self) -> None: ...


class ArrayInputs:
    """Rows of an array of any shape, or of a sparse matrix, as float32 (float64 where the network is)."""

    slow = False
    usable: IntArray | None = None

    def __init__(self, rows: Any, dtype: Any = np.float32) -> None:
        self.rows = rows
        self.dtype = dtype

    def __len__(self) -> int:
        return int(self.rows.shape[0])

    def batch(self, indices: IntArray, train: bool, rng: np.random.Generator) -> Tensor:
        # NumPy copies only the requested rows, also from a memory-mapped file.
        rows = self.rows[indices]
        return torch.from_numpy(np.asarray(rows.toarray() if sparse.issparse(rows) else rows, dtype=self.dtype))

    def stamp(self) -> str:
        return ""

    def close(self) -> None:
        """Nothing is open."""


class ImageInputs:
    """The images of an ``ImageSource``, decoded ahead of the network; ``own`` ones are closed after use.

    Where damaged images are to be skipped, all are read once to know which.
    """

    slow = True

    def __init__(self, source: Any, own: bool = False) -> None:
        self.source = source
        self.own = own
        self.usable: IntArray | None = None
        if source.on_error == "skip":
            self.usable = source.usable()
            if len(self.usable) < len(source):
                # Threads find them in any order.
                row = min(source.damaged)
                left_out = f"{len(source) - len(self.usable)} of {len(source)} images are left out"
                warnings.warn(f"{left_out} (all in .damaged); row {row}: {source.damaged[row]}", stacklevel=2)

    def __len__(self) -> int:
        return len(self.source)

    def batch(self, indices: IntArray, train: bool, rng: np.random.Generator) -> Tensor:
        images: Tensor = self.source.batch(indices, train, rng)
        return images

    def stamp(self) -> str:
        return str(self.source.stamp())

    def close(self) -> None:
        if self.own:
            self.source.close()


def in_turn(inputs: Inputs, plan: Sequence[IntArray], train: bool, seed: Sequence[int] = (0,)) -> Iterator[Tensor]:
    """Yield the batches of a plan. Each has its own random generator: a resumed epoch draws the same numbers."""

    def made(number: int) -> Tensor:
        return inputs.batch(plan[number], train, np.random.default_rng([*seed, number]))

    if not inputs.slow:
        yield from map(made, range(len(plan)))
        return
    with ThreadPoolExecutor(1, thread_name_prefix="hashlearn-batches") as pool:
        yield from in_order(lambda number: pool.submit(made, number), range(len(plan)), WAITING)


def moments(rows: Any) -> tuple[FloatArray, float]:
    """Mean of the rows, and the root mean square of the features around it; 1 if they are constant."""
    n_rows, width = rows.shape
    total, squares = np.zeros(width), np.zeros(width)
    for block in row_blocks(n_rows):
        part = rows[block]
        part = np.asarray(part.toarray() if sparse.issparse(part) else part, dtype=np.float64)
        total += part.sum(axis=0)
        squares += np.einsum("ij,ij->j", part, part)
    mean = total / n_rows
    spread = float(np.maximum(squares / n_rows - mean**2, 0.0).mean())
    return mean, float(np.sqrt(spread)) if spread > 1e-12 * max(float((mean**2).mean()), 1e-300) else 1.0


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
    blocks = row_blocks(len(places), IMAGES if inputs.slow else ROWS)
    if getattr(inputs, "dtype", None) == np.float64:
        module = copy.deepcopy(module).double()
    batches = in_turn(inputs, [places[block] for block in blocks], False)
    with torch.inference_mode():
        for block, batch in zip(blocks, batches, strict=True):
            result[block] = module(batch.to(device))[:, :n_bits].float().cpu().numpy()
            if inputs.slow:
                report("encoding", block.stop, len(places))
    return result
