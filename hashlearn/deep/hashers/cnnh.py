"""CNNH: codes from the similarity matrix, then a network that learns them."""

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


class CNNH(DeepHasher):
    """Two stages: codes H with H H' near n_bits S by coordinate descent, then a network that learns their bits.

    With classes, stage 1 ends near one codeword a class. Stage 2's loss is ours (the paper's is not confirmed).

    Parameters
    ----------
    n_bits : int, default=64
    classes : bool, default=False
        CNNH+: the network also learns the labels, as further outputs.
    n_sweeps : int, default=5
        Sweeps of stage 1 at most; it ends early when one gains less than 0.1 %.
    backbone, head, n_epochs, batch_size, learning_rate, checkpoint, ...
        The parameters of every deep method: see ``DeepHasher``.

    Attributes
    ----------
    objective_ : ndarray, |H H' - n_bits S|^2 before and after every sweep of stage 1; it falls.

    Examples
    --------
    >>> import hashlearn as hl
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> hasher = hl.deep.CNNH(n_bits=16, n_epochs=3, random_state=0).fit(X[:1000], y[:1000])
    >>> hasher.encode(X[1000:]).shape
    (797, 2)
    """

    title: ClassVar[str] = "CNNH"
    reference: ClassVar[str] = (
        "Xia et al., Supervised Hashing for Image Retrieval via Image Representation Learning (AAAI 2014)"
    )
    year: ClassVar[int] = 2014
    kind: ClassVar[str] = "deep, two-step"
    cost: ClassVar[str] = "O(S n m (m + G) + T n F), S sweeps, G label sets, T epochs, F a pass of the network"
    verified: ClassVar[bool] = False
    authors: ClassVar[dict[str, Any]] = {}

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **DeepHasher._parameter_constraints,
        "classes": ["boolean"],
        "n_sweeps": [Interval(numbers.Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        n_bits: int = 64,
        *,
        classes: bool = False,
        n_sweeps: int = 5,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(n_bits, **options)
        self.classes = classes
        self.n_sweeps = n_sweeps

    def _make_loss(self, labels: sparse.csr_matrix, rng: np.random.RandomState, rows: Matrix | None) -> Loss:
        from hashlearn.deep.losses import CNNHLoss, similarity_codes

        targets, objective = similarity_codes(labels, self.n_bits_, rng, self.n_sweeps)
        self.objective_ = np.asarray(objective)
        return CNNHLoss(targets, classes=self.classes)

    def _n_outputs(self, n_labels: int) -> int:
        return self.n_bits_ + (n_labels if self.classes else 0)
