"""DNNH: triplet hinge loss on sigmoid outputs."""

from __future__ import annotations

import torch
from torch import Tensor

from hashlearn.deep.losses.pairs import Loss, shared_labels


class DNNHLoss(Loss):
    """mean over triplets of max(0, margin + |f_a - f_p|^2 - |f_a - f_n|^2), f = sigmoid(u).

    Where f is 0 or 1 the squared distance is the Hamming distance, so ``margin`` is in bits; None for m / 4.
    Triplets are drawn anew from every batch, ``per_anchor`` for each row: p shares a label with the anchor, n shares
    fewer than p does. ``band`` is the paper's piecewise threshold: f below 0.5 - band counts as 0, above 0.5 + band as
    1; None leaves it out, as the first author's released structure does.
    """

    def __init__(
        self,
        n_bits: int,
        *,
        margin: float | None = None,
        per_anchor: int = 10,
        band: float | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.margin = n_bits / 4.0 if margin is None else float(margin)
        self.per_anchor, self.band, self.seed = per_anchor, band, seed

    def forward(self, u: Tensor, Y: Tensor, step: int, idx: Tensor) -> Tensor:
        f = torch.sigmoid(u)
        if self.band is not None:
            f = torch.where(f < 0.5 - self.band, 0.0, torch.where(f > 0.5 + self.band, 1.0, f))
        anchor, positive, negative = self.triplets(Y, step)
        if len(anchor) == 0:
            # No triplet in this batch: a zero that still has a gradient.
            return (u * 0.0).sum()
        near = ((f[anchor] - f[positive]) ** 2).sum(dim=1)
        far = ((f[anchor] - f[negative]) ** 2).sum(dim=1)
        return (self.margin + near - far).clamp(min=0.0).mean()

    def triplets(self, Y: Tensor, step: int) -> tuple[Tensor, Tensor, Tensor]:
        """Places (a, p, n) in the batch, the same for the same step; rows without a possible triplet have none."""
        draws = torch.Generator().manual_seed((self.seed * 1_000_003 + step) % 2**63)
        shared = shared_labels(Y).cpu()
        size = len(shared)
        anchor = torch.arange(size).repeat_interleave(self.per_anchor)
        mine = shared[anchor]
        candidate = (mine > 0) & (anchor[:, None] != torch.arange(size))
        positive, found = _one_of(candidate, draws)
        candidate = mine < mine.gather(1, positive[:, None])
        negative, found_too = _one_of(candidate, draws)
        good = found & found_too
        return tuple(part[good].to(Y.device) for part in (anchor, positive, negative))  # type: ignore[return-value]


def _one_of(mask: Tensor, draws: torch.Generator) -> tuple[Tensor, Tensor]:
    """A random True place of every row, and whether the row has one."""
    value, place = (torch.rand(mask.shape, generator=draws) * mask).max(dim=1)
    return place, value > 0
