"""DHN: pairwise logistic loss on tanh outputs and a quantisation loss."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from hashlearn.deep.losses.pairs import Loss, logcosh, logistic, off_diagonal, similarity

FORMS = ("paper", "code", "tensorflow")
COSINE_SCALE = 10.0


class DHNLoss(Loss):
    """mean over pairs of softplus(theta) - s theta, theta = alpha t_i . t_j, t = tanh u, plus a quantisation loss.

    ``form``: "paper" adds quantization * mean(logcosh(|t| - 1)). "code" is the authors' Caffe code, whose gradient of
    that term is divided by b and not by b m, so its weight is m times larger; "tensorflow" their later port: cosine
    times 10, similar pairs weighted by N / N_1, quantization * mean((|t| - 1)^2).

    ``alpha``: a number (the paper: 1) or None for 10 / m. Inner products grow with m, and from about 32 bits on
    alpha = 1 saturates.
    """

    def __init__(
        self, n_bits: int, *, form: str = "paper", alpha: float | None = None, quantization: float | None = None
    ) -> None:
        super().__init__()
        if form not in FORMS:
            raise ValueError(f"form must be one of {', '.join(FORMS)}. Got {form!r} instead.")
        self.form = form
        self.alpha = 10.0 / n_bits if alpha is None else float(alpha)
        if quantization is None:
            quantization = 0.0 if form == "tensorflow" else 0.2
        self.quantization = quantization * n_bits if form == "code" else quantization

    def forward(self, u: Tensor, Y: Tensor, step: int, idx: Tensor) -> Tensor:
        t = torch.tanh(u)
        similar = similarity(Y)
        pairs = off_diagonal(len(u), u)
        if self.form == "tensorflow":
            unit = functional.normalize(t, dim=1, eps=1e-6)
            cost = logistic(COSINE_SCALE * (unit @ unit.T), similar)
            n_similar = (similar * pairs).sum().clamp(min=1.0)
            weight = 1.0 + similar * (pairs.sum() / n_similar - 1.0)
            quantization = ((t.abs() - 1.0) ** 2).mean()
        else:
            cost = logistic(self.alpha * (t @ t.T), similar)
            weight = torch.ones_like(similar)
            quantization = logcosh(t.abs() - 1.0).mean()
        return (cost * weight * pairs).sum() / pairs.sum() + self.quantization * quantization
