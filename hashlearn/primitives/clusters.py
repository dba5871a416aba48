"""Cluster centers as anchors. They do not depend on the number of threads."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hashlearn.parallel import one_thread


def cluster_centers(
    features: NDArray[np.float32], count: int, rng: np.random.RandomState, n_iter: int = 10, n_samples: int = 50000
) -> NDArray[np.float32]:
    """Return k-means centers of a sample of the rows, or the distinct rows if there are at most ``count`` of them."""
    # Imported here, because few methods need it and its import is slow.
    from sklearn.cluster import KMeans

    if len(features) > n_samples:
        features = features[rng.choice(len(features), n_samples, replace=False)]
    distinct = np.unique(features, axis=0)
    if len(distinct) <= count:
        return distinct
    means = KMeans(count, n_init=1, max_iter=n_iter, random_state=int(rng.randint(2**31)))
    with one_thread():
        means.fit(features)
    return np.asarray(means.cluster_centers_, dtype=np.float32)
