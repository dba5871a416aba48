"""``hashlearn index migrate``: estimate, replace, undo."""

import json

import numpy as np
import pytest
from letters_model import letters

from hashlearn.collection import Collection

__all__ = ["letters"]  # a fixture


@pytest.fixture
def shop(call, model, folder):
    assert call("index", "create", "shop", "--model", "model.hl")[0] == 0
    assert call("index", "add", "shop", "X.npy")[0] == 0
    X = np.load(folder / "X.npy")
    np.save(folder / "new.npy", X @ np.random.default_rng(0).normal(size=(6, 9)))
    np.save(folder / "ids.npy", np.arange(240))
    return folder / "shop"


def features(shop):
    with Collection.open(shop, read_only=True) as collection:
        return collection.hasher.n_features_in_


def test_estimate_migrate_and_undo(call, shop):
    code, out, _ = call("index", "migrate", "shop", "new.npy", "--ids", "ids.npy", "--dry-run", "--json")
    facts = json.loads(out)
    assert (code, facts["rows"], facts["left_out"], facts["migrated"]) == (0, 240, 48, False)
    assert facts["loss"] == pytest.approx(facts["before"] - facts["after"], abs=1e-3)
    assert features(shop) == 6
    code, out, _ = call("index", "migrate", "shop", "new.npy", "--ids", "ids.npy", "--labels", "y.npy", "--json")
    assert (code, json.loads(out)["relevant"]) == (0, "labels")
    assert features(shop) == 9
    assert call("index", "migrate", "shop", "--undo")[0] == 0
    assert features(shop) == 6


def test_kept_vectors_are_dropped_only_if_that_is_asked_for(call, shop, folder):
    assert call("index", "create", "kept", "--model", "model.hl", "--vectors")[0] == 0
    assert call("index", "add", "kept", "X.npy")[0] == 0
    migrate = ("index", "migrate", "kept", "new.npy", "--ids", "ids.npy")
    code, _, err = call(*migrate)
    assert code == 1
    assert "(on the command line: --vectors drop)" in err
    assert call(*migrate, "--dry-run")[0] == 0
    assert call("search", "kept", "X.npy", "--rescore", "2")[0] == 0
    assert call(*migrate, "--vectors", "drop")[0] == 0
    assert call("search", "kept", "new.npy", "--rescore", "2")[0] == 1
    assert call("index", "migrate", "kept", "--undo")[0] == 0
    assert call("search", "kept", "X.npy", "--rescore", "2")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["new.npy"], 2, "Give embeddings X of some rows and --ids, or --embed alone, or --undo."),
        (["new.npy", "--undo"], 2, "--undo takes nothing else but --vectors."),
        (["--undo"], 1, "there is no migration to undo."),
        (["new.npy", "--ids", "ids.npy", "--max-loss", "-1"], 1, "stays as it is"),
    ],
)
def test_mistakes_are_one_sentence_and_change_nothing(arguments, code, sentence, call, shop):
    got, out, err = call("index", "migrate", "shop", *arguments)
    assert (got, out) == (code, "")
    assert sentence in err
    assert features(shop) == 6


@pytest.fixture
def faq(call, tmp_path, letters):
    """A collection of texts by the model "old"; new.npy has them by the model "wide", with a note beside it."""
    lines = [f"{verb} my {thing}" for verb in ("lost", "found", "sold") for thing in "abcdefghij"]
    (tmp_path / "t.csv").write_text("question\n" + "".join(f"{line}\n" for line in lines))
    np.save(tmp_path / "ids.npy", np.arange(30))
    for words in (
        ("fit", "t.csv", "--text", "question", "--embed", "old", "--method", "lsh", "--bits", 32, "-o", "m.hl"),
        ("index", "create", "faq", "--model", "m.hl"),
        ("index", "add", "faq", "t.csv", "--text", "question"),
        ("data", "embed", "t.csv", "--text", "question", "--model", "wide", "-o", "new.npy"),
    ):
        code, _, error = call(*words)
        assert code == 0, error
    return tmp_path


def searched(call):
    code, out, error = call("search", "faq", "--text", "lost my a", "-k", 1, "--json")
    return (code, json.loads(out)["results"][0][0]) if code == 0 else (code, error)


def test_the_text_model_comes_from_the_note_beside_the_embeddings(call, faq, letters):
    letters.loaded.clear()
    code, out, _ = call("index", "migrate", "faq", "new.npy", "--ids", "ids.npy", "--json")
    assert (code, json.loads(out)["text_model"]) == (0, "wide")
    assert letters.loaded == []  # a machine without the model can migrate too
    code, hit = searched(call)
    assert (code, hit["distance"] <= 4) == (0, True)
    assert call("index", "migrate", "faq", "--undo")[0] == 0
    assert searched(call)[1]["distance"] == 0


def test_the_text_model_is_named_at_the_migration_or_later(call, faq):
    np.save(faq / "plain.npy", np.load(faq / "new.npy"))
    migrate = ("index", "migrate", "faq", "plain.npy", "--ids", "ids.npy")
    code, _, error = call(*migrate, "--embed", "other")
    assert (code, "makes rows of 26 numbers, the hasher takes 52" in error) == (2, True)
    assert call(*migrate)[0] == 0
    code, error = searched(call)
    assert code == 2
    assert "was migrated to an embedding model whose name it does not know" in error
    assert "index migrate --embed NAME" in error
    code, out, _ = call("index", "migrate", "faq", "--embed", "wide", "--json")
    assert (code, json.loads(out)["text_model"]) == (0, "wide")
    assert searched(call)[0] == 0
    assert call("index", "migrate", "faq", "--undo", "--embed", "wide")[0] == 2
    assert call("index", "migrate", "faq", "--embed", "wide", "--dry-run")[0] == 2
    assert call("index", "migrate", "faq", "--undo")[0] == 0
    assert call(*migrate, "--embed", "wide")[0] == 0
    assert json.loads(call("index", "info", "faq", "--json")[1])["text_model"] == "wide"
