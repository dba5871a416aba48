"""DCH: deep Cauchy hashing, whose loss depends most on the smallest distances."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from hashlearn.constraints import NON_NEGATIVE, POSITIVE, Options
from hashlearn.deep.extra import torch
from hashlearn.deep.hashers.base import DeepHasher
from hashlearn.deep.losses import Loss, off_diagonal, similarity, squared_distances, unit_rows
from hashlearn.methodinfo import MethodInfo
from hashlearn.parameters import parameter
from hashlearn.typing import Matrix

FORMS = ("code", "paper")
LEAST_DISTANCE = {"code": 1e-3, "paper": 1e-6}


class DCH(DeepHasher):
    """Deep Cauchy hashing: a pair is similar with probability gamma / (gamma + d), so small distances cost most.

    It was made for search within a small Hamming radius.

    Examples
    --------
    >>> import hashlearn as hl
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> hasher = hl.deep.DCH(n_bits=16, n_epochs=3, random_state=0).fit(X[:1000], y[:1000])
    >>> hasher.encode(X[1000:]).shape
    (797, 2)
    """

    info = MethodInfo(
        name="dch",
        title="DCH",
        reference="Cao et al., Deep Cauchy Hashing for Hamming Space Retrieval (CVPR 2018)",
        year=2018,
        kind="deep, pairwise",
        supervision=("classes", "label sets"),
        cost="O(T n (F + b m)), T epochs, F a pass of the network, b rows per batch",
        verified=True,
    )
    authors: ClassVar[dict[str, Any]] = {
        "optimizer": "sgd",
        "learning_rate": 5e-3,
        "weight_decay": 0.0,
        "batch_size": 128,
    }

    form: str = parameter(
        Options(*FORMS),
        "'code' is the authors' released loss (squared distances of tanh outputs), 'paper' the printed one (cosine "
        "distance). They differ in more than details; the code scores higher.",
        default="code",
    )
    gamma: float = parameter(POSITIVE, "Scale of the Cauchy distribution.", default=20.0)
    quantization: float | None = parameter(
        [None, NON_NEGATIVE],
        "Weight of the quantization loss; None is 0 for the code (as released) and 0.1 for the paper form.",
        default=None,
    )

    def _make_loss(self, labels: sparse.csr_matrix, rng: np.random.RandomState, rows: Matrix | None) -> Loss:
        return DCHLoss(self.n_bits_, form=self.form, gamma=self.gamma, quantization=self.quantization)


class DCHLoss(Loss):
    """Mean over pairs of w [log(1 + d / gamma) + (1 - s) log(gamma / d)], plus a quantization loss.

    ``form``: "paper" has d = (m/2)(1 - cos(u_i, u_j)), weights N / N_1 and N / N_0 and
    quantization * mean log(1 + d(|u|, 1) / gamma). "code" is the authors' released one: d = |t_i - t_j|^2 + 0.001 with
    t = tanh u, similar pairs weighted by N / N_1 and others by 1, quantization * mean((|t| - 1)^2).
    N, N_1, N_0 count pairs of the batch; the code also counts each row with itself.
    """

    def __init__(
        self, n_bits: int, *, form: str = "code", gamma: float = 20.0, quantization: float | None = None
    ) -> None:
        if form not in FORMS:
            raise ValueError(f"form must be one of {', '.join(FORMS)}. Got {form!r} instead.")
        self.n_bits, self.form, self.gamma = n_bits, form, float(gamma)
        self.quantization = (0.0 if form == "code" else 0.1) if quantization is None else quantization

    def forward(self, u: torch.Tensor, Y: torch.Tensor, step: int, idx: torch.Tensor) -> torch.Tensor:
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

    def _half_cosine(self, u: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """(m/2)(1 - cos), which is the Hamming distance of codes."""
        cosine = unit_rows(u) @ unit_rows(v).T
        return (self.n_bits / 2.0 * (1.0 - cosine)).clamp(min=LEAST_DISTANCE["paper"])
