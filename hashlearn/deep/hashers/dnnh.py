"""DNNH: simultaneous feature learning and hash coding."""

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


class DNNH(DeepHasher):
    """Triplet ranking loss on sigmoid outputs, each bit from channels of its own (divide and encode).

    Restated from a re-implementation; the published figures are not claimed.

    Parameters
    ----------
    n_bits : int, default=64
    margin : float or None, default=None
        In bits; None is n_bits / 4. The paper has 1, a released network of 12 bits 2.
    per_anchor : int, default=10
        Triplets drawn for each row of a batch.
    band : float or None, default=None
        Outputs farther than this from 0.5 count as 0 or 1, the paper's piecewise threshold; None leaves it out.
    backbone, head, n_epochs, batch_size, learning_rate, checkpoint, ...
        The parameters of every deep method: see ``DeepHasher``.

    Examples
    --------
    >>> import hashlearn as hl
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> hasher = hl.deep.DNNH(n_bits=16, n_epochs=3, random_state=0).fit(X[:1000], y[:1000])
    >>> hasher.encode(X[1000:]).shape
    (797, 2)
    """

    title: ClassVar[str] = "DNNH"
    reference: ClassVar[str] = (
        "Lai et al., Simultaneous Feature Learning and Hash Coding with Deep Neural Networks (CVPR 2015)"
    )
    year: ClassVar[int] = 2015
    kind: ClassVar[str] = "deep, triplets"
    cost: ClassVar[str] = "O(T n (F + t (b + m))), T epochs, F a pass of the network, t triplets a row"
    verified: ClassVar[bool] = False
    head_of_method: ClassVar[str] = "divide"
    authors: ClassVar[dict[str, Any]] = {
        "optimizer": "sgd",
        "learning_rate": 1e-3,
        "weight_decay": 5e-4,
        "batch_size": 100,
        "schedule": [(0.6, 0.1), (0.7, 0.1)],
    }

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **DeepHasher._parameter_constraints,
        "margin": [None, Interval(numbers.Real, 0, None, closed="neither")],
        "per_anchor": [Interval(numbers.Integral, 1, None, closed="left")],
        "band": [None, Interval(numbers.Real, 0, 0.5, closed="both")],
    }

    def __init__(
        self,
        n_bits: int = 64,
        *,
        margin: float | None = None,
        per_anchor: int = 10,
        band: float | None = None,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(n_bits, **options)
        self.margin = margin
        self.per_anchor = per_anchor
        self.band = band

    def _make_loss(self, labels: sparse.csr_matrix, rng: np.random.RandomState, rows: Matrix | None) -> Loss:
        from hashlearn.deep.losses import DNNHLoss

        return DNNHLoss(
            self.n_bits_,
            margin=self.margin,
            per_anchor=self.per_anchor,
            band=self.band,
            seed=int(rng.randint(2**31)),
        )
