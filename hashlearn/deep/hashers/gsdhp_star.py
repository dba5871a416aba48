"""GSDH_P*: a network learns the codes of GSDH_P. ``GSDHP(function="network")`` does the same with features only."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import clone

from hashlearn import codes
from hashlearn.constraints import Instance
from hashlearn.deep.codes_network import CodeLoss
from hashlearn.deep.hashers.base import DeepHasher
from hashlearn.deep.losses import Loss
from hashlearn.fitting.base import BaseHasher
from hashlearn.hashers.gsdhp import GSDHP
from hashlearn.methodinfo import MethodInfo
from hashlearn.parameters import parameter
from hashlearn.typing import Matrix


class GSDHPStar(DeepHasher):
    """GSDH_P with a network: codes are learned from labels first, then each bit is a two-class problem of the network.

    The authors released no code of the network's training; its loss and settings here are ours. ``codes_`` of labeled
    training rows are the codes learned first, ``encode`` gives those of the network.

    Examples
    --------
    >>> import hashlearn as hl
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> hasher = hl.deep.GSDHPStar(n_bits=16, n_epochs=3, random_state=0).fit(X[:1000], y[:1000])
    >>> hasher.encode(X[1000:]).shape
    (797, 2)
    """

    info = MethodInfo(
        name="gsdhp-star",
        title="GSDH_P*",
        reference="Shi et al., A Scalable Optimization Mechanism for Pairwise based Discrete Hashing",
        year=2020,
        kind="deep, two-step",
        supervision=("classes", "label sets"),
        cost="O(n (p m + m^2) + T n F), p anchors, T epochs, F a pass of the network",
        verified=False,
        database="learned",
    )
    # The authors do not give theirs: a usual training of AlexNet as a classifier.
    authors: ClassVar[dict[str, Any]] = {
        "optimizer": "sgd",
        "learning_rate": 1e-3,
        "weight_decay": 5e-4,
        "batch_size": 128,
        "n_epochs": 40,
        "schedule": [(2 / 3, 0.1)],
    }

    hasher: BaseHasher | None = parameter(
        [None, Instance(BaseHasher, words="a hasher")],
        "What learns the codes: any supervised hasher of hashlearn. It is cloned and gets n_bits and random_state of "
        "this one. It learns on the rows if they are features, and on random numbers if they are images. None is "
        "``GSDHP.paper(kernel=None)`` on random numbers, so that the labels alone decide.",
        default=None,
    )

    def _make_loss(self, labels: sparse.csr_matrix, rng: np.random.RandomState, rows: Matrix | None) -> Loss:
        hasher = GSDHP.paper(kernel=None) if self.hasher is None else clone(self.hasher)
        hasher.set_params(n_bits=self.n_bits_, random_state=int(rng.randint(2**31)))
        if self.hasher is None or rows is None:
            # As many columns as bits, so that starting directions have full rank.
            rows = rng.standard_normal((labels.shape[0], self.n_bits_)).astype(np.float32)
        return CodeLoss(codes.unpack(hasher.fit(rows, labels).codes_, self.n_bits_))

    def _keep_codes(self, loss: Any, training: NDArray[np.intp]) -> None:
        self.codes_[training] = codes.pack(loss.bits.cpu().numpy())
