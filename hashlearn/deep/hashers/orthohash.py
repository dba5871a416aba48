"""OrthoHash: one loss, cosine to random centres."""

from __future__ import annotations

import numbers
from typing import TYPE_CHECKING, Any, ClassVar, Unpack

import numpy as np
from scipy import sparse
from sklearn.utils._param_validation import Interval

from hashlearn.deep.hashers.base import DeepHasher
from hashlearn.deep.hashers.options import Options
from hashlearn.typing import Matrix

if TYPE_CHECKING:
    from hashlearn.deep.losses import Loss


class OrthoHash(DeepHasher):
    """Cosine softmax towards random binary centres, with a margin; batch normalisation balances the bits.

    Parameters
    ----------
    n_bits : int, default=64
    scale : float, default=8.0
        Scale of the cosines in the softmax.
    margin : float, default=0.2
        What is taken off the cosine of a row's own labels.
    backbone, head, n_epochs, batch_size, learning_rate, checkpoint, ...
        The parameters of every deep method: see ``DeepHasher``.

    Examples
    --------
    >>> import hashlearn as hl
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> hasher = hl.deep.OrthoHash(n_bits=16, n_epochs=3, random_state=0).fit(X[:1000], y[:1000])
    >>> hasher.encode(X[1000:]).shape
    (797, 2)
    """

    title: ClassVar[str] = "OrthoHash"
    reference: ClassVar[str] = (
        "Hoe et al., One Loss for All: Deep Hashing with a Single Cosine Similarity (NeurIPS 2021)"
    )
    year: ClassVar[int] = 2021
    kind: ClassVar[str] = "deep, class codes"
    cost: ClassVar[str] = "O(T n F), T epochs, F a pass of the network"
    verified: ClassVar[bool] = True
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

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **DeepHasher._parameter_constraints,
        "scale": [Interval(numbers.Real, 0, None, closed="neither")],
        "margin": [Interval(numbers.Real, 0, None, closed="left")],
    }

    def __init__(
        self,
        n_bits: int = 64,
        *,
        scale: float = 8.0,
        margin: float = 0.2,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(n_bits, **options)
        self.scale = scale
        self.margin = margin

    def _make_loss(self, labels: sparse.csr_matrix, rng: np.random.RandomState, rows: Matrix | None) -> Loss:
        from hashlearn.deep.losses import OrthoHashLoss

        return OrthoHashLoss(self.n_bits_, labels.shape[1], rng, scale=self.scale, margin=self.margin)
