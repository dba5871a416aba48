"""GSDH_P*: GSDH_P's codes, learned by a network."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Unpack

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import clone

from hashlearn import codes
from hashlearn.deep.hashers.base import DeepHasher
from hashlearn.deep.hashers.options import Options
from hashlearn.fitting.base import BaseHasher
from hashlearn.hashers.gsdhp import GSDHP
from hashlearn.typing import Matrix

if TYPE_CHECKING:
    from hashlearn.deep.losses import Loss


class GSDHPStar(DeepHasher):
    """GSDH_P with a network: codes are learned from labels first, then each bit is a two-class problem of the network.

    The authors released no code of the network's training; its loss and settings here are ours.

    Parameters
    ----------
    n_bits : int, default=64
    hasher : hasher or None, default=None
        What learns the codes: any supervised hasher of hashlearn, cloned, with n_bits and random_state set. It sees
        the rows where they are features, and random numbers where they are images. None is ``GSDHP(kernel=None)``
        on random numbers: labels alone decide.
    backbone, head, n_epochs, batch_size, learning_rate, checkpoint, ...
        The parameters of every deep method: see ``DeepHasher``.

    Attributes
    ----------
    codes_ : the learned codes of the labelled training rows; encode gives the network's own.

    Examples
    --------
    >>> import hashlearn as hl
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> hasher = hl.deep.GSDHPStar(n_bits=16, n_epochs=3, random_state=0).fit(X[:1000], y[:1000])
    >>> hasher.encode(X[1000:]).shape
    (797, 2)
    """

    title: ClassVar[str] = "GSDH_P*"
    reference: ClassVar[str] = "Shi et al., A Scalable Optimization Mechanism for Pairwise based Discrete Hashing"
    year: ClassVar[int] = 2020
    kind: ClassVar[str] = "deep, two-step"
    cost: ClassVar[str] = "O(n (p m + m^2) + T n F), p anchors, T epochs, F a pass of the network"
    verified: ClassVar[bool] = False
    # Not the authors', who do not say: a usual training of AlexNet as a classifier.
    authors: ClassVar[dict[str, Any]] = {
        "optimizer": "sgd",
        "learning_rate": 1e-3,
        "weight_decay": 5e-4,
        "batch_size": 128,
        "n_epochs": 40,
        "schedule": [(2 / 3, 0.1)],
    }

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **DeepHasher._parameter_constraints,
        "hasher": [None, BaseHasher],
    }

    def __init__(
        self,
        n_bits: int = 64,
        *,
        hasher: Any = None,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(n_bits, **options)
        self.hasher = hasher

    def _make_loss(self, labels: sparse.csr_matrix, rng: np.random.RandomState, rows: Matrix | None) -> Loss:
        from hashlearn.deep.losses import GSDHPStarLoss

        hasher = GSDHP(kernel=None) if self.hasher is None else clone(self.hasher)
        hasher.set_params(n_bits=self.n_bits_, random_state=int(rng.randint(2**31)))
        if self.hasher is None or rows is None:
            # As many columns as bits, so that starting directions have full rank.
            rows = rng.standard_normal((labels.shape[0], self.n_bits_)).astype(np.float32)
        return GSDHPStarLoss(codes.unpack(hasher.fit(rows, labels).codes_, self.n_bits_))

    def _keep_codes(self, loss: Any, training: NDArray[np.intp]) -> None:
        self.codes_[training] = codes.pack(loss.bits.cpu().numpy())
