"""HashNet: hashing by continuation, a logistic loss on tanh(beta u) with beta growing."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from hashlearn.constraints import FLAG, POSITIVE, Options
from hashlearn.deep.extra import torch
from hashlearn.deep.hashers.base import DeepHasher
from hashlearn.deep.losses import Loss, logistic, off_diagonal, shared_labels, similar_share
from hashlearn.methodinfo import MethodInfo
from hashlearn.parameters import parameter
from hashlearn.typing import Matrix

FORMS = ("code", "paper")
PAIRS = ("all", "halves")
BETA_EVERY, BETA_RATE = 200, 0.005


class HashNet(DeepHasher):
    """Hashing by continuation: weighted logistic loss on tanh(beta u), with beta growing until tanh is nearly a sign.

    Examples
    --------
    >>> import hashlearn as hl
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> hasher = hl.deep.HashNet(n_bits=16, n_epochs=3, random_state=0).fit(X[:1000], y[:1000])
    >>> hasher.encode(X[1000:]).shape
    (797, 2)
    """

    info = MethodInfo(
        name="hashnet",
        title="HashNet",
        reference="Cao et al., HashNet: Deep Learning to Hash by Continuation (ICCV 2017)",
        year=2017,
        kind="deep, pairwise",
        supervision=("classes", "label sets"),
        cost="O(T n (F + b m)), T epochs, F a pass of the network, b rows per batch",
        verified=True,
    )
    authors: ClassVar[dict[str, Any]] = {
        "optimizer": "sgd",
        "learning_rate": 5e-5,
        "weight_decay": 5e-4,
        "batch_size": 72,
        "pairs": "halves",
        "schedule": [(0.2, 0.5), (0.4, 0.5), (0.6, 0.5), (0.8, 0.5)],
    }

    form: str = parameter(
        Options(*FORMS),
        "Weights of pairs: N / N_1 for similar ones and 1 for others (the authors' code), or N / N_1 and N / N_0 (the "
        "paper), counted in the training set.",
        default="code",
    )
    alpha: float | None = parameter(
        [None, POSITIVE], "Scale of inner products; None is 10 / n_bits, the authors' value.", default=None
    )
    class_num: float | None = parameter(
        [None, POSITIVE], "The weight of similar pairs, in place of the count.", default=None
    )
    overlap: bool = parameter(FLAG, "Weigh similar pairs of label sets by how much they share.", default=False)
    pairs: str = parameter(
        Options(*PAIRS), "All pairs of a batch, or its first half against the second, as the authors do.", default="all"
    )

    def _make_loss(self, labels: sparse.csr_matrix, rng: np.random.RandomState, rows: Matrix | None) -> Loss:
        return HashNetLoss(
            self.n_bits_,
            labels,
            form=self.form,
            alpha=self.alpha,
            class_num=self.class_num,
            overlap=self.overlap,
            pairs=self.pairs,
        )


class HashNetLoss(Loss):
    """sum w [softplus(theta) - s theta] / sum w, theta = alpha t_i . t_j, t = tanh(beta u).

    ``form`` sets the weights: "code" N / N_1 for similar pairs (``class_num`` in the authors' code) and 1 for others;
    "paper" N / N_1 and N / N_0, exact balance. Both count pairs of the training set, not of the batch.
    ``overlap`` weighs similar pairs of label sets by what they share: 4 r_ij^2 / (r_ii r_jj) in the code (there on the
    gradient alone), the Jaccard index in the paper.
    ``pairs``: "all" different rows of the batch, or "halves" (the authors' choice): the first half against the second.
    ``alpha``: None for 10 / m, the authors' value. beta = sqrt(1 + 0.005 k), renewed every 200 batches.
    """

    def __init__(
        self,
        n_bits: int,
        labels: sparse.csr_matrix,
        *,
        form: str = "code",
        alpha: float | None = None,
        class_num: float | None = None,
        overlap: bool = False,
        pairs: str = "all",
    ) -> None:
        if form not in FORMS:
            raise ValueError(f"form must be one of {', '.join(FORMS)}. Got {form!r} instead.")
        if pairs not in PAIRS:
            raise ValueError(f"pairs must be 'all' or 'halves'. Got {pairs!r} instead.")
        self.form, self.overlap, self.pairs = form, overlap, pairs
        self.alpha = 10.0 / n_bits if alpha is None else float(alpha)
        # A training set may have no similar pair at all, or no dissimilar one: then the other weight decides alone.
        share = similar_share(labels)
        self.similar_weight = float(class_num) if class_num is not None else 1.0 / share if share > 0 else 1.0
        self.other_weight = 1.0 if form == "code" or share >= 1 else 1.0 / (1.0 - share)

    @staticmethod
    def beta(step: int) -> float:
        return math.sqrt(1.0 + BETA_RATE * (step // BETA_EVERY * BETA_EVERY))

    def forward(self, u: torch.Tensor, Y: torch.Tensor, step: int, idx: torch.Tensor) -> torch.Tensor:
        t = torch.tanh(self.beta(step) * u)
        if self.pairs == "halves":
            half = len(u) // 2
            rows, others = slice(0, half), slice(half, None)
            known: torch.Tensor | float = 1.0
        else:
            rows = others = slice(None)
            known = off_diagonal(len(u), u)
        shared = shared_labels(Y[rows], Y[others])
        similar = (shared > 0).to(u.dtype)
        weight = known * (similar * self.similar_weight + (1.0 - similar) * self.other_weight)
        if self.overlap:
            weight = weight * torch.where(shared > 0, self._overlap(shared, Y[rows], Y[others]), 1.0)
        cost = logistic(self.alpha * (t[rows] @ t[others].T), similar)
        return (weight * cost).sum() / weight.sum()

    def _overlap(self, shared: torch.Tensor, Y: torch.Tensor, others: torch.Tensor) -> torch.Tensor:
        sizes, other_sizes = Y.sum(dim=1)[:, None], others.sum(dim=1)[None, :]
        if self.form == "paper":
            return shared / (sizes + other_sizes - shared).clamp(min=1.0)
        return 4.0 * shared**2 / (sizes * other_sizes).clamp(min=1.0)
