"""DSRH: triplets weighted by what a wrong order costs in NDCG."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from hashlearn.constraints import COUNT, NON_NEGATIVE, POSITIVE
from hashlearn.deep.extra import torch
from hashlearn.deep.hashers.base import DeepHasher
from hashlearn.deep.losses import Loss, off_diagonal, shared_labels
from hashlearn.methodinfo import MethodInfo
from hashlearn.parameters import parameter
from hashlearn.typing import Matrix


class DSRH(DeepHasher):
    """Deep semantic ranking: rows that share more labels with a query come first, and wrong pairs cost as in NDCG.

    A query of the batch and two rows with r_i > r_j shared labels cost (2^r_i - 2^r_j) / Z [d_i - d_j + margin]_+,
    where Z is the ideal DCG of the batch for that query and d the distance of the bits tanh(u).

    We know the method from notes (``verified`` is False). The paper feeds two layers of its network to the hash layer;
    here that is up to ``backbone`` and ``head``. Its weight decay is ``weight_decay``.

    Examples
    --------
    >>> import hashlearn as hl
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> hasher = hl.deep.DSRH(n_bits=16, n_epochs=3, random_state=0).fit(X[:1000], y[:1000])
    >>> hasher.encode(X[1000:]).shape
    (797, 2)
    """

    info = MethodInfo(
        name="dsrh",
        title="DSRH",
        reference="Zhao, Huang, Wang and Tan, Deep Semantic Ranking Based Hashing for Multi-Label Image Retrieval "
        "(CVPR 2015)",
        year=2015,
        kind="deep, ranking",
        supervision=("classes", "label sets"),
        cost="O(T n (F + q b)), T epochs, F a pass of the network, q queries per batch of b rows",
        verified=False,
    )

    margin: float | None = parameter([None, POSITIVE], "In bits; None is n_bits / 4.", default=None)
    balance: float = parameter(NON_NEGATIVE, "Weight of the mean square of a bit's mean over the batch.", default=0.1)
    n_queries: int = parameter(COUNT, "Rows of a batch that are queries, the first ones.", default=32)

    def _make_loss(self, labels: sparse.csr_matrix, rng: np.random.RandomState, rows: Matrix | None) -> Loss:
        return DSRHLoss(self.n_bits_, margin=self.margin, balance=self.balance, n_queries=self.n_queries)


class DSRHLoss(Loss):
    """Mean over triplets (q, i, j) with r_i > r_j of (2^r_i - 2^r_j) / Z [d_i - d_j + margin]_+, plus balance."""

    def __init__(self, n_bits: int, *, margin: float | None = None, balance: float = 0.1, n_queries: int = 32) -> None:
        self.margin = n_bits / 4.0 if margin is None else float(margin)
        self.balance, self.n_queries = balance, n_queries

    def forward(self, u: torch.Tensor, Y: torch.Tensor, step: int, idx: torch.Tensor) -> torch.Tensor:
        b, queries = torch.tanh(u), slice(0, self.n_queries)
        distance = (u.shape[1] - b[queries] @ b.T) / 2.0
        # A query has no place in its own list: without a gain it would be less relevant than others.
        other = off_diagonal(len(u), u)[queries]
        gain = (2.0 ** shared_labels(Y[queries], Y) - 1.0) * other
        discount = torch.log2(torch.arange(len(u), dtype=u.dtype, device=u.device) + 2.0)
        ideal = (gain.sort(dim=1, descending=True).values / discount).sum(dim=1)
        weight = (gain[:, :, None] - gain[:, None, :]).clamp(min=0.0) * other[:, None, :]
        weight = weight / ideal.clamp(min=1.0)[:, None, None]
        hinge = (distance[:, :, None] - distance[:, None, :] + self.margin).clamp(min=0.0)
        n_triplets = (weight > 0).sum().clamp(min=1)
        return (weight * hinge).sum() / n_triplets + self.balance * (b.mean(dim=0) ** 2).mean()
