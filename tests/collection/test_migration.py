"""``Collection.migrate``: the model is replaced, all or nothing, and can be put back; codes stay as they are."""

import numpy as np
import pytest
from letters_model import letters

import hashlearn as hl
from hashlearn.collection import Collection, CollectionError
from hashlearn.collection.stores.milvus import link as milvus_link
from hashlearn.data.embed import TextModelError, embed_texts

__all__ = ["letters"]  # a fixture


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    y = rng.integers(4, size=400)
    X = rng.normal(size=(400, 10)) + 2 * rng.normal(size=(4, 10))[y]
    return X, X @ rng.normal(size=(10, 16)), y, hl.ITQ(16, random_state=0).fit(X)


@pytest.fixture(params=["folder", "postgres", "milvus"])
def place(request, tmp_path):
    return str(tmp_path / "shop") if request.param == "folder" else request.getfixturevalue(f"{request.param}_uri")


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


def test_a_loss_that_is_too_large_changes_nothing(tmp_path, rows):
    place = tmp_path / "shop"
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


def test_kept_vectors_are_dropped_only_if_that_is_asked_for_and_come_back(place, rows):
    X, new, _, _ = rows
    ids = np.arange(400) + 7
    with filled(place, rows, store_vectors=True) as shop, Collection.open(place) as reader:
        with pytest.raises(CollectionError, match="keeps vectors of the present embedding model"):
            shop.migrate(new[:50], ids[:50])
        with pytest.raises(ValueError, match=r"must be None or 'drop'\. Got 'keep' instead"):
            shop.migrate(new[:50], ids[:50], vectors="keep")
        shop.migrate(new[:200], ids[:200], vectors="drop")
        assert shop.vector_size is None
        assert shop.get(7).vector is None
        with pytest.raises(CollectionError, match="keeps no vectors to rescore by"):
            shop.search(new[:1], 1, rescore=True)
        assert not shop.verify().problems
        # The reader goes on as before, until rows come that have no vectors of its model.
        np.testing.assert_array_equal(reader.search(X[:5], 1, rescore=True).ids[:, 0], ids[:5])
        shop.add(new[:2], ids=[7, 1000])
        with pytest.raises(CollectionError, match="dropped the vectors of this collection since it was opened"):
            reader.get([7, 8])
        with pytest.raises(
            CollectionError, match=r"2 rows of .* were added or replaced after its vectors were dropped"
        ):
            shop.undo_migration()
        assert shop.hasher.n_features_in_ == 16
        assert shop.delete([7, 1000]) == 2
    with Collection.open(place) as again:
        assert not again.verify().problems
        again.undo_migration()
        assert again.vector_size == 10
        np.testing.assert_allclose(again.get(8).vector, X[1].astype(np.float32))
        np.testing.assert_array_equal(again.search(X[1:5], 1, rescore=True).ids[:, 0], ids[1:5])
        again.add(X[:1], ids=[7])
        assert not again.verify().problems


@pytest.mark.parametrize("place", ["folder", "postgres"], indirect=True)
def test_a_hasher_comes_back_without_the_vectors_of_rows_that_have_none(place, rows):
    X, new, _, _ = rows
    with filled(place, rows, store_vectors=True) as shop:
        shop.migrate(new[:200], np.arange(200) + 7, vectors="drop")
        shop.add(new[:1], ids=[1000])
        shop.undo_migration(vectors="drop")
        assert (shop.hasher.n_features_in_, shop.vector_size) == (10, None)
        np.testing.assert_array_equal(shop.search(X[:5], 1).distances, 0)
    with Collection.open(place) as again:
        assert again.vector_size is None
        again.add(X[:3])
        assert not again.verify().problems


def test_dropped_vectors_are_in_a_backup(tmp_path, rows):
    X, new, _, _ = rows
    with filled(tmp_path / "shop", rows, store_vectors=True) as shop:
        shop.migrate(new[:200], np.arange(200) + 7, vectors="drop")
        shop.compact()
        shop.backup(tmp_path / "backup")
    with Collection.restore(tmp_path / "backup", tmp_path / "again") as again:
        again.undo_migration()
        np.testing.assert_allclose(again.get(8).vector, X[1].astype(np.float32))


