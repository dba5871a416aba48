"""HashNet: hashing by continuation."""

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


class HashNet(DeepHasher):
    """Hashing by continuation: weighted logistic loss on tanh(beta u), with beta growing until tanh is nearly a sign.

    Parameters
    ----------
    n_bits : int, default=64
    form : {"code", "paper"}, default="code"
        Weights of pairs: similar ones N / N_1 and others 1 (the authors' code), or N / N_1 and N / N_0 (the paper),
        counted in the training set.
    alpha : float or None, default=None
        Scale of inner products; None is 10 / n_bits, the authors'.
    class_num : float or None, default=None
        The weight of similar pairs, in place of the count.
    overlap : bool, default=False
        Weigh similar pairs of label sets by how much they share.
    pairs : {"all", "halves"}, default="all"
        All pairs of a batch, or its first half against the second, as the authors do.
    backbone, head, n_epochs, batch_size, learning_rate, checkpoint, ...
        The parameters of every deep method: see ``DeepHasher``.

    Examples
    --------
    >>> import hashlearn as hl
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> hasher = hl.deep.HashNet(n_bits=16, n_epochs=3, random_state=0).fit(X[:1000], y[:1000])
    >>> hasher.encode(X[1000:]).shape
    (797, 2)
    """

    title: ClassVar[str] = "HashNet"
    reference: ClassVar[str] = "Cao et al., HashNet: Deep Learning to Hash by Continuation (ICCV 2017)"
    year: ClassVar[int] = 2017
    kind: ClassVar[str] = "deep, pairwise"
    cost: ClassVar[str] = "O(T n (F + b m)), T epochs, F a pass of the network, b rows a batch"
    verified: ClassVar[bool] = True
    authors: ClassVar[dict[str, Any]] = {
        "optimizer": "sgd",
        "learning_rate": 5e-5,
        "weight_decay": 5e-4,
        "batch_size": 72,
        "pairs": "halves",
        "schedule": [(0.2, 0.5), (0.4, 0.5), (0.6, 0.5), (0.8, 0.5)],
    }

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **DeepHasher._parameter_constraints,
        "form": [StrOptions({"code", "paper"})],
        "alpha": [None, Interval(numbers.Real, 0, None, closed="neither")],
        "class_num": [None, Interval(numbers.Real, 0, None, closed="neither")],
        "overlap": ["boolean"],
        "pairs": [StrOptions({"all", "halves"})],
    }

    def __init__(
        self,
        n_bits: int = 64,
        *,
        form: str = "code",
        alpha: float | None = None,
        class_num: float | None = None,
        overlap: bool = False,
        pairs: str = "all",
        **options: Unpack[Options],
    ) -> None:
        super().__init__(n_bits, **options)
        self.form = form
        self.alpha = alpha
        self.class_num = class_num
        self.overlap = overlap
        self.pairs = pairs

    def _make_loss(self, labels: sparse.csr_matrix, rng: np.random.RandomState, rows: Matrix | None) -> Loss:
        from hashlearn.deep.losses import HashNetLoss

        return HashNetLoss(
            self.n_bits_,
            labels,
            form=self.form,
            alpha=self.alpha,
            class_num=self.class_num,
            overlap=self.overlap,
            pairs=self.pairs,
        )
