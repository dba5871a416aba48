"""GSDH_P*: each bit of a learned code as a two-class problem of the network."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from hashlearn.deep.losses.pairs import Loss


class GSDHPStarLoss(Loss):
    """mean over batch and bits of the cross-entropy of sigmoid(u) and the target bits.

    ``codes`` (n, m) in {-1, +1} or {0, 1}: the targets, in the order of the training rows.
    """

    bits: Tensor

    def __init__(self, codes: NDArray[np.generic]) -> None:
        super().__init__()
        self.register_buffer("bits", torch.from_numpy(np.asarray(codes) > 0).float(), persistent=False)

    def forward(self, u: Tensor, Y: Tensor, step: int, idx: Tensor) -> Tensor:
        return functional.binary_cross_entropy_with_logits(u, self.bits[idx].to(u.dtype))
