"""What a fit draws from its rows: anchors in proportion to their groups, clusters of the features."""

from __future__ import annotations

import numpy as np

import hashlearn.rowkeys as rowkeys
from hashlearn.kernel import FeatureMap
from hashlearn.parallel import one_thread, ordered_map, row_blocks
from hashlearn.typing import IntArray, Matrix

CLUSTER_SAMPLE = 20_000


def draw_evenly(group: IntArray, count: int, seed: int) -> IntArray:
    """``count`` supervised rows, or all: each group in proportion, at random inside it, in row order."""
    rows = np.flatnonzero(group >= 0)
    if count >= len(rows):
        return rows
    keys = rowkeys.row_keys(seed, rowkeys.ANCHORS, 0, len(group))[rows]
    order = np.lexsort((keys, group[rows]))
    of_group = group[rows][order]
    chosen = rowkeys.choose_evenly(of_group, keys[order], np.bincount(of_group), count)
    return np.sort(rows[order[chosen]])


def feature_clusters(
    X: Matrix, features: FeatureMap, count: int, rng: np.random.RandomState, n_jobs: int | None
) -> IntArray:
    """Cluster of every row in feature space, found on a sample of the rows."""
    # Imported here: it costs a third of the package's import time and few fits need it.
    from sklearn.cluster import MiniBatchKMeans

    sample = rowkeys.draw_rows(int(rng.randint(2**31)), rowkeys.SAMPLE, X.shape[0], CLUSTER_SAMPLE)
    means = MiniBatchKMeans(min(count, len(sample)), n_init=3, random_state=int(rng.randint(2**31)))
    with one_thread():
        means.fit(features.map_block(X[sample]))
    parts = ordered_map(lambda block: means.predict(features.map_block(X[block])), row_blocks(X.shape[0]), n_jobs)
    return np.concatenate(list(parts)).astype(np.intp)
