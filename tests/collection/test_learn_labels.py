"""Labels that come later: the hasher is fitted again, and codes and hasher are replaced together or not at all."""

import json

import numpy as np
import pytest
from letters_model import letters
from sklearn.datasets import load_digits
from typer.testing import CliRunner

import hashlearn as hl
from hashlearn.cli import app
from hashlearn.collection import CollectionError, UnsupportedByStoreError

__all__ = ["letters"]  # a fixture

WORDS = ("card lost", "rain today", "book flight")
TEXTS = [f"{WORDS[number % 3]} {'abcdefgh'[number % 8] * (number % 5)}" for number in range(60)]
LABELS = [("card", "weather", "travel")[number % 3] for number in range(60)]


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:600].astype(np.float32), y[:600]


@pytest.fixture(params=["folder", "memory", "http"])
def uri(request, tmp_path):
    if request.param == "http":
        return request.getfixturevalue("http_uri")
    return ":memory:" if request.param == "memory" else str(tmp_path / "shop")


def precision(shop, X, y, queries):
    hits = shop.search(X[queries], k=10, emphasis="label")
    return (y[hits.ids] == y[queries][:, None]).mean()


def test_labels_change_the_codes_and_nothing_else(uri, digits):
    X, y = digits
    hasher = hl.OpenHasher(32, n_landmarks=200, random_state=0, n_jobs=1).fit(X[:400])
    with hl.Collection.create(uri, hasher, store_vectors=True, indexed=["even"]) as shop:
        shop.add(X[:400], payload=[{"digit": int(one), "even": bool(one % 2 == 0)} for one in y[:400]])
        shop.delete([399])
        before = [(item.id, item.payload, item.vector.tolist()) for item in shop.get(range(399))]
        without = precision(shop, X, y, np.arange(400, 600))
        shop.learn_labels("digit")
        assert [(item.id, item.payload, item.vector.tolist()) for item in shop.get(range(399))] == before
        assert (shop.label_field, len(shop), shop.count({"even": True})) == (
            "digit",
            399,
            int((y[:399] % 2 == 0).sum()),
        )
        assert precision(shop, X, y, np.arange(400, 600)) > without + 0.05
        same = hl.OpenHasher(32, n_landmarks=200, random_state=0, n_jobs=1).fit(X[:399], y[:399])
        np.testing.assert_array_equal([item.code for item in shop.get(range(399))], same.encode(X[:399], y[:399]))
        assert shop.verify().problems == ()
        shop.add(X[400:410], labels=y[400:410])
        shop.learn_labels(y[:10].tolist(), ids=list(range(10)))
        assert shop.label_field == "digit"
        with pytest.raises(ValueError, match="Got 3 labels and 409 rows"):
            shop.learn_labels([1, 2, 3])
        with pytest.raises(CollectionError, match="1 of these 2 ids are not in"):
            shop.learn_labels([1, 2], ids=[3, 4000])
        with pytest.raises(ValueError, match="has a label in the field 'colour'"):
            shop.learn_labels("colour")


