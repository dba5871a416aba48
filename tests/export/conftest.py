"""A server for the tests of SQL, and hashers with every kind of hash function."""

import numpy as np
import pytest
from collection.servers import postgres_server
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.preprocessing import MinMaxScaler, Normalizer, RobustScaler, StandardScaler
from small_methods import spread_bits

import hashlearn as hl
from hashlearn.hashers.pipeline import PipelineHasher

__all__ = ["postgres_server"]

MAKERS = {
    "kernel": lambda: hl.GSDHP(20, n_landmarks=60, n_anchors=100, random_state=0),
    "kernel without unit length": lambda: hl.GSDHP(9, kernel=hl.LandmarkKernel(40, normalize=False), random_state=0),
    "spread thresholds": lambda: hl.GSDHP(12, n_landmarks=60, n_anchors=100, random_state=0),
    "posterior": lambda: hl.GSDHP(12, n_landmarks=60, n_anchors=100, function="posterior", random_state=0),
    "chosen": lambda: hl.AutoHasher(16, random_state=0),
    "linear": lambda: hl.ITQ(13, random_state=0),
    "waves": lambda: hl.SH(16),
    "pivots": lambda: hl.NSH(8, random_state=0),
    "classifier": lambda: hl.ClassCode(16, n_landmarks=40, random_state=0),
    "joined": lambda: hl.JoinedHasher(
        [hl.GSDHP(12, n_landmarks=40, random_state=0), hl.JoinedHasher([hl.ITQ(9, random_state=0), hl.LSH(4)])]
    ),
    "scaled": lambda: PipelineHasher([StandardScaler(), PCA(12)], hl.ITQ(8, random_state=0)),
    "between bounds": lambda: PipelineHasher(
        [MinMaxScaler((-1, 2)), RobustScaler(), Normalizer()], hl.GSDHP(8, n_landmarks=40, random_state=0)
    ),
    "trees": lambda: hl.GSDHP(5, function=hl.functions.BoostedTrees(n_trees=6, max_depth=3), random_state=0),
    "network": lambda: hl.deep.CSQ(16, head=[24, 12], n_epochs=1, random_state=0),
    "divided network": lambda: hl.deep.DNNH(8, n_epochs=1, random_state=0),
    "normalized network": lambda: hl.deep.OrthoHash(8, n_epochs=1, random_state=0),
}


@pytest.fixture(scope="session")
def digits():
    X, y = load_digits(return_X_y=True)
    return X.astype(np.float32), y


@pytest.fixture(scope="session")
def fitted(digits):
    """A function from a name to a fitted hasher; each is fitted once."""
    X, y = digits
    made = {}

    def get(name):
        if name not in made:
            made[name] = MAKERS[name]().fit(X[:600], y[:600])
            if name == "spread thresholds":
                spread_bits(made[name])
        return made[name]

    return get
