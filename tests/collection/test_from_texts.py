"""Collections of texts in one call: texts are embedded once, and a stopped call goes on."""

import json

import numpy as np
import pytest
from letters_model import letters
from typer.testing import CliRunner

import hashlearn as hl
from hashlearn.cli import app
from hashlearn.collection import CollectionError, CollectionExistsError

__all__ = ["letters"]  # a fixture

TEXTS = [f"{word} number {number}" for word in ("card lost", "rain today", "book flight") for number in range(20)]
LABELS = [name for name in ("card", "weather", "travel") for _ in range(20)]


def test_texts_with_labels_are_searched_at_once(letters, tmp_path):
    with hl.Collection.from_texts(tmp_path / "faq", TEXTS, LABELS, "m", payload={"source": ["a", "b"] * 30}) as faq:
        assert (len(faq), faq.text_model, type(faq.hasher).__name__) == (60, "m", "OpenHasher")
        assert letters.made == 1 + 60 or letters.made == 60  # each text is embedded once
        row = faq.get(21)
        assert row.payload == {"source": "b", "text": TEXTS[21], "label": "weather"}
        assert {item.payload["label"] for item in faq.get(range(60))} == set(LABELS)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["faq"]  # no file of vectors is left


def test_labels_may_be_missing(letters, tmp_path):
    some = [label if number % 2 else None for number, label in enumerate(LABELS)]
    with hl.Collection.from_texts(tmp_path / "some", TEXTS, some, "m") as faq:
        assert "label" not in faq.get(0).payload
        assert faq.get(1).payload["label"] == "card"
    with hl.Collection.from_texts(":memory:", TEXTS, model="m", text_field=None) as plain:
        assert (len(plain), plain.get(0).payload) == (60, {})


def test_a_stopped_call_goes_on(letters, tmp_path):
    letters.stop_after = 30
    with pytest.raises(KeyboardInterrupt):
        hl.Collection.from_texts(tmp_path / "faq", TEXTS, LABELS, "m")
    made, letters.stop_after = letters.made, None
    with hl.Collection.from_texts(tmp_path / "faq", TEXTS, LABELS, "m") as faq:
        assert len(faq) == 60
    assert letters.made - made <= 40  # a shard of ten texts may be embedded again


def test_a_stop_while_rows_are_added_loses_nothing(letters, tmp_path, monkeypatch):
    add = hl.Collection.add

    def stopped(self, *args, **options):
        monkeypatch.setattr(hl.Collection, "add", add)
        raise KeyboardInterrupt

    monkeypatch.setattr(hl.Collection, "add", stopped)
    with pytest.raises(KeyboardInterrupt):
        hl.Collection.from_texts(tmp_path / "faq", TEXTS, LABELS, "m")
    made = letters.made
    with hl.Collection.from_texts(tmp_path / "faq", TEXTS, LABELS, "m") as faq:
        assert len(faq) == 60
    assert letters.made == made  # all vectors were kept


def test_what_cannot_be_is_said_before_anything_is_embedded(letters, tmp_path):
    hl.Collection.from_texts(tmp_path / "faq", TEXTS, LABELS, "m").close()
    made = letters.made
    with pytest.raises(CollectionExistsError, match="already a collection"):
        hl.Collection.from_texts(tmp_path / "faq", TEXTS, LABELS, "m")
    with pytest.raises(ValueError, match="Got 59 labels and 60 texts"):
        hl.Collection.from_texts(tmp_path / "b", TEXTS, LABELS[1:], "m")
    with pytest.raises(ValueError, match="field 'text' already"):
        hl.Collection.from_texts(tmp_path / "b", TEXTS, LABELS, "m", payload={"text": TEXTS})
    with pytest.raises(ValueError, match="a list of texts"):
        hl.Collection.from_texts(tmp_path / "b", "one text", model="m")
    with pytest.raises(ValueError, match="row_ids"):
        hl.Collection.from_texts(tmp_path / "b", TEXTS, model="m", ids="text")
    assert letters.made == made
    assert not (tmp_path / "b").exists()


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"token": "x"}, ValueError, "token= is for collections on a server"),
        ({"exist_ok": True}, ValueError, "goes on by itself"),
        ({"stor_vectors": True}, ValueError, "from_texts has no argument 'stor_vectors'. Did you mean 'store_vectors'"),
        ({"colour": 3}, (TypeError, ValueError), "colour"),
        ({"vector_size": 3}, ValueError, "store_vectors=True"),
        ({"kind": "tree"}, ValueError, "tree"),
        ({"indexed": "topic"}, ValueError, "a list of fields"),
        ({"ids": "words", "row_ids": range(60)}, ValueError, "Got 'words'"),
        ({"hasher": hl.ITQ(16), "n_bits": 32}, ValueError, "give the hasher this length"),
        ({"hasher": 7}, TypeError, "Got int instead"),
    ],
)
def test_wrong_settings_are_said_before_anything_is_embedded(letters, tmp_path, options, error, says):
    with pytest.raises(error, match=says):
        hl.Collection.from_texts(tmp_path / "faq", TEXTS, LABELS, "m", **options)
    assert not letters.loaded
    assert not list(tmp_path.iterdir())


