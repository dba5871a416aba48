"""OrthoHash: one loss, the cosine to fixed random centers."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from hashlearn.constraints import NON_NEGATIVE, POSITIVE
from hashlearn.deep.extra import torch
from hashlearn.deep.hashers.base import DeepHasher
from hashlearn.deep.losses import Loss, label_shares, unit_rows
from hashlearn.methodinfo import MethodInfo
from hashlearn.parameters import parameter
from hashlearn.typing import Matrix


class OrthoHash(DeepHasher):
    """Cosine softmax towards random binary centers, with a margin; batch normalization balances the bits.

    Examples
    --------
    >>> import hashlearn as hl
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> hasher = hl.deep.OrthoHash(n_bits=16, n_epochs=3, random_state=0).fit(X[:1000], y[:1000])
    >>> hasher.encode(X[1000:]).shape
    (797, 2)
    """

    info = MethodInfo(
        name="orthohash",
        title="OrthoHash",
        reference="Hoe et al., One Loss for All: Deep Hashing with a Single Cosine Similarity (NeurIPS 2021)",
        year=2021,
        kind="deep, class codes",
        supervision=("classes", "label sets"),
        cost="O(T n F), T epochs, F a pass of the network",
        verified=True,
    )
    head_of_method: ClassVar[str] = "batchnorm"
    authors: ClassVar[dict[str, Any]] = {
        "optimizer": "adam",
        "learning_rate": 1e-4,
        "trunk_rate": 0.1,
        "weight_decay": 5e-4,
        "batch_size": 256,
        "n_epochs": 100,
        "schedule": [(0.8, 0.1)],
    }

    scale: float = parameter(POSITIVE, "Scale of the cosines in the softmax.", default=8.0)
    margin: float = parameter(NON_NEGATIVE, "What is subtracted from the cosines of a row's own labels.", default=0.2)

    def _make_loss(self, labels: sparse.csr_matrix, rng: np.random.RandomState, rows: Matrix | None) -> Loss:
        return OrthoHashLoss(self.n_bits_, labels.shape[1], rng, scale=self.scale, margin=self.margin)


class OrthoHashLoss(Loss):
    """Softmax cross-entropy of scale (cos(v, C) - margin Y) and Y / |Y|; C are random +1 / -1 centers, one per label.

    ``v`` is the output after batch normalization (the "batchnorm" head), which balances the bits; its sign is the code.
    """

    def __init__(
        self, n_bits: int, n_labels: int, rng: np.random.RandomState, *, scale: float = 8.0, margin: float = 0.2
    ) -> None:
        self.scale, self.margin = scale, margin
        centers = np.where(rng.random_sample((n_labels, n_bits)) < 0.5, 1.0, -1.0)
        # Scaled to length 1, so that a cosine is one product.
        self.centers = torch.from_numpy(centers / np.sqrt(n_bits)).float()

    def forward(self, u: torch.Tensor, Y: torch.Tensor, step: int, idx: torch.Tensor) -> torch.Tensor:
        cosine = unit_rows(u) @ self.centers.to(u.dtype).T
        return torch.nn.functional.cross_entropy(self.scale * (cosine - self.margin * Y), label_shares(Y))
