"""Train a network on given codes of feature rows: what ``GSDHP(function=Network())`` does."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from hashlearn.deep.inputs import ArrayInputs
from hashlearn.deep.losses.gsdhp_star import GSDHPStarLoss
from hashlearn.deep.network import new_network, to_arrays, torch_threads, useful_threads
from hashlearn.deep.trainer import Settings, train
from hashlearn.functions.network import Network, NetworkFunction


def learn_codes(
    network: Network, X: NDArray[np.float32], bits: NDArray[Any], seed: int, n_jobs: int | None
) -> NetworkFunction:
    """The fitted function of ``network``'s settings."""
    n_rows, n_bits = bits.shape
    spec = {"backbone": None, "head": network.head, "n_features": X.shape[1], "n_outputs": n_bits}
    module = new_network(spec, seed, X)
    settings = Settings(
        network.n_epochs,
        network.batch_size,
        learning_rate=network.learning_rate,
        weight_decay=network.weight_decay,
        seed=seed,
    )
    no_labels = sparse.csr_matrix((n_rows, 1))
    with torch_threads(useful_threads(module, network.batch_size, n_jobs)):
        train(module, GSDHPStarLoss(bits), ArrayInputs(X), np.arange(n_rows), no_labels, settings)
    return NetworkFunction(spec, to_arrays(module.state_dict()), n_bits)
