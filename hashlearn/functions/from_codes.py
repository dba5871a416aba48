"""Hash functions that are fitted to rows and their bits: trees, a network, any estimator of scikit-learn."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray
from sklearn.base import clone

from hashlearn.functions.network import Network
from hashlearn.functions.trees import BoostedTrees, EstimatorFunction


def fit_to_bits(function: Any, rows: NDArray[Any], bits: NDArray[Any], seed: int, n_jobs: int | None) -> Any:
    """Fit a copy of ``function``, which may be "trees" or "network", and return the hash function."""
    if isinstance(function, str):
        function = BoostedTrees() if function == "trees" else Network()
    if isinstance(function, BoostedTrees):
        return function.copy().fit(rows, bits, seed=seed, n_jobs=n_jobs)
    if isinstance(function, Network):
        return function.fit(rows, bits, seed=seed, n_jobs=n_jobs)
    return EstimatorFunction(clone(function)).fit(rows, bits)
