"""Collections of an OpenHasher: emphasis, known labels, scores as distances, and sentences where they have no place."""

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import hashlearn as hl
from hashlearn.collection import UnsupportedByStoreError


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    return X[order].astype(np.float32), y[order]


@pytest.fixture(scope="module")
def hasher(digits):
    X, y = digits
    labels = np.where(y[:700] < 7, y[:700], -1)
    return hl.OpenHasher(64, n_landmarks=400, unlabeled=-1, random_state=0, n_jobs=1).fit(X[:700], labels)


@pytest.fixture(scope="module")
def shop(hasher, digits):
    X, y = digits
    shop = hl.Collection.create(":memory:", hasher, store_vectors=True)
    shop.add(X[700:1500], payload={"digit": y[700:1500].tolist()})
    yield shop
    shop.close()


@pytest.mark.parametrize("emphasis", [None, "alike", "label", 0.3])
def test_hits_are_those_of_the_tables(shop, hasher, digits, emphasis):
    X = digits[0]
    hits = shop.search(X[1500:1520], k=5, emphasis=emphasis)
    tables = hasher.query(X[1500:1520], "auto" if emphasis is None else emphasis)
    scores = tables.scores(hasher.encode(X[700:1500]))
    order = np.argsort(-scores, axis=1, kind="stable")[:, :5]
    np.testing.assert_array_equal(hits.ids, order)
    np.testing.assert_allclose(hits.distances, -np.take_along_axis(scores, order, axis=1), rtol=1e-6)
    assert shop.search(X[1500], k=5, emphasis=emphasis).ids.tolist() == order[0].tolist()


def test_label_words_that_cannot_hold_a_hit_are_skipped(shop, hasher, digits, tmp_path):
    queries, codes = digits[0][1500:1520], hasher.encode(digits[0][700:1500])
    skipped = {name: shop.search(queries, k=5, emphasis=name).skipped for name in ("alike", "auto", "label")}
    assert not skipped["alike"].any()
    assert skipped["auto"].max() > 0
    assert skipped["label"].min() > 400
    with hl.Collection.create(tmp_path / "plain", hasher, word_bits=None) as plain:
        plain.add(codes=codes)
        found = plain.search(queries, k=5, emphasis="label")
        assert not found.skipped.any()
        np.testing.assert_array_equal(found.ids, shop.search(queries, k=5, emphasis="label").ids)


def test_rows_of_equal_codes_come_by_id_and_rescoring_tells_them_apart(hasher, digits):
    row = digits[0][700]
    near = row + np.float32(1e-4) * np.arange(5, dtype=np.float32)[:, None] * (row > 0)  # more alike than codes tell
    assert len(np.unique(hasher.encode(near), axis=0)) == 1
    with hl.Collection.create(":memory:", hasher, store_vectors=True) as shop:
        shop.add(np.concatenate([digits[0][701:900], near]), ids=[*range(100, 299), 9, 8, 7, 6, 5])
        assert shop.search(near, k=5, emphasis="alike").ids.tolist() == [[5, 6, 7, 8, 9]] * 5
        found = shop.search(near, k=1, emphasis="alike", rescore=True, metric="euclidean")
        assert found.ids[:, 0].tolist() == [9, 8, 7, 6, 5]


def test_content_codes_are_searched_like_a_product_quantizer(digits, tmp_path):
    X = digits[0]
    hasher = hl.OpenHasher(64, random_state=0, n_jobs=1).fit(X[:500])
    with hl.Collection.create(tmp_path / "shop", hasher) as shop:
        shop.add(X[700:1500])
    with hl.Collection.open(tmp_path / "shop") as shop:
        hits = shop.search(X[1500:1510], k=5)
        scores = hasher.query(X[1500:1510]).scores(hasher.encode(X[700:1500]))
        np.testing.assert_array_equal(hits.ids, np.argsort(-scores, axis=1, kind="stable")[:, :5])


def test_filters_rescoring_and_opening_again(hasher, digits, tmp_path):
    X, y = digits
    with hl.Collection.create(tmp_path / "shop", hasher, store_vectors=True) as shop:
        shop.add(X[700:1500], payload={"digit": y[700:1500].tolist()})
    with hl.Collection.open(tmp_path / "shop") as shop:
        hits = shop.search(X[1500:1510], k=3, emphasis="label", where={"digit": {"<": 4}})
        assert all(hit.payload["digit"] < 4 for place in range(10) for hit in hits[place])
        exact = shop.search(X[700:760], k=1, emphasis="alike", rescore=True)
        assert exact.ids[:, 0].tolist() == list(range(60))


def test_a_stored_row_finds_itself_first(shop, hasher, digits):
    X = digits[0][700:1500]
    packed = hasher.encode(X)
    found = shop.search(X, k=1, emphasis="alike").ids[:, 0]
    np.testing.assert_array_equal(packed[found], packed)  # rows with equal codes cannot be told apart


def test_queries_by_stored_codes(shop, hasher, digits):
    codes = hasher.encode(digits[0][700:800])
    found = shop.search(codes=codes, k=1, emphasis="alike").ids[:, 0]
    assert (hasher.encode(digits[0][700:1500])[found] == codes).all()
    by_label = shop.search(codes=codes, k=10, emphasis="label")
    digit = digits[1][700:1500]
    known = digit[:100] < 7
    assert (digit[by_label.ids] == digit[:100, None])[known].mean() > 0.85


