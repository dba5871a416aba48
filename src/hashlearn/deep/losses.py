"""What the losses of the deep methods share: their state, stable primitives, and pairs of a batch.

Each loss is the method ``_loss`` of its deep method, which makes it: ``hl.deep.DCH(16).make_loss(labels)``. It is
called as ``loss(u, Y, step, idx)`` and returns a scalar. ``u`` (b, m) are the outputs of the network before any
activation, ``Y`` (b, c) the 0/1 label sets of the batch, ``step`` the number of batches seen before and ``idx`` (b,)
the places of the batch among the training rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from hashlearn.deep.extra import torch
from hashlearn.labels import LabelMatrix
from hashlearn.typing import Rng

LOG_2 = math.log(2.0)


class Loss:
    """A loss as a training calls it, and what it keeps from batch to batch.

    Parameters
    ----------
    compute : callable
        The loss of one batch: ``compute(kept, u, Y, step, idx)``, where ``kept`` is this object.
    learned : tuple of str
        Names of tensors that change during training, so that a checkpoint must hold them.
    kept : tensors and numbers
        They become attributes.

    Attributes
    ----------
    training : whether ``learned`` tensors change; set it to False to evaluate a loss only.
    """

    def __init__(self, compute: Callable[..., torch.Tensor], learned: Sequence[str] = (), **kept: Any) -> None:
        self.compute, self.learned, self.training = compute, learned, True
        vars(self).update(kept)

    def __call__(self, u: torch.Tensor, Y: torch.Tensor, step: int, idx: torch.Tensor) -> torch.Tensor:
        return self.compute(self, u, Y, step, idx)

    def to(self, target: torch.device | torch.dtype | str) -> Self:
        """Move all tensors to a device, or give them a precision."""
        for name, value in vars(self).items():
            if isinstance(value, torch.Tensor):
                setattr(self, name, value.detach().to(target).requires_grad_(value.requires_grad))
        return self

    def weights(self) -> list[torch.Tensor]:
        """Return the learned tensors that the trainer's optimizer changes, because they have gradients."""
        return [tensor for tensor in self.state_dict().values() if tensor.requires_grad]

    def state_dict(self) -> dict[str, torch.Tensor]:
        """Return the learned tensors by name."""
        return {name: getattr(self, name) for name in self.learned}

    def load_state_dict(self, state: dict[str, torch.Tensor]) -> None:
        """Take over learned tensors by name, on the device where the present ones are."""
        with torch.no_grad():
            for name in self.learned:
                getattr(self, name).copy_(state[name])


def new_classifier(labels: LabelMatrix, n_bits: int, rng: Rng) -> dict[str, torch.Tensor]:
    """Return what ``classified`` needs: a linear classifier of relaxed bits, learned with the network."""
    start = rng.uniform(-1.0, 1.0, (n_bits, labels.shape[1])) / math.sqrt(n_bits)
    return {
        "classifier": torch.from_numpy(start).float().requires_grad_(),
        "intercept": torch.zeros(labels.shape[1], requires_grad=True),
    }


def classified(kept: Any, bits: torch.Tensor, Y: torch.Tensor) -> torch.Tensor:
    """Return the cross-entropy of a softmax, whose targets a row's labels share equally."""
    scores = bits @ kept.classifier.to(bits.dtype) + kept.intercept.to(bits.dtype)
    return torch.nn.functional.cross_entropy(scores, label_shares(Y))


class CodeLoss(Loss):
    """Mean over batch and bits of the cross-entropy of sigmoid(u) and given bits: each bit is a two-class problem.

    Parameters
    ----------
    codes : array (n, m) in {-1, +1} or {0, 1}
        The target of each training row.
    classes : bool, default=False
        Whether u has one more output for each label after the bits, whose softmax cross-entropy is added.
    objective : sequence of float, optional
        Values of the objective while the codes were learned, which the method keeps.
    """

    def __init__(self, codes: NDArray[np.generic], *, classes: bool = False, objective: Sequence[float] = ()) -> None:
        super().__init__(self._compute)
        self.classes, self.objective = classes, objective
        self.bits = torch.from_numpy(np.asarray(codes) > 0).float()

    def _compute(self, kept: Any, u: torch.Tensor, Y: torch.Tensor, step: int, idx: torch.Tensor) -> torch.Tensor:
        functional, n_bits = torch.nn.functional, self.bits.shape[1]
        fit = functional.binary_cross_entropy_with_logits(u[:, :n_bits], self.bits[idx].to(u.dtype))
        if not self.classes:
            return fit
        return fit + functional.cross_entropy(u[:, n_bits:], label_shares(Y))


def label_shares(Y: torch.Tensor) -> torch.Tensor:
    """Return label sets divided by their sizes, as targets of a softmax."""
    return Y / Y.sum(dim=1, keepdim=True).clamp(min=1.0)


def softplus(x: torch.Tensor) -> torch.Tensor:
    """log(1 + e^x), exact for every x. torch's own softplus returns x from 20 on."""
    return -torch.nn.functional.logsigmoid(-x)


def logcosh(x: torch.Tensor) -> torch.Tensor:
    """log cosh x without overflow."""
    size = x.abs()
    return size + softplus(-2.0 * size) - LOG_2


def logistic(theta: torch.Tensor, similar: torch.Tensor) -> torch.Tensor:
    """Return minus the log-likelihood of each pair: softplus(theta) - s theta."""
    return softplus(theta) - similar * theta


def unit_rows(t: torch.Tensor) -> torch.Tensor:
    """Return rows scaled to length 1; rows of length 0 stay finite."""
    return torch.nn.functional.normalize(t, dim=1, eps=1e-6)


def shared_labels(Y: torch.Tensor, other: torch.Tensor | None = None) -> torch.Tensor:
    """Return numbers of labels that rows have in common."""
    return Y @ (Y if other is None else other).T


def similarity(Y: torch.Tensor, other: torch.Tensor | None = None) -> torch.Tensor:
    """1 where two rows share a label, otherwise 0."""
    return (shared_labels(Y, other) > 0).to(Y.dtype)


def off_diagonal(size: int, like: torch.Tensor) -> torch.Tensor:
    """1 for pairs of two different rows of the batch, 0 on the diagonal."""
    return 1.0 - torch.eye(size, dtype=like.dtype, device=like.device)


def squared_distances(t: torch.Tensor) -> torch.Tensor:
    """Return squared Euclidean distances between rows, never negative.

    By norms and one product. Rounding matters only for pairs whose distance is tiny compared with their norms, so
    callers that need a gradient there bound their inputs first.
    """
    norms = (t * t).sum(dim=1)
    return (norms[:, None] + norms[None, :] - 2.0 * (t @ t.T)).clamp(min=0.0)


def similar_share(labels: LabelMatrix, most_rows: int = 5000, seed: int = 0) -> float:
    """Return the share of similar pairs among pairs of different training rows, estimated from a sample of rows."""
    n_rows = labels.shape[0]
    if n_rows > most_rows:
        chosen = np.random.default_rng(seed).choice(n_rows, most_rows, replace=False)
        labels, n_rows = labels[np.sort(chosen)], most_rows
    pairs = n_rows * (n_rows - 1)
    return (int((labels @ labels.T).nnz) - n_rows) / pairs if pairs else 1.0
