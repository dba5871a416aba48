"""``Collection.health``: figures that change when rows or queries are no longer what the hasher learned from."""

from functools import partial

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from small_methods import spread_bits

import hashlearn as hl
from hashlearn.collection import Collection
from hashlearn.collection.health import trained_confidence
from hashlearn.hashers.pipeline import PipelineHasher


@pytest.fixture(scope="module")
def learned():
    rng = np.random.default_rng(0)
    y = rng.integers(4, size=600)
    centers = 3 * rng.normal(size=(4, 12))
    return centers[y] + rng.normal(size=(600, 12)), y


@pytest.mark.parametrize("make", [partial(hl.GSDHP, 16, n_landmarks=100), partial(hl.ITQ, 8)], ids=["GSDHP", "ITQ"])
def test_queries_that_drift_lower_the_confidence(make, learned, tmp_path):
    X, y = learned
    hasher = make(random_state=0).fit(X[:400], y[:400])
    with Collection.create(tmp_path / "shop", hasher) as shop:
        shop.add(X[:400])
        fresh = shop.health()
        assert (fresh.rows, fresh.looked_at, fresh.queries) == (400, 400, 0)
        assert fresh.distinct_codes == len(np.unique(hasher.encode(X[:400]), axis=0))
        assert fresh.near_threshold is None
        assert fresh.trained_confidence == pytest.approx(np.abs(hasher.expected_bits(X[:400])).mean(), abs=1e-4)
        shop.search(X[400:500])
        shop.search(X[500:], asymmetric=True)
        usual = shop.health()
        expected = np.abs(hasher.expected_bits(X[400::16]))  # one of 16 is looked at
        assert usual.queries == 200
        assert usual.confidence == pytest.approx(expected.mean(), abs=1e-4)
        assert usual.near_threshold == pytest.approx(np.mean(expected < 0.2), abs=1e-3)
        assert usual.confidence > usual.trained_confidence - 0.1
    with Collection.open(tmp_path / "shop") as shop:
        shop.within(X.mean(axis=0) + np.random.default_rng(1).normal(size=(100, 12)), 2)  # rows of no class
        drifted = shop.health()
    assert drifted.trained_confidence == usual.trained_confidence
    assert drifted.confidence < usual.confidence - 0.05
    assert drifted.near_threshold > usual.near_threshold + 0.02


def test_codes_of_queries_are_those_of_the_hasher(learned, tmp_path):
    X, y = learned
    hasher = hl.GSDHP(24, n_landmarks=100, random_state=0).fit(X, y)
    spread_bits(hasher)
    with Collection.create(tmp_path / "shop", hasher) as shop:
        np.testing.assert_array_equal(shop.encode_queries(X), hasher.encode_queries(X))
        assert not np.array_equal(shop.encode_queries(X), hasher.encode(X))


def test_joined_hashers_tell_the_mean_confidence_of_their_bits(learned):
    X, y = learned
    joined = hl.JoinedHasher([hl.GSDHP(12, n_landmarks=100, random_state=0), hl.ITQ(4, random_state=0)]).fit(X, y)
    first, second = joined.hashers_
    assert joined.confidence_ == pytest.approx((12 * first.confidence_ + 4 * second.confidence_) / 16)


def test_queries_that_are_given_are_judged_alone_and_all_of_them(learned, tmp_path):
    X, y = learned
    hasher = hl.GSDHP(16, n_landmarks=100, random_state=0).fit(X[:400], y[:400])
    with Collection.create(tmp_path / "shop", hasher) as shop:
        shop.search(np.zeros((50, 12)))
        found = shop.health(X[400:])
        expected = np.abs(hasher.expected_bits(X[400:]))
        assert found.queries == 200
        assert found.confidence == pytest.approx(expected.mean(), abs=1e-4)
        assert found.relative_confidence == pytest.approx(found.confidence / found.trained_confidence)
        assert shop.health(X[400].tolist()).queries == 1
        assert shop.health().queries == 50


def test_the_confidence_of_training_follows_updates_and_steps_before_the_hasher(learned):
    X, y = learned
    hasher = hl.GSDHP(16, n_landmarks=100, random_state=0)
    known, new = np.flatnonzero(y[:400] < 2), np.flatnonzero(y[:400] >= 2)
    before = trained_confidence(hasher.partial_fit(X[known], y[known]))
    hasher.partial_fit(X[new], y[new])
    found = trained_confidence(hasher)
    assert found != before
    assert found == pytest.approx(np.abs(hasher.expected_bits(X[:400])).mean(), abs=0.02)
    joined = hl.JoinedHasher([hl.GSDHP(12, n_landmarks=100, random_state=0), hl.ITQ(4, random_state=0)]).fit(X, y)
    steps = PipelineHasher.from_pipeline(make_pipeline(StandardScaler(), joined).fit(X, y))
    assert trained_confidence(steps) == pytest.approx(joined.confidence_)
    joined.hashers_[0].confidence_ = 0.5  # as partial_fit of an AutoHasher updates one part
    assert trained_confidence(joined) == pytest.approx((12 * 0.5 + 4 * joined.hashers_[1].confidence_) / 16)
    del joined.hashers_[0].confidence_  # as in a model file of an earlier release
    assert trained_confidence(joined) is None


def test_a_method_that_brings_its_calibration_tells_its_confidence(learned):
    X, y = learned
    hasher = hl.methods.find_method("dserh")(8, random_state=0).fit(X[:200], y[:200])
    assert hasher.confidence_ == pytest.approx(np.abs(hasher.expected_bits(X[:200])).mean(), abs=1e-4)


def test_collections_without_rows_or_hasher(tmp_path):
    with Collection.create(tmp_path / "codes", n_bits=16) as shop:
        assert shop.health() == (0, 0, 0, 0, None, None, None)
        shop.add(codes=np.zeros((5, 2), dtype=np.uint8))
        shop.search(codes=np.zeros((1, 2), dtype=np.uint8))
        assert shop.health()[:4] == (5, 5, 1, 0)
