"""DHN: deep hashing network, pairwise logistic loss on tanh outputs."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from hashlearn.constraints import NON_NEGATIVE, POSITIVE, Options
from hashlearn.deep.extra import torch
from hashlearn.deep.hashers.base import DeepHasher
from hashlearn.deep.losses import Loss, logcosh, logistic, off_diagonal, similarity, unit_rows
from hashlearn.methodinfo import MethodInfo
from hashlearn.parameters import parameter
from hashlearn.typing import Matrix

FORMS = ("paper", "code", "tensorflow")
COSINE_SCALE = 10.0


class DHN(DeepHasher):
    """Deep hashing network: pairwise logistic loss on inner products of tanh outputs, and a quantization loss.

    Examples
    --------
    >>> import hashlearn as hl
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> hasher = hl.deep.DHN(n_bits=16, n_epochs=3, random_state=0).fit(X[:1000], y[:1000])
    >>> hasher.encode(X[1000:]).shape
    (797, 2)
    """

    info = MethodInfo(
        name="dhn",
        title="DHN",
        reference="Zhu et al., Deep Hashing Network for Efficient Similarity Retrieval (AAAI 2016)",
        year=2016,
        kind="deep, pairwise",
        supervision=("classes", "label sets"),
        cost="O(T n (F + b m)), T epochs, F a pass of the network, b rows per batch",
        verified=True,
    )
    authors: ClassVar[dict[str, Any]] = {
        "optimizer": "sgd",
        "learning_rate": 2e-5,
        "weight_decay": 5e-4,
        "batch_size": 64,
    }

    form: str = parameter(
        Options(*FORMS),
        "The printed loss; the authors' Caffe code, whose quantization weighs n_bits times more; or their later port, "
        "with cosines.",
        default="paper",
    )
    alpha: float | None = parameter(
        [None, POSITIVE],
        "Scale of inner products; None is 10 / n_bits. The paper has 1, which saturates from about 32 bits on.",
        default=None,
    )
    quantization: float | None = parameter(
        [None, NON_NEGATIVE], "Weight of the quantization loss; None is 0.2, and 0 for the port.", default=None
    )

    def _make_loss(self, labels: sparse.csr_matrix, rng: np.random.RandomState, rows: Matrix | None) -> Loss:
        return DHNLoss(self.n_bits_, form=self.form, alpha=self.alpha, quantization=self.quantization)


class DHNLoss(Loss):
    """Mean over pairs of softplus(theta) - s theta, theta = alpha t_i . t_j, t = tanh u, plus a quantization loss.

    ``form``: "paper" adds quantization * mean(logcosh(|t| - 1)). "code" is the authors' Caffe code, whose gradient of
    that term is divided by b and not by b m, so that its weight is m times larger; "tensorflow" is their later port:
    cosine times 10, similar pairs weighted by N / N_1, quantization * mean((|t| - 1)^2).

    ``alpha``: a number (the paper: 1) or None for 10 / m. Inner products grow with m, so that alpha = 1 saturates from
    about 32 bits on.
    """

    def __init__(
        self, n_bits: int, *, form: str = "paper", alpha: float | None = None, quantization: float | None = None
    ) -> None:
        if form not in FORMS:
            raise ValueError(f"form must be one of {', '.join(FORMS)}. Got {form!r} instead.")
        self.form = form
        self.alpha = 10.0 / n_bits if alpha is None else float(alpha)
        if quantization is None:
            quantization = 0.0 if form == "tensorflow" else 0.2
        self.quantization = quantization * n_bits if form == "code" else quantization

    def forward(self, u: torch.Tensor, Y: torch.Tensor, step: int, idx: torch.Tensor) -> torch.Tensor:
        t = torch.tanh(u)
        similar = similarity(Y)
        pairs = off_diagonal(len(u), u)
        if self.form == "tensorflow":
            unit = unit_rows(t)
            cost = logistic(COSINE_SCALE * (unit @ unit.T), similar)
            n_similar = (similar * pairs).sum().clamp(min=1.0)
            weight = 1.0 + similar * (pairs.sum() / n_similar - 1.0)
            quantization = ((t.abs() - 1.0) ** 2).mean()
        else:
            cost = logistic(self.alpha * (t @ t.T), similar)
            weight = torch.ones_like(similar)
            quantization = logcosh(t.abs() - 1.0).mean()
        return (cost * weight * pairs).sum() / pairs.sum() + self.quantization * quantization
