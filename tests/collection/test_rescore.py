"""Rescoring on real data, and the warning where codes collapse."""

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_digits
from small_methods import spread_bits

from hashlearn import GSDHP, ITQ, LSH, Collection, JoinedHasher
from hashlearn.collection import rescore


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    chosen = np.random.default_rng(0).permutation(len(X))[:1500]
    return X[chosen].astype(np.float32), y[chosen]


@pytest.mark.slow
@pytest.mark.parametrize("hasher", [GSDHP(n_bits=32), ITQ(n_bits=32), LSH(n_bits=1)], ids=lambda hasher: str(hasher))
def test_every_stored_digit_finds_itself_first(tmp_path, digits, hasher):
    X, y = digits
    fitted = hasher.set_params(random_state=0).fit(X, y)
    with Collection.create(tmp_path / "shop", fitted, store_vectors=True) as shop, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that codes collapse is the point here
        ids = shop.add(X)
        for how in ({}, {"metric": "euclidean"}, {"asymmetric": True}, {"rescore": 1}):
            hits = shop.search(X, k=10, **{"rescore": True, **how})
            np.testing.assert_array_equal(hits.ids[:, 0], ids, err_msg=str(how))
        alone = [shop.search(row[None], k=1, rescore=True).ids[0, 0] for row in X[:50]]
        assert alone == ids[:50].tolist()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gsdhp", "joined"])
def test_a_stored_row_finds_itself_though_its_bits_have_thresholds_of_their_own(tmp_path, digits, name):
    X, y = digits
    label_bits, structure_bits = GSDHP(24, random_state=0), ITQ(8, random_state=0)
    fitted = {"gsdhp": label_bits, "joined": JoinedHasher([label_bits, structure_bits])}[name].fit(X, y)
    spread_bits(fitted)
    with Collection.create(tmp_path / "shop", fitted, store_vectors=True) as shop, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        ids = shop.add(X)
        assert np.mean(shop.search(X, k=10).ids == ids[:, None]) < 0.1  # by codes alone most rows do not
        for how in ({}, {"asymmetric": True}):
            hits = shop.search(X, k=1, rescore=1, **how)
            np.testing.assert_array_equal(hits.ids[:, 0], ids, err_msg=str(how))


def test_parts_and_blocks_change_nothing(tmp_path, digits, monkeypatch):
    """Vectors are read in parts and queries taken in blocks where there is much to look at."""
    X, y = digits
    fitted = GSDHP(n_bits=16, random_state=0).fit(X, y)
    with Collection.create(tmp_path / "shop", fitted, store_vectors=True) as shop:
        with pytest.warns(UserWarning, match="collapse"):
            shop.add(X)
        whole = shop.search(X[:100], k=7, rescore=3)
        monkeypatch.setattr(rescore, "_FLOATS_AT_ONCE", 64 * 37)
        monkeypatch.setattr(rescore, "_IDS_AT_ONCE", 7 * rescore.MAX_CANDIDATES)
        parts = shop.search(X[:100], k=7, rescore=3)
    np.testing.assert_array_equal(whole.ids, parts.ids)
    np.testing.assert_array_equal(whole.distances, parts.distances)
    assert (np.diff(whole.distances, axis=1) >= 0).all()


def test_codes_that_collapse_are_said_once(tmp_path):
    rng = np.random.default_rng(0)
    few = rng.integers(0, 256, (44, 4), dtype=np.uint8)
    spread = rng.integers(0, 256, (1500, 4), dtype=np.uint8)
    with Collection.create(tmp_path / "a", n_bits=32) as shop:
        with pytest.warns(UserWarning, match="44 distinct codes for 1,500 rows.*rescore"):
            shop.add(codes=few[np.arange(1500) % 44])
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            shop.add(codes=few[np.arange(1500) % 44])  # the same collection says it once
    with Collection.create(tmp_path / "b", n_bits=32) as shop, warnings.catch_warnings():
        warnings.simplefilter("error")
        shop.add(codes=spread)
        shop.add(codes=few[np.zeros(900, dtype=int)])  # too few rows to say anything
    with Collection.create(tmp_path / "c", n_bits=8) as shop, warnings.catch_warnings():
        warnings.simplefilter("error")
        shop.add(codes=spread[:, :1])  # all that eight bits can tell apart
    sampled = "1 distinct codes for 10,000 rows of 50,000, taken as a sample"
    with Collection.create(tmp_path / "d", n_bits=32) as shop, pytest.warns(UserWarning, match=sampled):
        shop.add(codes=np.zeros((50_000, 4), dtype=np.uint8))


@pytest.mark.parametrize("metric", ["cosine", "euclidean", "dot"])
@pytest.mark.parametrize("size", [1e19, 3e38])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # projections of the hasher overflow too
def test_distances_of_very_large_vectors_are_finite(tmp_path, metric, size):
    """Such vectors are finite as float32, and their distances and products are not."""
    X = np.random.default_rng(0).normal(size=(40, 16)).astype(np.float32)
    with Collection.create(tmp_path / "shop", ITQ(n_bits=8, random_state=0).fit(X), store_vectors=True) as shop:
        shop.add(X[:30])
        large = np.float32(size) * np.sign(X[30:])
        shop.add(large)
        hits = shop.search(large, k=40, rescore=True, metric=metric)
    assert (hits.ids >= 0).all()
    assert np.isfinite(hits.distances).all()
    # The row itself is the nearest one.
    np.testing.assert_array_equal(hits.ids[:, 0], np.arange(30, 40))
    one, many = large.astype(np.float64)[0], np.vstack([X[:30], large]).astype(np.float64)[hits.ids[0]]
    wanted = {"euclidean": np.linalg.norm(many - one, axis=1), "dot": -(many @ one)}.get(metric)
    if wanted is not None:
        np.testing.assert_allclose(hits.distances[0], wanted, rtol=1e-12)
