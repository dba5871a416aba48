"""DCH: pairwise loss with a Cauchy distribution of distances, which cares most about the smallest ones."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

from hashlearn.deep.losses.pairs import Loss, off_diagonal, similarity, squared_distances

FORMS = ("code", "paper")
LEAST_DISTANCE = {"code": 1e-3, "paper": 1e-6}


class DCHLoss(Loss):
    """mean over pairs of w [log(1 + d / gamma) + (1 - s) log(gamma / d)], plus a quantisation loss.

    ``form``: "paper" has d = (m/2)(1 - cos(u_i, u_j)), weights N / N_1 and N / N_0 and
    quantization * mean log(1 + d(|u|, 1) / gamma). "code" is the authors' released one: d = |t_i - t_j|^2 + 0.001 with
    t = tanh u, similar pairs weighted by N / N_1 and others by 1, quantization * mean((|t| - 1)^2).
    N, N_1, N_0 count pairs of the batch; the code counts each row with itself too.
    """

    def __init__(
        self, n_bits: int, *, form: str = "code", gamma: float = 20.0, quantization: float | None = None
    ) -> None:
        super().__init__()
        if form not in FORMS:
            raise ValueError(f"form must be one of {', '.join(FORMS)}. Got {form!r} instead.")
        self.n_bits, self.form, self.gamma = n_bits, form, float(gamma)
        self.quantization = (0.0 if form == "code" else 0.1) if quantization is None else quantization

    def forward(self, u: Tensor, Y: Tensor, step: int, idx: Tensor) -> Tensor:
        similar = similarity(Y)
        pairs = off_diagonal(len(u), u)
        if self.form == "code":
            t = torch.tanh(u)
            distance = squared_distances(t) + LEAST_DISTANCE["code"]
            weight = 1.0 + similar * (similar.numel() / similar.sum().clamp(min=1.0) - 1.0)
            quantization = ((t.abs() - 1.0) ** 2).mean()
        else:
            distance = self._half_cosine(u, u)
            total, n_similar = pairs.sum(), (similar * pairs).sum()
            weight = similar * (total / n_similar.clamp(min=1.0))
            weight = weight + (1.0 - similar) * (total / (total - n_similar).clamp(min=1.0))
            to_corner = self._half_cosine(u.abs(), torch.ones_like(u[:1]))
            quantization = torch.log1p(to_corner / self.gamma).mean()
        cost = torch.log1p(distance / self.gamma) + (1.0 - similar) * (math.log(self.gamma) - distance.log())
        return (cost * weight * pairs).sum() / pairs.sum() + self.quantization * quantization

    def _half_cosine(self, u: Tensor, v: Tensor) -> Tensor:
        """(m/2)(1 - cos): the Hamming distance where both are codes."""
        cosine = functional.normalize(u, dim=1, eps=1e-6) @ functional.normalize(v, dim=1, eps=1e-6).T
        return (self.n_bits / 2.0 * (1.0 - cosine)).clamp(min=LEAST_DISTANCE["paper"])
