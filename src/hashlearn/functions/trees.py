"""Boosted trees as a hash function, with one small ensemble per bit.

LightGBM grows the trees and bins the features once for all bits. The trees are kept as plain arrays of complete binary
trees, so that a saved model holds no objects of LightGBM and encodes without it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier

from hashlearn.parallel import row_blocks, thread_count
from hashlearn.typing import Float32Array, FloatArray

CACHED_ROWS = 256
# With fewer rows times features per tree, threads cost more than they save: on a busy machine they wait for each other
# in a loop and can take ten times as long as a single thread.
THREADED_WORK = 10_000_000


class BoostedTrees:
    """Boosted depth-limited trees, trained on each bit as a two-class problem.

    Parameters
    ----------
    n_trees : int, default=100
        Number of trees per bit.
    max_depth : int, default=4
        Depth of a tree, at most 8.
    learning_rate : float, default=0.2
        Factor by which each tree's contribution is reduced.
    feature_fraction : float, default=0.4
        Share of the features that each tree may use.

    Attributes
    ----------
    feature_, threshold_ : ndarray (n_bits, n_trees, 2^depth - 1)
        Splits: a row goes right if x[feature] > threshold.
    leaf_ : ndarray (n_bits, n_trees, 2^depth)
        What each leaf adds to the projection.
    """

    feature_: NDArray[np.int32]
    threshold_: FloatArray
    leaf_: FloatArray

    def __init__(
        self, n_trees: int = 100, max_depth: int = 4, learning_rate: float = 0.2, feature_fraction: float = 0.4
    ) -> None:
        if not 1 <= max_depth <= 8:
            raise ValueError(f"max_depth must be between 1 and 8. Got {max_depth} instead.")
        self.n_trees = n_trees
        self.max_depth = max_depth
        self.learning_rate = learning_rate
        self.feature_fraction = feature_fraction

    def fit(
        self,
        X: Float32Array,
        bits: NDArray[Any],
        *,
        weights: FloatArray | None = None,
        seed: int = 0,
        n_jobs: int | None = None,
    ) -> BoostedTrees:
        """Grow trees for every column of ``bits`` (0/1). ``weights`` (n,) are the weights of the rows."""
        grower = TreeGrower(self, X, bits.shape[1], seed=seed, n_jobs=n_jobs)
        for j in range(bits.shape[1]):
            grower.grow(j, bits[:, j], weights)
        return self

    def project(self, X: Float32Array) -> Float32Array:
        """Return the projections (n, n_bits): the sums of the trees' leaves."""
        return np.stack([self.project_bit(X, j) for j in range(len(self.leaf_))], axis=1)

    def project_bit(self, X: Float32Array, bit: int) -> Float32Array:
        """Return the projections (n,) of one bit."""
        n_trees, splits = self.feature_.shape[1:]
        feature, threshold, leaf = self.feature_[bit].ravel(), self.threshold_[bit].ravel(), self.leaf_[bit].ravel()
        first_split = np.arange(n_trees) * splits
        first_leaf = np.arange(n_trees) * (splits + 1)
        result = np.empty(len(X), dtype=np.float32)
        for block in row_blocks(len(X), CACHED_ROWS):
            rows = np.ascontiguousarray(X[block])
            start = np.arange(len(rows))[:, None] * rows.shape[1]
            node = np.zeros((len(rows), n_trees), dtype=np.intp)
            for _ in range(splits.bit_length()):
                place = first_split + node
                node = 2 * node + 1 + (rows.take(start + feature.take(place)) > threshold.take(place))
            result[block] = leaf.take(first_leaf + node - splits).sum(axis=1)
        return result

    def _store(self, bit: int, tree: int, source: dict[str, Any], node: int, depth: int) -> None:
        """Copy a grown node. A leaf above the last level becomes splits that always go left to that leaf."""
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


class TreeGrower:
    """Grows the trees of one bit at a time on features that are binned once, for bits that depend on earlier ones.

    A bit whose trees are never grown has projections of zero.
    """

    def __init__(
        self, trees: BoostedTrees, X: Float32Array, n_bits: int, *, seed: int = 0, n_jobs: int | None = None
    ) -> None:
        self.trees = trees
        self.lightgbm = _import_lightgbm()
        work = X.size * trees.feature_fraction
        self.parameters = {
            "objective": "binary",
            "max_depth": trees.max_depth,
            "num_leaves": 2**trees.max_depth,
            "learning_rate": trees.learning_rate,
            "feature_fraction": trees.feature_fraction,
            "min_data_in_leaf": max(1, min(20, len(X) // 20)),
            "seed": seed,
            "deterministic": True,
            # One thread sums a column's histogram, so the number of threads does not change it. It is also faster here.
            "force_col_wise": True,
            "num_threads": thread_count(n_jobs) if work >= THREADED_WORK else 1,
            "verbose": -1,
        }
        self.data = self.lightgbm.Dataset(X, label=np.zeros(len(X)), params=self.parameters, free_raw_data=False)
        self.data.construct()
        shape = (n_bits, trees.n_trees)
        trees.feature_ = np.zeros((*shape, 2**trees.max_depth - 1), dtype=np.int32)
        trees.threshold_ = np.full((*shape, 2**trees.max_depth - 1), np.inf)
        trees.leaf_ = np.zeros((*shape, 2**trees.max_depth))

    def grow(self, bit: int, target: NDArray[Any], weights: FloatArray | None = None) -> None:
        """Grow the trees of one bit for a target (n,) of 0/1."""
        if target.min() == target.max():
            self.trees.leaf_[bit, 0] = 1.0 if target[0] else -1.0
            return
        self.data.set_label(target)
        # set_weight would keep the previous weights if given None or ones.
        self.data.set_field("weight", weights)
        booster = self.lightgbm.train(self.parameters, self.data, self.trees.n_trees)
        for k, tree in enumerate(booster.dump_model()["tree_info"]):
            self.trees._store(bit, k, tree["tree_structure"], node=0, depth=0)


class EstimatorFunction:
    """Any scikit-learn estimator with several outputs, a classifier or a regressor, as a hash function."""

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator

    def fit(self, X: Float32Array, bits: NDArray[Any]) -> EstimatorFunction:
        self.estimator.fit(X, bits if is_classifier(self.estimator) else 2.0 * bits - 1.0)
        return self

    def project(self, X: Float32Array) -> Float32Array:
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
        raise ImportError("function='trees' grows its trees with LightGBM: pip install '.[trees]'.") from error
    return lightgbm
