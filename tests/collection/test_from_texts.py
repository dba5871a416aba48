"""Collections of texts in one call: texts are embedded once, and a stopped call goes on."""

import json

import numpy as np
import pytest
from letters_model import letters
from typer.testing import CliRunner

import hashlearn as hl
from hashlearn.cli import app
from hashlearn.collection import CollectionExistsError

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
    refused = CliRunner().invoke(app, [*command[:-2], "--json"])
    assert "--from needs --text" in str(refused.exception)
