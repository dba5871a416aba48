"""Clusters of features, found by several fits at once: the limits of threads are afterwards what they were."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import sklearn.cluster
from chunk_data import hasher, rows_and_classes
from threadpoolctl import threadpool_info, threadpool_limits

import hashlearn as hl

pytestmark = pytest.mark.filterwarnings("ignore:the parameter 'structure':FutureWarning")

FITS = {
    "structure": (hasher(structure=5, n_jobs=1), sklearn.cluster.MiniBatchKMeans),
    "anchors of clusters": (hl.AGH(8, n_anchors=20, n_jobs=1, random_state=0), sklearn.cluster.KMeans),
}


def threads_of(*kinds):
    return {lib["filepath"]: lib["num_threads"] for lib in threadpool_info() if lib["user_api"] in kinds}


@pytest.mark.parametrize("leaves_first", [0, 1], ids=["the first leaves first", "the first is the last to leave"])
@pytest.mark.parametrize("name", FITS)
def test_two_fits_at_once_leave_limits_as_they_were(name, leaves_first, monkeypatch):
    """The second fit finds its clusters while the first one does, and they end in either order."""
    X, y = rows_and_classes(600)
    model, means = FITS[name]
    original, inside, seen = means.fit, [threading.Event(), threading.Event()], []
    done = threading.Event()
    number = threading.local()

    def fit(self, rows):
        own = number.value
        seen.append(set(threads_of("blas", "openmp").values()))
        inside[own].set()
        assert inside[1].wait(60)
        if own != leaves_first:
            assert done.wait(60)
        return original(self, rows)

    def fitted(own):
        number.value = own
        if own == 1:
            assert inside[0].wait(60)
        try:
            return sklearn.base.clone(model).fit(X, y).codes_
        finally:
            if own == leaves_first:
                done.set()

    monkeypatch.setattr(means, "fit", fit)
    with threadpool_limits(2):
        before = threads_of("blas", "openmp")
        with ThreadPoolExecutor(2) as pool:
            codes = list(pool.map(fitted, [0, 1]))
        assert threads_of("blas", "openmp") == before
    assert seen == [{1}, {1}]
    np.testing.assert_array_equal(*codes)