def test_known_labels_are_stored(hasher, digits):
    X, y = digits[0][700:900], digits[1][700:900]
    with hl.Collection.create(":memory:", hasher) as shop:
        shop.add(X, labels=y)
        shop.add(X[0], ids=5, labels=int(y[0]))
        np.testing.assert_array_equal(np.stack([item.code for item in shop])[6:], hasher.encode(X, y)[6:])
        np.testing.assert_array_equal(shop.get(5).code, hasher.encode(X[:1], y[:1])[0])
        with pytest.raises(ValueError, match=r"one label per row. Got 3 labels and 2 rows"):
            shop.add(X[:2], labels=[1, 2, 3])
        with pytest.raises(ValueError, match=r"codes hold their labels already"):
            shop.add(codes=hasher.encode(X[:1]), labels=[1])


def test_within_a_score(shop, digits):
    query = digits[0][1500]
    nearest = shop.search(query, k=8, emphasis="auto")
    ball = shop.within(query, radius=float(nearest.distances[-1]), emphasis="auto")
    assert ball.ids.tolist() == nearest.ids.tolist()
    with pytest.raises(ValueError, match=r"give radius= as the largest distance.* Got None instead"):
        shop.within(query)


def test_sentences_where_emphasis_has_no_place(shop, digits, tmp_path):
    X = digits[0]
    itq = hl.ITQ(16, random_state=0).fit(X[:100])
    with hl.Collection.create(":memory:", itq) as other:
        other.add(X[:10])
        with pytest.raises(ValueError, match=r"emphasis= is for codes of an OpenHasher.* codes of ITQ"):
            other.search(X[:1], emphasis="label")
        with pytest.raises(ValueError, match=r"labels= is for codes of an OpenHasher.* codes of ITQ"):
            other.add(X[:1], labels=[1])
    with pytest.raises(ValueError, match=r"asymmetric=True is for bits"):
        shop.search(X[:1], asymmetric=True)
    with pytest.raises(ValueError, match=r"emphasis must be 'alike', 'auto'"):
        shop.search(X[:1], emphasis="same")


def test_servers_get_a_sentence_that_names_another_hasher(hasher):
    for uri in ("postgresql://user:secret@host/db", "milvus://host:1/name"):
        with pytest.raises(
            UnsupportedByStoreError, match=r"cannot search by tables of scores.* use AutoHasher"
        ) as found:
            hl.Collection.create(uri, hasher)
        assert "secret" not in str(found.value)


def test_a_new_embedding_model_finds_codes_of_the_old_one(hasher, digits, tmp_path):
    X, y = digits
    new = np.tanh(X / 16 @ np.random.default_rng(0).normal(size=(64, 90))).astype(np.float32)  # of the same images
    with hl.Collection.create(tmp_path / "shop", hasher) as shop:
        shop.add(X[700:1500], labels=y[700:1500])
        before = shop.search(X[1500:1600], k=5, emphasis="label").ids
        report = shop.migrate(new[700:1500], range(800), y[700:1500])
        assert report.before > 0.9
        assert report.loss < 0.1
    with hl.Collection.open(tmp_path / "shop") as shop:
        found = shop.search(new[1500:1600], k=5, emphasis="label").ids
        right = [(y[700:1500][ids] == y[1500:1600, None]).mean() for ids in (before, found)]
        assert right[1] > right[0] - 0.1
        assert (shop.search(new[700:760], k=1, emphasis="alike").ids[:, 0] < 800).all()
        shop.undo_migration()
        np.testing.assert_array_equal(shop.search(X[1500:1600], k=5, emphasis="label").ids, before)


def test_codes_cannot_be_joined(digits):
    X = digits[0]
    with pytest.raises(TypeError, match=r"JoinedHasher takes hashers of single bits"):
        hl.JoinedHasher([hl.OpenHasher(16), hl.ITQ(8)]).fit(X[:50])


def test_health_and_a_pipeline(shop, digits):
    X, y = digits
    assert shop.health().rows == 800
    pipeline = make_pipeline(StandardScaler(), hl.OpenHasher(32, n_landmarks=100, random_state=0)).fit(X[:400], y[:400])
    with hl.Collection.create(":memory:", pipeline) as other:
        other.add(X[400:600], labels=y[400:600])
        scores = (
            pipeline[-1]
            .query(pipeline[:-1].transform(X[600:605]), "label")
            .scores(pipeline[-1].encode(pipeline[:-1].transform(X[400:600]), y[400:600]))
        )
        np.testing.assert_array_equal(other.search(X[600:605], k=1, emphasis="label").ids[:, 0], scores.argmax(axis=1))


def test_the_command_line_takes_emphasis(shop, hasher, digits, tmp_path):
    import json

    from typer.testing import CliRunner

    from hashlearn.cli import app

    X = digits[0]
    with hl.Collection.create(tmp_path / "shop", hasher) as stored:
        stored.add(X[700:1500])
    np.save(tmp_path / "Q.npy", X[1500:1502])
    place, queries = str(tmp_path / "shop"), str(tmp_path / "Q.npy")
    for emphasis in ("label", "0.25"):
        done = CliRunner().invoke(app, ["search", place, queries, "-k", "2", "--emphasis", emphasis, "--json"])
        wanted = shop.search(X[1500:1502], k=2, emphasis=emphasis if emphasis == "label" else 0.25)
        told = json.loads(done.stdout)
        assert [[row["id"] for row in rows] for rows in told["results"]] == wanted.ids.tolist()
        assert told["skipped"] == wanted.skipped.tolist()
    limit = str(float(shop.search(X[1500], k=4, emphasis=0.0).distances[-1]))
    done = CliRunner().invoke(app, ["search", place, queries, "--radius", limit, "--emphasis", "0", "--json"])
    told = json.loads(done.stdout)
    assert len(told["results"][0]) == 4
    assert "skipped" not in told  # a search of all rows skips none
