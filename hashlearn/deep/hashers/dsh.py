"""DSH: deep supervised hashing, a contrastive loss that holds outputs near +1 and -1."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from hashlearn.constraints import NON_NEGATIVE, POSITIVE
from hashlearn.deep.extra import torch
from hashlearn.deep.hashers.base import DeepHasher
from hashlearn.deep.losses import Loss, off_diagonal, similarity, squared_distances
from hashlearn.methodinfo import MethodInfo
from hashlearn.parameters import parameter
from hashlearn.typing import Matrix


class DSH(DeepHasher):
    """Deep supervised hashing: contrastive loss on squared distances, with outputs held near +1 and -1.

    Examples
    --------
    >>> import hashlearn as hl
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> hasher = hl.deep.DSH(n_bits=16, n_epochs=3, random_state=0).fit(X[:1000], y[:1000])
    >>> hasher.encode(X[1000:]).shape
    (797, 2)
    """

    info = MethodInfo(
        name="dsh",
        title="DSH",
        reference="Liu, Wang, Shan and Chen, Deep Supervised Hashing for Fast Image Retrieval (CVPR 2016)",
        year=2016,
        kind="deep, pairwise",
        supervision=("classes", "label sets"),
        cost="O(T n (F + b m)), T epochs, F a pass of the network, b rows per batch",
        verified=True,
    )
    authors: ClassVar[dict[str, Any]] = {"optimizer": "sgd", "learning_rate": 1e-3, "weight_decay": 0.004}

    margin: float | None = parameter(
        [None, POSITIVE],
        "Squared distance beyond which dissimilar pairs cost nothing; None is 2 n_bits, that is n_bits / 2 differing "
        "bits.",
        default=None,
    )
    quantization: float = parameter(NON_NEGATIVE, "Weight of the distance of outputs to +1 or -1.", default=0.01)

    def _make_loss(self, labels: sparse.csr_matrix, rng: np.random.RandomState, rows: Matrix | None) -> Loss:
        return DSHLoss(self.n_bits_, margin=self.margin, quantization=self.quantization)


class DSHLoss(Loss):
    """Mean over pairs of s d / 2 + (1 - s) max(0, margin - d) / 2, d = |u_i - u_j|^2, plus
    quantization * mean over rows of sum_k ||u_k| - 1|.

    ``margin``: None for 2 m, the authors' value; codes have d = 4 Hamming distances, so that is m / 2 bits.
    """

    def __init__(self, n_bits: int, *, margin: float | None = None, quantization: float = 0.01) -> None:
        self.margin = 2.0 * n_bits if margin is None else float(margin)
        self.quantization = quantization

    def forward(self, u: torch.Tensor, Y: torch.Tensor, step: int, idx: torch.Tensor) -> torch.Tensor:
        similar = similarity(Y)
        pairs = off_diagonal(len(u), u)
        distance = squared_distances(u)
        cost = 0.5 * similar * distance + 0.5 * (1.0 - similar) * (self.margin - distance).clamp(min=0.0)
        return (cost * pairs).sum() / pairs.sum() + self.quantization * (u.abs() - 1.0).abs().sum(dim=1).mean()
