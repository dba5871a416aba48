"""DSH: deep supervised hashing."""

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


class DSH(DeepHasher):
    """Deep supervised hashing: contrastive loss on squared distances, outputs held near +1 and -1.

    Parameters
    ----------
    n_bits : int, default=64
    margin : float or None, default=None
        Squared distance beyond which dissimilar pairs cost nothing; None is 2 n_bits, that is n_bits / 2 differing
        bits.
    quantization : float, default=0.01
        Weight of the distance of outputs to +1 or -1.
    backbone, head, n_epochs, batch_size, learning_rate, checkpoint, ...
        The parameters of every deep method: see ``DeepHasher``.

    Examples
    --------
    >>> import hashlearn as hl
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> hasher = hl.deep.DSH(n_bits=16, n_epochs=3, random_state=0).fit(X[:1000], y[:1000])
    >>> hasher.encode(X[1000:]).shape
    (797, 2)
    """

    title: ClassVar[str] = "DSH"
    reference: ClassVar[str] = "Liu, Wang, Shan and Chen, Deep Supervised Hashing for Fast Image Retrieval (CVPR 2016)"
    year: ClassVar[int] = 2016
    kind: ClassVar[str] = "deep, pairwise"
    cost: ClassVar[str] = "O(T n (F + b m)), T epochs, F a pass of the network, b rows a batch"
    verified: ClassVar[bool] = True
    authors: ClassVar[dict[str, Any]] = {"optimizer": "sgd", "learning_rate": 1e-3, "weight_decay": 0.004}

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **DeepHasher._parameter_constraints,
        "margin": [None, Interval(numbers.Real, 0, None, closed="neither")],
        "quantization": [Interval(numbers.Real, 0, None, closed="left")],
    }

    def __init__(
        self,
        n_bits: int = 64,
        *,
        margin: float | None = None,
        quantization: float = 0.01,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(n_bits, **options)
        self.margin = margin
        self.quantization = quantization

    def _make_loss(self, labels: sparse.csr_matrix, rng: np.random.RandomState, rows: Matrix | None) -> Loss:
        from hashlearn.deep.losses import DSHLoss

        return DSHLoss(self.n_bits_, margin=self.margin, quantization=self.quantization)
