"""HashNet: weighted pairwise logistic loss on tanh(beta u), with beta growing until tanh is nearly a sign."""

from __future__ import annotations

import math

import torch
from scipy import sparse
from torch import Tensor

from hashlearn.deep.losses.pairs import Loss, logistic, off_diagonal, shared_labels, similar_share

FORMS = ("code", "paper")
BETA_EVERY, BETA_RATE = 200, 0.005


class HashNetLoss(Loss):
    """sum w [softplus(theta) - s theta] / sum w, theta = alpha t_i . t_j, t = tanh(beta u).

    ``form`` sets the weights: "code" N / N_1 for similar pairs (``class_num`` in the authors' code) and 1 for others;
    "paper" N / N_1 and N / N_0, exact balance. Both count pairs of the training set, not of the batch.
    ``overlap`` weighs similar pairs of label sets by what they share: 4 r_ij^2 / (r_ii r_jj) in the code (there on the
    gradient alone), the Jaccard index in the paper.
    ``pairs``: "all" different rows of the batch, or "halves" (the authors'): the first half against the second.
    ``alpha``: None for 10 / m, the authors'. beta = sqrt(1 + 0.005 k), renewed every 200 batches.
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
        super().__init__()
        if form not in FORMS:
            raise ValueError(f"form must be one of {', '.join(FORMS)}. Got {form!r} instead.")
        if pairs not in ("all", "halves"):
            raise ValueError(f"pairs must be 'all' or 'halves'. Got {pairs!r} instead.")
        self.form, self.overlap, self.pairs = form, overlap, pairs
        self.alpha = 10.0 / n_bits if alpha is None else float(alpha)
        # A training set may have no similar pair at all, or no dissimilar one: the other weight then decides alone.
        share = similar_share(labels)
        self.similar_weight = float(class_num) if class_num is not None else 1.0 / share if share > 0 else 1.0
        self.other_weight = 1.0 if form == "code" or share >= 1 else 1.0 / (1.0 - share)

    @staticmethod
    def beta(step: int) -> float:
        return math.sqrt(1.0 + BETA_RATE * (step // BETA_EVERY * BETA_EVERY))

    def forward(self, u: Tensor, Y: Tensor, step: int, idx: Tensor) -> Tensor:
        t = torch.tanh(self.beta(step) * u)
        if self.pairs == "halves":
            half = len(u) // 2
            rows, others = slice(0, half), slice(half, None)
            known: Tensor | float = 1.0
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

    def _overlap(self, shared: Tensor, Y: Tensor, others: Tensor) -> Tensor:
        sizes, other_sizes = Y.sum(dim=1)[:, None], others.sum(dim=1)[None, :]
        if self.form == "paper":
            return shared / (sizes + other_sizes - shared).clamp(min=1.0)
        return 4.0 * shared**2 / (sizes * other_sizes).clamp(min=1.0)