def test_on_milvus_a_crash_before_the_end_leaves_the_old_model(milvus_uri, rows, monkeypatch):
    X, new, _, _ = rows
    with filled(milvus_uri, rows) as shop:
        write = milvus_link._write

        def crash(link, first_part, texts):
            if texts[0].startswith("{"):
                raise KeyboardInterrupt
            write(link, first_part, texts)

        monkeypatch.setattr(milvus_link, "_write", crash)
        with pytest.raises(KeyboardInterrupt):
            shop.migrate(new[:200], np.arange(200) + 7)
        monkeypatch.undo()
        with Collection.open(milvus_uri) as again:
            np.testing.assert_array_equal(again.search(X[:5], 1).distances, 0)
            again.migrate(new[:200], np.arange(200) + 7)
            again.migrate(X[:200], np.arange(200) + 7)
    with Collection.open(milvus_uri) as third:
        assert third.hasher.n_features_in_ == 10
        third.undo_migration()
        assert third.hasher.n_features_in_ == 16


TEXTS = [f"{verb} my {thing}" for verb in ("lost", "found", "sold", "bought", "broke") for thing in "abcdefghij"]


def text_collection(place):
    hasher = hl.LSH(32, random_state=0).fit(embed_texts(TEXTS, "old"))
    faq = Collection.create(place, hasher, text_model="old")
    faq.add(texts=TEXTS, ids=np.arange(50))
    return faq


def test_texts_are_never_embedded_by_the_model_before_the_migration(place, letters):
    with text_collection(place) as faq:
        faq.migrate(embed_texts(TEXTS, "new"), np.arange(50))  # as many features as the old model has
        assert faq.text_model is None
        for call in (faq.search, faq.within, faq.add):
            with pytest.raises(TextModelError, match=r"was migrated to an embedding model whose name it does not know"):
                call(texts="lost my a")
    with Collection.open(place) as again:
        with pytest.raises(TextModelError, match=r"was migrated"):
            again.search(texts="lost my a")
        again.set_text_model("new")
        assert again.search(texts="lost my a", k=1)[0].distance <= 4
        assert letters.loaded[-1] == "new"
        again.undo_migration()
        assert again.text_model == "old"
    with Collection.open(place) as third:
        assert third.search(texts="lost my a", k=1)[0].distance == 0


def test_a_migration_names_the_new_model(tmp_path, letters):
    X = embed_texts(TEXTS, "wide")
    with text_collection(tmp_path / "faq") as faq:
        with pytest.raises(TextModelError, match="'new' makes rows of 26 numbers, the hasher takes 52"):
            faq.migrate(X, np.arange(50), text_model="new")
        assert faq.text_model == "old"
        assert faq.search(texts="lost my a", k=1)[0].distance == 0  # by the old model, which is in memory from then on
        faq.migrate(X, np.arange(50), text_model="wide")
        assert faq.search(texts="lost my a", k=5).to_list() == faq.search(X[0], k=5).to_list()
    with Collection.open(tmp_path / "faq") as again:
        assert again.text_model == "wide"
        again.migrate(X, np.arange(50))
        assert again.text_model is None
        again.undo_migration()
        assert again.text_model == "wide"
        again.undo_migration()
        assert again.search(texts="lost my a", k=1)[0].distance == 0


def test_migrate_without_a_collection_names_the_model(letters):
    X = embed_texts(TEXTS, "old")
    hasher = hl.LSH(32, random_state=0).fit(X)
    assert hl.migrate(hasher, X, hasher.encode(X), text_model="new").text_model_ == "new"
    with pytest.raises(TextModelError, match="makes rows of 52 numbers"):
        hl.migrate(hasher, X, hasher.encode(X), text_model="wide")
