"""OrthoHash: cosine softmax towards fixed random centres, with a margin."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from hashlearn.deep.losses.pairs import Loss


class OrthoHashLoss(Loss):
    """Softmax cross-entropy of scale (cos(v, C) - margin Y) and Y / |Y|; C are random +1 / -1 centres, one a label.

    ``v`` is the output after batch normalisation (the "batchnorm" head): it balances bits, and its sign is the code.
    """

    centers: Tensor

    def __init__(
        self, n_bits: int, n_labels: int, rng: np.random.RandomState, *, scale: float = 8.0, margin: float = 0.2
    ) -> None:
        super().__init__()
        self.scale, self.margin = scale, margin
        centers = np.where(rng.random_sample((n_labels, n_bits)) < 0.5, 1.0, -1.0)
        # All of a length, so that the cosine is one product away.
        unit = torch.from_numpy(centers / np.sqrt(n_bits)).float()
        self.register_buffer("centers", unit, persistent=False)

    def forward(self, u: Tensor, Y: Tensor, step: int, idx: Tensor) -> Tensor:
        cosine = functional.normalize(u, dim=1, eps=1e-6) @ self.centers.to(u.dtype).T
        targets = Y / Y.sum(dim=1, keepdim=True).clamp(min=1.0)
        return functional.cross_entropy(self.scale * (cosine - self.margin * Y), targets)
