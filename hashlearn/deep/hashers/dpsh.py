"""DPSH: deep pairwise-supervised hashing."""

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


class DPSH(DeepHasher):
    """Deep pairwise-supervised hashing: logistic loss of a batch against the last outputs of all training rows.

    Keeps the outputs (n, n_bits) and dense label sets (n, c) of all training rows in memory.

    Parameters
    ----------
    n_bits : int, default=64
    quantization : float, default=50.0
        Weight of |u - sgn u|^2; both terms are divided by the number of pairs.
    backbone, head, n_epochs, batch_size, learning_rate, checkpoint, ...
        The parameters of every deep method: see ``DeepHasher``.

    Examples
    --------
    >>> import hashlearn as hl
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> hasher = hl.deep.DPSH(n_bits=16, n_epochs=3, random_state=0).fit(X[:1000], y[:1000])
    >>> hasher.encode(X[1000:]).shape
    (797, 2)
    """

    title: ClassVar[str] = "DPSH"
    reference: ClassVar[str] = (
        "Li, Wang and Kang, Feature Learning based Deep Supervised Hashing with Pairwise Labels (IJCAI 2016)"
    )
    year: ClassVar[int] = 2016
    kind: ClassVar[str] = "deep, pairwise"
    cost: ClassVar[str] = "O(T n (F + n m)), T epochs, F a pass of the network"
    verified: ClassVar[bool] = True
    authors: ClassVar[dict[str, Any]] = {
        "optimizer": "sgd",
        "learning_rate": 0.05,
        "weight_decay": 1e-5,
        "batch_size": 128,
        "n_epochs": 150,
        "schedule": [(1 / 3, 0.1), (2 / 3, 0.1)],
    }

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **DeepHasher._parameter_constraints,
        "quantization": [Interval(numbers.Real, 0, None, closed="left")],
    }

    def __init__(
        self,
        n_bits: int = 64,
        *,
        quantization: float = 50.0,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(n_bits, **options)
        self.quantization = quantization

    def _make_loss(self, labels: sparse.csr_matrix, rng: np.random.RandomState, rows: Matrix | None) -> Loss:
        from hashlearn.deep.losses import DPSHLoss

        return DPSHLoss(self.n_bits_, labels, quantization=self.quantization)
