"""What the losses share: their base, stable primitives, and pairs of a batch."""

from __future__ import annotations

import math
from abc import abstractmethod

import numpy as np
import torch
from scipy import sparse
from torch import Tensor, nn
from torch.nn import functional

LOG_2 = math.log(2.0)


class Loss(nn.Module):
    """Base of all losses. Buffers that a loss fills while training belong to its state dict."""

    @abstractmethod
    def forward(self, u: Tensor, Y: Tensor, step: int, idx: Tensor) -> Tensor:
        """The loss of one batch."""


def softplus(x: Tensor) -> Tensor:
    """log(1 + e^x), exact for every x. torch's own softplus cuts over to x at 20."""
    return -functional.logsigmoid(-x)


def logcosh(x: Tensor) -> Tensor:
    """log cosh x without overflow."""
    size = x.abs()
    return size + softplus(-2.0 * size) - LOG_2


def logistic(theta: Tensor, similar: Tensor) -> Tensor:
    """Minus the log-likelihood of each pair: softplus(theta) - s theta."""
    return softplus(theta) - similar * theta


def shared_labels(Y: Tensor, other: Tensor | None = None) -> Tensor:
    """Numbers of labels that rows have in common."""
    return Y @ (Y if other is None else other).T


def similarity(Y: Tensor, other: Tensor | None = None) -> Tensor:
    """1 where two rows share a label, else 0."""
    return (shared_labels(Y, other) > 0).to(Y.dtype)


def off_diagonal(size: int, like: Tensor) -> Tensor:
    """1 for pairs of two different rows of the batch, 0 on the diagonal."""
    return 1.0 - torch.eye(size, dtype=like.dtype, device=like.device)


def squared_distances(t: Tensor) -> Tensor:
    """Squared Euclidean distances between rows, never negative.

    By norms and one product. Rounding can only hurt pairs whose distance is tiny beside their norms, which is why
    callers that need a gradient there bound their inputs first.
    """
    norms = (t * t).sum(dim=1)
    return (norms[:, None] + norms[None, :] - 2.0 * (t @ t.T)).clamp(min=0.0)


def similar_share(labels: sparse.csr_matrix, most_rows: int = 5000, seed: int = 0) -> float:
    """The share of similar pairs among pairs of different training rows; of a sample where there are many rows."""
    n_rows = labels.shape[0]
    if n_rows > most_rows:
        chosen = np.random.default_rng(seed).choice(n_rows, most_rows, replace=False)
        labels, n_rows = labels[np.sort(chosen)], most_rows
    pairs = n_rows * (n_rows - 1)
    return (int((labels @ labels.T).nnz) - n_rows) / pairs if pairs else 1.0
