"""DPSH: pairwise logistic loss of a batch against the last outputs of all training rows."""

from __future__ import annotations

import torch
from scipy import sparse
from torch import Tensor

from hashlearn.deep.losses.pairs import Loss, logistic, similarity


class DPSHLoss(Loss):
    """sum over (batch, training set) of softplus(theta) - s theta, theta = u_i . u_j / 2, over b n, plus
    quantization * |u - sgn u|^2 / (b n).

    Rows that no batch has reached yet stand in the buffer as zeros: they add a constant and no gradient, so the
    first epoch's figures say little.
    """

    outputs: Tensor
    labels: Tensor

    def __init__(self, n_bits: int, labels: sparse.csr_matrix, *, quantization: float = 50.0) -> None:
        super().__init__()
        self.quantization = quantization
        self.register_buffer("outputs", torch.zeros(labels.shape[0], n_bits))
        # Known from the start and never changed, so no part of a checkpoint.
        self.register_buffer("labels", torch.from_numpy(labels.toarray()).float(), persistent=False)

    def forward(self, u: Tensor, Y: Tensor, step: int, idx: Tensor) -> Tensor:
        if self.training:
            self.outputs[idx] = u.detach().to(self.outputs.dtype)
        similar = similarity(Y, self.labels.to(Y.dtype))
        theta = 0.5 * (u @ self.outputs.to(u.dtype).T)
        signs = torch.where(u.detach() >= 0, 1.0, -1.0)
        return logistic(theta, similar).mean() + self.quantization * ((u - signs) ** 2).sum() / theta.numel()
