"""Clusters of the rows in feature space, which stand for labels where there are none."""

from __future__ import annotations

import numpy as np

import hashlearn.rowkeys as rowkeys
from hashlearn.kernel import FeatureMap
from hashlearn.parallel import one_thread, ordered_map, row_blocks
from hashlearn.typing import IntArray, Matrix

CLUSTER_SAMPLE = 20_000


def feature_clusters(
    X: Matrix, features: FeatureMap, count: int, rng: np.random.RandomState, n_jobs: int | None
) -> IntArray:
    """Return the cluster of every row in feature space. The clusters are found on a sample of the rows."""
    # Imported here, because it takes a third of the package's import time and few fits need it.
    from sklearn.cluster import MiniBatchKMeans

    sample = rowkeys.draw_rows(int(rng.randint(2**31)), rowkeys.SAMPLE, X.shape[0], CLUSTER_SAMPLE)
    means = MiniBatchKMeans(min(count, len(sample)), n_init=3, random_state=int(rng.randint(2**31)))
    with one_thread():
        means.fit(features.map_block(X[sample]))
    parts = ordered_map(lambda block: means.predict(features.map_block(X[block])), row_blocks(X.shape[0]), n_jobs)
    return np.concatenate(list(parts)).astype(np.intp)
