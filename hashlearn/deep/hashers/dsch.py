"""DSCH: a classifier of relaxed bits, with penalties for bits that are undecided or unbalanced."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from hashlearn.constraints import NON_NEGATIVE
from hashlearn.deep.extra import torch
from hashlearn.deep.hashers.base import DeepHasher
from hashlearn.deep.losses import ClassifiedBitsLoss, Loss
from hashlearn.methodinfo import MethodInfo
from hashlearn.parameters import parameter
from hashlearn.typing import Matrix


class DSCH(DeepHasher):
    """Deep supervised convolutional hashing: softmax of the bits tanh(u), with penalties for quantization and balance.

    We know the method from notes (``verified`` is False); the authors' weights are not known, so both are parameters.

    Examples
    --------
    >>> import hashlearn as hl
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> hasher = hl.deep.DSCH(n_bits=16, n_epochs=3, random_state=0).fit(X[:1000], y[:1000])
    >>> hasher.encode(X[1000:]).shape
    (797, 2)
    """

    info = MethodInfo(
        name="dsch",
        title="DSCH",
        reference="Sapkota and Bhanu, Deep Supervised Convolutional Hashing (2018)",
        year=2018,
        kind="deep, classification",
        supervision=("classes", "label sets"),
        cost="O(T n (F + m c)), T epochs, F a pass of the network",
        verified=False,
    )

    quantization: float = parameter(NON_NEGATIVE, "Weight of the mean of (|b| - 1)^2.", default=0.1)
    balance: float = parameter(NON_NEGATIVE, "Weight of the mean square of a bit's mean over the batch.", default=0.1)

    def _make_loss(self, labels: sparse.csr_matrix, rng: np.random.RandomState, rows: Matrix | None) -> Loss:
        return DSCHLoss(self.n_bits_, labels.shape[1], rng, quantization=self.quantization, balance=self.balance)


class DSCHLoss(ClassifiedBitsLoss):
    """Softmax cross-entropy of a linear classifier of b = tanh(u), plus quantization and balance of b."""

    def __init__(
        self,
        n_bits: int,
        n_labels: int,
        rng: np.random.RandomState,
        *,
        quantization: float = 0.1,
        balance: float = 0.1,
    ) -> None:
        super().__init__(n_bits, n_labels, rng)
        self.quantization, self.balance = quantization, balance

    def forward(self, u: torch.Tensor, Y: torch.Tensor, step: int, idx: torch.Tensor) -> torch.Tensor:
        b = torch.tanh(u)
        undecided, unbalanced = ((b.abs() - 1.0) ** 2).mean(), (b.mean(dim=0) ** 2).mean()
        return self.classify(b, Y) + self.quantization * undecided + self.balance * unbalanced