def test_wrong_places_are_said_before_anything_is_embedded(letters, tmp_path):
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "collection.sqlite").write_text("no database")
    for place, says in (
        (tmp_path / "broken", "is not a collection|damaged|no database"),
        ("http://127.0.0.1:1/faq", "Cannot reach"),
    ):
        with pytest.raises(CollectionError, match=says) as caught:
            hl.Collection.from_texts(place, TEXTS, LABELS, "m")
        assert not isinstance(caught.value, CollectionExistsError)
    with pytest.raises(CollectionError, match="use AutoHasher"):
        hl.Collection.from_texts("milvus://127.0.0.1:1/faq", TEXTS, LABELS, "m", hasher=hl.OpenHasher(64))
    assert not letters.loaded


def test_texts_fill_a_collection_on_a_server(letters, http_uri, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    place, _, token = http_uri.partition("?token=")
    for wrong in (None, "no token"):
        with pytest.raises(CollectionError, match="token"):
            hl.Collection.from_texts(place, TEXTS, LABELS, "m", token=wrong)
    with pytest.raises(ValueError, match="colour"):
        hl.Collection.from_texts(place, TEXTS, LABELS, "m", token=token, colour=3)
    assert not letters.loaded
    letters.stop_after = 30
    with pytest.raises(KeyboardInterrupt):
        hl.Collection.from_texts(place, TEXTS, LABELS, "m", token=token, n_bits=64)
    made, letters.stop_after = letters.made, None
    with hl.Collection.from_texts(place, TEXTS, LABELS, "m", token=token, n_bits=64) as faq:
        assert (type(faq.hasher).__name__, faq.n_bits, faq.label_field, faq.text_field) == (
            "OpenHasher",
            64,
            "label",
            "text",
        )
        assert faq.search(texts=TEXTS[3], k=1, emphasis="alike")[0].payload["text"].startswith("card")
    assert letters.made - made <= 41
    assert not list(tmp_path.rglob("*.npy*"))
    with pytest.raises(CollectionExistsError):
        hl.Collection.from_texts(place, TEXTS, LABELS, "m", token=token)


def test_row_ids_and_vectors(letters, tmp_path):
    names = [f"q{number}" for number in range(60)]
    settings = {"ids": "text", "row_ids": names, "store_vectors": True}
    with hl.Collection.from_texts(tmp_path / "faq", TEXTS, LABELS, "m", **settings) as faq:
        assert faq.get("q7").payload["text"] == TEXTS[7]
        np.testing.assert_allclose(faq.get("q7").vector[0], TEXTS[7].count("a") + 0.1)


def test_index_create_from_a_table(letters, tmp_path):
    lines = [
        "question,topic,price",
        *(f"{text},{label},{number}" for number, (text, label) in enumerate(zip(TEXTS, LABELS, strict=True))),
    ]
    lines[5] = "card lost again,,4"
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    command = ["index", "create", str(tmp_path / "faq"), "--from", str(tmp_path / "t.csv"), "--text", "question"]
    done = CliRunner().invoke(app, [*command, "--labels", "topic", "--embed", "m", "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["rows"] == 60
    with hl.Collection.open(tmp_path / "faq") as faq:
        assert faq.get(0).payload == {"question": TEXTS[0], "topic": "card", "price": 0}
        assert (faq.text_field, faq.label_field) == ("question", "topic")
    refused = CliRunner().invoke(app, [*command[:-2], "--json"])
    assert "--from needs --text" in str(refused.exception)
