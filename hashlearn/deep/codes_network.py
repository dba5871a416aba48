"""A network that learns the bits of given codes: the second step of GSDH_P*, of CNNH and of ``function="network"``."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from hashlearn.deep.extra import torch
from hashlearn.deep.losses import Loss, label_shares
from hashlearn.functions.network import Network, NetworkFunction


class CodeLoss(Loss):
    """Mean over batch and bits of the cross-entropy of sigmoid(u) and given bits: each bit is a two-class problem.

    Parameters
    ----------
    codes : array (n, m) in {-1, +1} or {0, 1}
        The target of each training row.
    classes : bool, default=False
        Whether u has one more output for each label behind the bits, whose softmax cross-entropy is added.
    """

    def __init__(self, codes: NDArray[np.generic], *, classes: bool = False) -> None:
        self.classes = classes
        self.bits = torch.from_numpy(np.asarray(codes) > 0).float()

    def forward(self, u: torch.Tensor, Y: torch.Tensor, step: int, idx: torch.Tensor) -> torch.Tensor:
        functional, n_bits = torch.nn.functional, self.bits.shape[1]
        fit = functional.binary_cross_entropy_with_logits(u[:, :n_bits], self.bits[idx].to(u.dtype))
        if not self.classes:
            return fit
        return fit + functional.cross_entropy(u[:, n_bits:], label_shares(Y))


def learn_codes(
    network: Network, X: NDArray[np.float32], bits: NDArray[Any], seed: int, n_jobs: int | None
) -> NetworkFunction:
    """A network with the settings of ``network`` that learns the bits (n, m) of feature rows."""
    from hashlearn.deep.inputs import ArrayInputs
    from hashlearn.deep.network import new_network, to_arrays, torch_threads, useful_threads
    from hashlearn.deep.trainer import TrainingSettings, train

    n_rows, n_bits = bits.shape
    spec = {"backbone": None, "head": network.head, "n_features": X.shape[1], "n_outputs": n_bits}
    module = new_network(spec, seed, X)
    settings = TrainingSettings(
        network.n_epochs,
        network.batch_size,
        learning_rate=network.learning_rate,
        weight_decay=network.weight_decay,
        seed=seed,
    )
    no_labels = sparse.csr_matrix((n_rows, 1))
    with torch_threads(useful_threads(module, network.batch_size, n_jobs)):
        train(module, CodeLoss(bits), ArrayInputs(X), np.arange(n_rows), no_labels, settings)
    return NetworkFunction(spec, to_arrays(module.state_dict()), n_bits)
