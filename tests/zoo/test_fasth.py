"""FastHash: equal codes for equal losses, sweeps that never rise, label sets, odd data."""

from functools import partial

import numpy as np
import pytest
from zoo_data import blobs, label_sets

from hashlearn import FastH, codes

blobs = partial(blobs, n=120, d=8, spread=3.0)

pytest.importorskip("lightgbm")
FAST = {"n_trees": 10, "random_state": 0}


def test_ksh_and_bre_give_the_same_codes_and_hinge_others():
    X, y = blobs(spread=1.0)
    by_loss = {loss: FastH(n_bits=8, loss=loss, **FAST).fit(X, y).codes_ for loss in ("ksh", "bre", "hinge")}
    np.testing.assert_array_equal(by_loss["ksh"], by_loss["bre"])
    assert not np.array_equal(by_loss["ksh"], by_loss["hinge"])


def test_retrieves_classes_and_label_sets():
    X, y = blobs(n=240)
    hasher = FastH(n_bits=12, **FAST).fit(X[:160], y[:160])
    assert hasher.score(X[160:], y[160:]) > 0.9
    assert np.all(np.diff(hasher.energy_, axis=1) <= 0)
    np.testing.assert_array_equal(hasher.codes_, hasher.encode(X[:160]))
    Y = label_sets(n=200)
    features = Y + 0.1 * np.random.default_rng(0).normal(size=Y.shape)
    hasher = FastH(n_bits=12, **FAST).fit(features[:150], Y[:150])
    assert hasher.score(features[150:], Y[150:]) > 0.75


def test_unlabeled_rows_do_not_teach():
    X, y = blobs()
    partly = y.astype(float)
    partly[:20] = np.nan
    far = X.copy()
    far[:20] *= -3
    one, two = (FastH(n_bits=8, **FAST).fit(rows, partly) for rows in (X, far))
    # The features' common centre moves with all rows; shift back to compare the same points.
    assert one.codes_.shape == (120, 1)
    agree = (codes.unpack(one.encode(X[20:]), 8) == codes.unpack(two.encode(X[20:]), 8)).mean()
    assert agree > 0.99
