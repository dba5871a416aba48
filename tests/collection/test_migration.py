"""``Collection.migrate``: the model is replaced, all or nothing, and can be put back; codes stay as they are."""

import numpy as np
import pytest

import hashlearn as hl
from hashlearn.collection import Collection, CollectionError, UnsupportedByStoreError


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    y = rng.integers(4, size=400)
    X = rng.normal(size=(400, 10)) + 2 * rng.normal(size=(4, 10))[y]
    return X, X @ rng.normal(size=(10, 16)), y, hl.ITQ(16, random_state=0).fit(X)


@pytest.fixture(params=["folder", "postgres"])
def place(request, tmp_path):
    return str(tmp_path / "shop") if request.param == "folder" else request.getfixturevalue("postgres_uri")


def filled(place, rows, **settings):
    X, _, y, hasher = rows
    collection = Collection.create(place, hasher, **settings)
    collection.add(X, ids=np.arange(400) + 7, payload=[{"y": int(label)} for label in y])
    return collection


def all_codes(collection):
    return np.concatenate([batch.codes for batch in collection.scan()])


def test_queries_come_from_the_new_model_and_codes_stay(place, rows):
    X, new, y, hasher = rows
    sample = np.random.default_rng(1).permutation(400)[:200]
    with filled(place, rows) as shop, Collection.open(place) as reader:
        before = all_codes(shop)
        report = shop.migrate(new[sample], sample + 7, y[sample])
        assert report.rows == 200
        hits = shop.search(new[:50], 1)
        assert np.mean(y[hits.ids[:, 0] - 7] == y[:50]) > 0.8
        np.testing.assert_array_equal(all_codes(shop), before)
        # A process that had it open goes on with the old model.
        np.testing.assert_array_equal(reader.search(X[:5], 1).distances, 0)
        with pytest.raises(CollectionError, match="Another process has replaced the model"):
            reader.migrate(new[:50], np.arange(50) + 7)
        assert not shop.verify().problems
    with Collection.open(place) as again:
        assert again.hasher.n_features_in_ == 16
        again.add(new[:1], ids=[1000])
        again.undo_migration()
        assert again.hasher.n_features_in_ == 10
        np.testing.assert_array_equal(again.search(X[:5], 1).distances, 0)
        with pytest.raises(CollectionError, match="no migration to undo"):
            again.undo_migration()
    with Collection.open(place, hasher) as third:
        assert len(third) == 401


def test_a_loss_that_is_too_large_changes_nothing(place, rows):
    noise = np.random.default_rng(2).normal(size=(200, 5))
    with filled(place, rows) as shop:
        with pytest.raises(CollectionError, match="stays as it is: the migration is expected to lose"):
            shop.migrate(noise, np.arange(200) + 7, max_loss=0.05)
        report = shop.migrate(noise, np.arange(200) + 7, commit=False)
        assert report.loss > 0.05
        assert shop.hasher.n_features_in_ == 10
    with Collection.open(place) as again:
        assert again.hasher.n_features_in_ == 10


def test_codes_made_elsewhere_get_a_hasher_and_lose_it_again(tmp_path, rows):
    X, new, _, hasher = rows
    with Collection.create(tmp_path / "codes", n_bits=16) as shop:
        shop.add(codes=hasher.encode(X))
        shop.migrate(new[:200], np.arange(200))
        assert shop.search(new[:1], 1).distances[0, 0] <= 4
        shop.undo_migration()
        assert shop.hasher is None


def test_mistakes_are_sentences(tmp_path, rows):
    _, new, _, _ = rows
    with filled(tmp_path / "shop", rows) as shop:
        with pytest.raises(CollectionError, match=r"7 of these 30 ids are not in .*, the first is 0"):
            shop.migrate(new[:30], np.arange(30))
        with pytest.raises(ValueError, match="id"):
            shop.migrate(new[:30], np.full(30, 9))
    with (
        filled(tmp_path / "vectors", rows, store_vectors=True) as shop,
        pytest.raises(CollectionError, match="keeps vectors of the present embedding model"),
    ):
        shop.migrate(new[:30], np.arange(30) + 7)


def test_milvus_says_that_it_cannot(milvus_uri, rows):
    with filled(milvus_uri, rows) as shop, pytest.raises(UnsupportedByStoreError, match="no transactions"):
        shop.migrate(rows[1][:50], np.arange(50) + 7)
