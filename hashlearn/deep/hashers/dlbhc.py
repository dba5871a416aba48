"""DLBHC: a layer of sigmoids between the features and a classifier."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from hashlearn.deep.extra import torch
from hashlearn.deep.hashers.base import DeepHasher
from hashlearn.deep.losses import ClassifiedBitsLoss, Loss
from hashlearn.methodinfo import MethodInfo
from hashlearn.typing import Matrix


class DLBHC(DeepHasher):
    """Deep learning of binary hash codes: a classifier reads the labels from sigmoid outputs, whose bits are at 0.5.

    Nothing but the classifier says what bits should be. With label sets the targets of the softmax are shared equally
    by a row's labels. We know the method from notes (``verified`` is False); the paper also rescores by the features of
    the network, which is not a matter of codes.

    Examples
    --------
    >>> import hashlearn as hl
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> hasher = hl.deep.DLBHC(n_bits=16, n_epochs=3, random_state=0).fit(X[:1000], y[:1000])
    >>> hasher.encode(X[1000:]).shape
    (797, 2)
    """

    info = MethodInfo(
        name="dlbhc",
        title="DLBHC",
        reference="Lin, Yang, Hsiao and Chen, Deep Learning of Binary Hash Codes for Fast Image Retrieval (CVPRW 2015)",
        year=2015,
        kind="deep, classification",
        supervision=("classes", "label sets"),
        cost="O(T n (F + m c)), T epochs, F a pass of the network",
        verified=False,
    )

    def _make_loss(self, labels: sparse.csr_matrix, rng: np.random.RandomState, rows: Matrix | None) -> Loss:
        return DLBHCLoss(self.n_bits_, labels.shape[1], rng)


class DLBHCLoss(ClassifiedBitsLoss):
    """Softmax cross-entropy of a linear classifier of sigmoid(u)."""

    def forward(self, u: torch.Tensor, Y: torch.Tensor, step: int, idx: torch.Tensor) -> torch.Tensor:
        return self.classify(torch.sigmoid(u), Y)
