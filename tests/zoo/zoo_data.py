"""Small data sets of the tests of methods."""

import numpy as np


def blobs(n=200, d=10, c=4, seed=0, spread=2.0):
    """Rows around centers, and their classes, which are equally frequent."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n) % c)
    return (rng.normal(size=(c, d))[y] * spread + rng.normal(size=(n, d))).astype(np.float32), y


def classes(n=200, d=12, c=4, spread=2.0, seed=0):
    """Rows around centers, and their classes, which are drawn at random."""
    rng = np.random.RandomState(seed)
    y = rng.randint(c, size=n)
    return (rng.standard_normal((n, d)) + spread * rng.standard_normal((c, d))[y]).astype(np.float32), y


def label_sets(n=80, c=6, seed=0):
    """Label sets, none of them empty."""
    rng = np.random.default_rng(seed)
    Y = (rng.random((n, c)) < 0.3).astype(int)
    Y[Y.sum(axis=1) == 0, 0] = 1
    return Y
