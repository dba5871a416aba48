"""CSQ: central similarity quantisation."""

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


class CSQ(DeepHasher):
    """Central similarity quantisation: each class has a centre in Hamming space, each row the majority of its centres.

    Centres are rows of a Hadamard matrix where n_bits is a power of two and there are at most 2 n_bits labels, else
    random.

    Parameters
    ----------
    n_bits : int, default=64
    quantization : float, default=0.05
        Weight of the quantisation loss.
    backbone, head, n_epochs, batch_size, learning_rate, checkpoint, ...
        The parameters of every deep method: see ``DeepHasher``.

    Examples
    --------
    >>> import hashlearn as hl
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> hasher = hl.deep.CSQ(n_bits=16, n_epochs=3, random_state=0).fit(X[:1000], y[:1000])
    >>> hasher.encode(X[1000:]).shape
    (797, 2)
    """

    title: ClassVar[str] = "CSQ"
    reference: ClassVar[str] = (
        "Yuan et al., Central Similarity Quantization for Efficient Image and Video Retrieval (CVPR 2020)"
    )
    year: ClassVar[int] = 2020
    kind: ClassVar[str] = "deep, class codes"
    cost: ClassVar[str] = "O(T n F), T epochs, F a pass of the network"
    verified: ClassVar[bool] = True
    authors: ClassVar[dict[str, Any]] = {
        "head": "three-layer",
        "optimizer": "adam",
        "learning_rate": 1e-3,
        "trunk_rate": 0.01,
        "batch_size": 64,
        "n_epochs": 90,
        "schedule": [(k / 9, 0.7) for k in range(1, 9)],
    }

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **DeepHasher._parameter_constraints,
        "quantization": [Interval(numbers.Real, 0, None, closed="left")],
    }

    def __init__(
        self,
        n_bits: int = 64,
        *,
        quantization: float = 0.05,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(n_bits, **options)
        self.quantization = quantization

    def _make_loss(self, labels: sparse.csr_matrix, rng: np.random.RandomState, rows: Matrix | None) -> Loss:
        from hashlearn.deep.losses import CSQLoss

        return CSQLoss(self.n_bits_, labels, rng, quantization=self.quantization)
