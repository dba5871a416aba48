"""Outputs of a network for all inputs, batch by batch."""

from __future__ import annotations

import copy

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from hashlearn.deep.inputs import Inputs, in_turn
from hashlearn.parallel import row_blocks
from hashlearn.progress import report

ROWS, IMAGES = 2048, 64


def outputs(
    module: nn.Module,
    inputs: Inputs,
    n_bits: int,
    device: torch.device | str = "cpu",
    places: NDArray[np.intp] | None = None,
) -> NDArray[np.float32]:
    """The first ``n_bits`` outputs for all inputs or those at ``places``, in the inputs' own precision.

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
