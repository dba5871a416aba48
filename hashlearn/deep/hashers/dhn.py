"""DHN: deep hashing network."""

from __future__ import annotations

import numbers
from typing import TYPE_CHECKING, Any, ClassVar, Unpack

import numpy as np
from scipy import sparse
from sklearn.utils._param_validation import Interval, StrOptions

from hashlearn.deep.hashers.base import DeepHasher
from hashlearn.deep.hashers.options import Options
from hashlearn.typing import Matrix

if TYPE_CHECKING:
    from hashlearn.deep.losses import Loss


class DHN(DeepHasher):
    """Deep hashing network: pairwise logistic loss on inner products of tanh outputs, and a quantisation loss.

    Parameters
    ----------
    n_bits : int, default=64
    form : {"paper", "code", "tensorflow"}, default="paper"
        The printed loss; the authors' Caffe code, whose quantisation weighs n_bits times more; their later port,
        with cosines.
    alpha : float or None, default=None
        Scale of inner products; None is 10 / n_bits, the paper has 1, which saturates from about 32 bits on.
    quantization : float or None, default=None
        Weight of the quantisation loss; None is 0.2, and 0 for the port.
    backbone, head, n_epochs, batch_size, learning_rate, checkpoint, ...
        The parameters of every deep method: see ``DeepHasher``.

    Examples
    --------
    >>> import hashlearn as hl
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> hasher = hl.deep.DHN(n_bits=16, n_epochs=3, random_state=0).fit(X[:1000], y[:1000])
    >>> hasher.encode(X[1000:]).shape
    (797, 2)
    """

    title: ClassVar[str] = "DHN"
    reference: ClassVar[str] = "Zhu et al., Deep Hashing Network for Efficient Similarity Retrieval (AAAI 2016)"
    year: ClassVar[int] = 2016
    kind: ClassVar[str] = "deep, pairwise"
    cost: ClassVar[str] = "O(T n (F + b m)), T epochs, F a pass of the network, b rows a batch"
    verified: ClassVar[bool] = True
    authors: ClassVar[dict[str, Any]] = {
        "optimizer": "sgd",
        "learning_rate": 2e-5,
        "weight_decay": 5e-4,
        "batch_size": 64,
    }

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **DeepHasher._parameter_constraints,
        "form": [StrOptions({"paper", "code", "tensorflow"})],
        "alpha": [None, Interval(numbers.Real, 0, None, closed="neither")],
        "quantization": [None, Interval(numbers.Real, 0, None, closed="left")],
    }

    def __init__(
        self,
        n_bits: int = 64,
        *,
        form: str = "paper",
        alpha: float | None = None,
        quantization: float | None = None,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(n_bits, **options)
        self.form = form
        self.alpha = alpha
        self.quantization = quantization

    def _make_loss(self, labels: sparse.csr_matrix, rng: np.random.RandomState, rows: Matrix | None) -> Loss:
        from hashlearn.deep.losses import DHNLoss

        return DHNLoss(self.n_bits_, form=self.form, alpha=self.alpha, quantization=self.quantization)
