"""DCH: deep Cauchy hashing."""

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


class DCH(DeepHasher):
    """Deep Cauchy hashing: a pair is similar with probability gamma / (gamma + d), which punishes most what is near.

    Made for search within a small Hamming radius.

    Parameters
    ----------
    n_bits : int, default=64
    form : {"code", "paper"}, default="code"
        "code" is the authors' released loss (squared distances of tanh outputs), "paper" the printed one (cosine
        distance). They differ in more than details; the code scores higher.
    gamma : float, default=20.0
        Scale of the Cauchy distribution.
    quantization : float or None, default=None
        Weight of the quantisation loss; None is 0 for the code (as released) and 0.1 for the paper form.
    backbone, head, n_epochs, batch_size, learning_rate, checkpoint, ...
        The parameters of every deep method: see ``DeepHasher``.

    Examples
    --------
    >>> import hashlearn as hl
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> hasher = hl.deep.DCH(n_bits=16, n_epochs=3, random_state=0).fit(X[:1000], y[:1000])
    >>> hasher.encode(X[1000:]).shape
    (797, 2)
    """

    title: ClassVar[str] = "DCH"
    reference: ClassVar[str] = "Cao et al., Deep Cauchy Hashing for Hamming Space Retrieval (CVPR 2018)"
    year: ClassVar[int] = 2018
    kind: ClassVar[str] = "deep, pairwise"
    cost: ClassVar[str] = "O(T n (F + b m)), T epochs, F a pass of the network, b rows a batch"
    verified: ClassVar[bool] = True
    authors: ClassVar[dict[str, Any]] = {
        "optimizer": "sgd",
        "learning_rate": 5e-3,
        "weight_decay": 0.0,
        "batch_size": 128,
    }

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **DeepHasher._parameter_constraints,
        "form": [StrOptions({"code", "paper"})],
        "gamma": [Interval(numbers.Real, 0, None, closed="neither")],
        "quantization": [None, Interval(numbers.Real, 0, None, closed="left")],
    }

    def __init__(
        self,
        n_bits: int = 64,
        *,
        form: str = "code",
        gamma: float = 20.0,
        quantization: float | None = None,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(n_bits, **options)
        self.form = form
        self.gamma = gamma
        self.quantization = quantization

    def _make_loss(self, labels: sparse.csr_matrix, rng: np.random.RandomState, rows: Matrix | None) -> Loss:
        from hashlearn.deep.losses import DCHLoss

        return DCHLoss(self.n_bits_, form=self.form, gamma=self.gamma, quantization=self.quantization)
