"""DSH: contrastive loss on squared distances, with outputs held near +1 and -1."""

from __future__ import annotations

from torch import Tensor

from hashlearn.deep.losses.pairs import Loss, off_diagonal, similarity, squared_distances


class DSHLoss(Loss):
    """mean over pairs of s d / 2 + (1 - s) max(0, margin - d) / 2, d = |u_i - u_j|^2, plus
    quantization * mean over rows of sum_k ||u_k| - 1|.

    ``margin``: None for 2 m, the authors': codes have d = 4 Hamming distances, so that is m / 2 bits.
    """

    def __init__(self, n_bits: int, *, margin: float | None = None, quantization: float = 0.01) -> None:
        super().__init__()
        self.margin = 2.0 * n_bits if margin is None else float(margin)
        self.quantization = quantization

    def forward(self, u: Tensor, Y: Tensor, step: int, idx: Tensor) -> Tensor:
        similar = similarity(Y)
        pairs = off_diagonal(len(u), u)
        distance = squared_distances(u)
        cost = 0.5 * similar * distance + 0.5 * (1.0 - similar) * (self.margin - distance).clamp(min=0.0)
        return (cost * pairs).sum() / pairs.sum() + self.quantization * (u.abs() - 1.0).abs().sum(dim=1).mean()
