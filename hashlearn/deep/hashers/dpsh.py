"""DPSH: deep pairwise-supervised hashing, a batch against the last outputs of all training rows."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from hashlearn.constraints import NON_NEGATIVE
from hashlearn.deep.extra import torch
from hashlearn.deep.hashers.base import DeepHasher
from hashlearn.deep.losses import Loss, logistic, similarity
from hashlearn.methodinfo import MethodInfo
from hashlearn.parameters import parameter
from hashlearn.typing import Matrix


class DPSH(DeepHasher):
    """Deep pairwise-supervised hashing: logistic loss of a batch against the last outputs of all training rows.

    It keeps the outputs (n, n_bits) and the dense label sets (n, c) of all training rows in memory.

    Examples
    --------
    >>> import hashlearn as hl
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> hasher = hl.deep.DPSH(n_bits=16, n_epochs=3, random_state=0).fit(X[:1000], y[:1000])
    >>> hasher.encode(X[1000:]).shape
    (797, 2)
    """

    info = MethodInfo(
        name="dpsh",
        title="DPSH",
        reference="Li, Wang and Kang, Feature Learning based Deep Supervised Hashing with Pairwise Labels (IJCAI 2016)",
        year=2016,
        kind="deep, pairwise",
        supervision=("classes", "label sets"),
        cost="O(T n (F + n m)), T epochs, F a pass of the network",
        verified=True,
    )
    authors: ClassVar[dict[str, Any]] = {
        "optimizer": "sgd",
        "learning_rate": 0.05,
        "weight_decay": 1e-5,
        "batch_size": 128,
        "n_epochs": 150,
        "schedule": [(1 / 3, 0.1), (2 / 3, 0.1)],
    }

    quantization: float = parameter(
        NON_NEGATIVE, "Weight of |u - sgn u|^2; both terms are divided by the number of pairs.", default=50.0
    )

    def _make_loss(self, labels: sparse.csr_matrix, rng: np.random.RandomState, rows: Matrix | None) -> Loss:
        return DPSHLoss(self.n_bits_, labels, quantization=self.quantization)


class DPSHLoss(Loss):
    """Sum over (batch, training set) of softplus(theta) - s theta, theta = u_i . u_j / 2, over b n, plus
    quantization * |u - sgn u|^2 / (b n).

    The outputs of rows that no batch has reached yet are zeros: they add a constant and no gradient, so the losses of
    the first epoch say little.
    """

    learned = ("outputs",)

    def __init__(self, n_bits: int, labels: sparse.csr_matrix, *, quantization: float = 50.0) -> None:
        self.quantization = quantization
        self.outputs = torch.zeros(labels.shape[0], n_bits)
        self.labels = torch.from_numpy(labels.toarray()).float()

    def forward(self, u: torch.Tensor, Y: torch.Tensor, step: int, idx: torch.Tensor) -> torch.Tensor:
        if self.training:
            self.outputs[idx] = u.detach().to(self.outputs.dtype)
        similar = similarity(Y, self.labels.to(Y.dtype))
        theta = 0.5 * (u @ self.outputs.to(u.dtype).T)
        signs = torch.where(u.detach() >= 0, 1.0, -1.0)
        return logistic(theta, similar).mean() + self.quantization * ((u - signs) ** 2).sum() / theta.numel()