def test_labels_of_texts(letters, tmp_path):
    with hl.Collection.from_texts(tmp_path / "faq", TEXTS, model="m", n_bits=16) as faq:
        faq.update_payload(range(60), {"topic": LABELS})
        assert faq.label_field is None
    done = CliRunner().invoke(app, ["index", "learn", str(tmp_path / "faq"), "--labels", "topic", "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["label_field"] == "topic"
    with hl.Collection.open(tmp_path / "faq") as faq:
        assert (faq.text_model, faq.text_field, faq.hasher.report_ is not None) == ("m", "text", True)
        hits = faq.search(texts=TEXTS[:3], k=5, emphasis="label")
        assert [{hit.payload["topic"] for hit in hits[place]} for place in range(3)] == [{one} for one in LABELS[:3]]
        faq.update_payload([4], [{"text": ""}])
        with pytest.raises(CollectionError, match=r"Row 4 of .* has no text in its field 'text'"):
            faq.learn_labels()


def test_a_file_of_labels(digits, tmp_path):
    X, y = digits
    hasher = hl.OpenHasher(32, n_landmarks=100, random_state=0).fit(X[:200])
    with hl.Collection.create(tmp_path / "shop", hasher, store_vectors=True, ids="text") as shop:
        shop.add(X[:200], ids=[f"row {number}" for number in range(200)])
    (tmp_path / "y.csv").write_text("id,digit\n" + "".join(f"row {n},{y[n]}\n" for n in range(0, 200, 2)))
    command = ["index", "learn", str(tmp_path / "shop"), "--labels", f"{tmp_path / 'y.csv'}:digit"]
    done = CliRunner().invoke(app, [*command, "--ids", f"{tmp_path / 'y.csv'}:id"])
    assert done.exit_code == 0, done.output
    with hl.Collection.open(tmp_path / "shop") as shop:
        assert shop.hasher.query(X[:1], "label") is not None
        assert len(shop.hasher.classes_ if hasattr(shop.hasher, "classes_") else [1]) > 0
    assert CliRunner().invoke(app, [*command[:-1], "digit", "--ids", "x"]).exit_code != 0


def test_who_has_the_collection_open_is_told(digits, http_uri, tmp_path):
    X, y = digits
    hasher = hl.OpenHasher(32, n_landmarks=100, random_state=0).fit(X[:200])
    for place in (http_uri, tmp_path / "shop"):
        with hl.Collection.create(place, hasher, store_vectors=True) as shop, hl.Collection.open(place) as other:
            shop.add(X[:200])
            other.search(X[:1])
            shop.learn_labels(y[:200])
            shop.search(X[:1])
            for ask in (lambda it: it.search(X[:1]), lambda it: it.within(X[:1], 3.0), lambda it: it.add(X[:1])):
                with pytest.raises(CollectionError, match="open it again"):
                    ask(other)
            with hl.Collection.open(place) as again:
                assert again.search(X[:1], k=3).ids.tolist() == shop.search(X[:1], k=3).ids.tolist()


def test_nothing_is_changed_when_rows_change_meanwhile(digits, tmp_path, monkeypatch):
    X, y = digits
    hasher = hl.OpenHasher(32, n_landmarks=100, random_state=0).fit(X[:200])
    with hl.Collection.create(tmp_path / "shop", hasher, store_vectors=True) as shop:
        shop.add(X[:200])
        fit = hl.OpenHasher.fit

        def fit_and_add(self, *given):
            shop.add(X[200:201])
            return fit(self, *given)

        monkeypatch.setattr(hl.OpenHasher, "fit", fit_and_add)
        codes = [item.code for item in shop.get(range(200))]
        with pytest.raises(CollectionError, match="were added or removed meanwhile, so nothing was changed"):
            shop.learn_labels(y[:200])
        np.testing.assert_array_equal([item.code for item in shop.get(range(200))], codes)
        monkeypatch.undo()
        shop.learn_labels(y[:201])


def test_where_labels_cannot_be_learned(digits, tmp_path, postgres_uri):
    X, y = digits
    auto = hl.AutoHasher(32, random_state=0).fit(X[:200], y[:200])
    with hl.Collection.create(postgres_uri, auto, store_vectors=True) as shop:
        shop.add(X[:200], labels=y[:200])
        np.testing.assert_array_equal([item.code for item in shop.get(range(200))], auto.encode(X[:200], y[:200]))
        with pytest.raises(UnsupportedByStoreError, match="make the collection again"):
            shop.learn_labels(y[:200])
    with hl.Collection.create(":memory:", auto) as bare:
        bare.add(X[:200])
        with pytest.raises(CollectionError, match="keeps neither the vectors"):
            bare.learn_labels(y[:200])
        with pytest.raises(ValueError, match="names no field of labels"):
            bare.learn_labels()
    with hl.Collection.create(":memory:", n_bits=8) as coded, pytest.raises(CollectionError, match="has no hasher"):
        coded.learn_labels("topic")
