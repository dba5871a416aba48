"""Boosted trees as a hash function: one small ensemble a bit.

LightGBM grows the trees (binning the features once for all bits); what is kept are plain arrays of complete
binary trees, so that a saved model holds no foreign object and needs no LightGBM to encode.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hashlearn.parallel import thread_count


class BoostedTrees:
    """Boosted depth-limited trees, trained on each bit as a two-class problem.

    Parameters
    ----------
    n_trees : trees a bit.
    max_depth : depth of a tree, at most 8.
    learning_rate : shrinkage.
    feature_fraction : share of the features that each tree may use.

    Attributes
    ----------
    feature_, threshold_ : (n_bits, n_trees, 2^depth - 1); a row goes right where x[feature] > threshold.
    leaf_ : (n_bits, n_trees, 2^depth), what a tree adds to the projection.
    """

    def __init__(
        self, n_trees: int = 100, max_depth: int = 4, learning_rate: float = 0.2, feature_fraction: float = 0.4
    ) -> None:
        if not 1 <= max_depth <= 8:
            raise ValueError(f"max_depth must be between 1 and 8. Got {max_depth} instead.")
        self.n_trees = n_trees
        self.max_depth = max_depth
        self.learning_rate = learning_rate
        self.feature_fraction = feature_fraction

    def copy(self) -> BoostedTrees:
        """The same settings, not fitted."""
        return BoostedTrees(self.n_trees, self.max_depth, self.learning_rate, self.feature_fraction)

    def fit(
        self,
        X: NDArray[np.float32],
        bits: NDArray[Any],
        *,
        weights: NDArray[np.float64] | None = None,
        seed: int = 0,
        n_jobs: int | None = None,
    ) -> BoostedTrees:
        """Grow trees for every column of ``bits`` (0/1). ``weights`` (n,) weigh the rows."""
        lightgbm = _import_lightgbm()
        parameters = {
            "objective": "binary",
            "max_depth": self.max_depth,
            "num_leaves": 2**self.max_depth,
            "learning_rate": self.learning_rate,
            "feature_fraction": self.feature_fraction,
            "min_data_in_leaf": max(1, min(20, len(X) // 20)),
            "seed": seed,
            "deterministic": True,
            "force_row_wise": True,
            "num_threads": thread_count(n_jobs),
            "verbose": -1,
        }
        data = lightgbm.Dataset(X, label=bits[:, 0], weight=weights, params=parameters, free_raw_data=False)
        shape = (bits.shape[1], self.n_trees)
        self.feature_ = np.zeros((*shape, 2**self.max_depth - 1), dtype=np.int32)
        self.threshold_ = np.full((*shape, 2**self.max_depth - 1), np.inf)
        self.leaf_ = np.zeros((*shape, 2**self.max_depth))
        for j in range(bits.shape[1]):
            if bits[:, j].min() == bits[:, j].max():
                self.leaf_[j, 0] = 1.0 if bits[0, j] else -1.0
                continue
            data.construct().set_label(bits[:, j])
            booster = lightgbm.train(parameters, data, self.n_trees)
            for k, tree in enumerate(booster.dump_model()["tree_info"]):
                self._store(j, k, tree["tree_structure"], node=0, depth=0)
        return self

    def project(self, X: NDArray[np.float32]) -> NDArray[np.float32]:
        """Sum of the trees' leaves, a column a bit."""
        result = np.empty((len(X), len(self.leaf_)), dtype=np.float32)
        trees = np.arange(self.n_trees)
        rows = np.arange(len(X))[:, None]
        for j in range(len(self.leaf_)):
            node = np.zeros((len(X), self.n_trees), dtype=np.intp)
            for _ in range(self.max_depth):
                right = X[rows, self.feature_[j][trees, node]] > self.threshold_[j][trees, node]
                node = 2 * node + 1 + right
            result[:, j] = self.leaf_[j][trees, node - (2**self.max_depth - 1)].sum(axis=1)
        return result

    def _store(self, bit: int, tree: int, source: dict[str, Any], node: int, depth: int) -> None:
        """Copy a grown node; a leaf above the last level is repeated by splits that always go left."""
        if depth == self.max_depth:
            self.leaf_[bit, tree, node - (2**self.max_depth - 1)] = source["leaf_value"]
            return
        if "leaf_value" in source:
            self._store(bit, tree, source, 2 * node + 1, depth + 1)
            return
        self.feature_[bit, tree, node] = source["split_feature"]
        self.threshold_[bit, tree, node] = source["threshold"]
        self._store(bit, tree, source["left_child"], 2 * node + 1, depth + 1)
        self._store(bit, tree, source["right_child"], 2 * node + 2, depth + 1)


class EstimatorFunction:
    """Any scikit-learn estimator with several outputs, a classifier or a regressor, as a hash function."""

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator

    def fit(self, X: NDArray[np.float32], bits: NDArray[Any]) -> EstimatorFunction:
        from sklearn.base import is_classifier

        self.estimator.fit(X, bits if is_classifier(self.estimator) else 2.0 * bits - 1.0)
        return self

    def project(self, X: NDArray[np.float32]) -> NDArray[np.float32]:
        from sklearn.base import is_classifier

        if hasattr(self.estimator, "decision_function"):
            values = np.asarray(self.estimator.decision_function(X))
        else:
            values = np.asarray(self.estimator.predict(X), dtype=np.float64)
            if is_classifier(self.estimator):
                values = 2.0 * values - 1.0
        return values.reshape(len(X), -1).astype(np.float32)


def _import_lightgbm() -> Any:
    try:
        import lightgbm
    except ImportError as error:
        raise ImportError("function='trees' grows its trees with LightGBM: pip install 'hashlearn[trees]'.") from error
    return lightgbm
