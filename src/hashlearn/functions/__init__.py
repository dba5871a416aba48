"""Hash functions, which are fitted to features and learned codes and give the codes of new rows."""

from copy import copy
from typing import Any

from numpy.typing import NDArray
from sklearn.base import clone

from hashlearn.functions.linear import LinearFunction, RidgeSums
from hashlearn.functions.network import Network
from hashlearn.functions.trees import BoostedTrees, EstimatorFunction

__all__ = ["BoostedTrees", "LinearFunction", "Network", "RidgeSums"]


def fit_to_bits(function: Any, rows: NDArray[Any], bits: NDArray[Any], seed: int, n_jobs: int | None) -> Any:
    """Fit a copy of ``function``, which may be "trees" or "network", and return the hash function."""
    if isinstance(function, str):
        function = BoostedTrees() if function == "trees" else Network()
    if isinstance(function, BoostedTrees):
        return copy(function).fit(rows, bits, seed=seed, n_jobs=n_jobs)
    if isinstance(function, Network):
        return function.fit(rows, bits, seed=seed, n_jobs=n_jobs)
    return EstimatorFunction(clone(function)).fit(rows, bits)
