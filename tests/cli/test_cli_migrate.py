"""``hashlearn index migrate``: estimate, replace, undo."""

import json

import numpy as np
import pytest

from hashlearn.collection import Collection


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
    assert call(*migrate, "--vectors", "drop")[0] == 0
    assert call("search", "kept", "new.npy", "--rescore", "2")[0] == 1
    assert call("index", "migrate", "kept", "--undo")[0] == 0
    assert call("search", "kept", "X.npy", "--rescore", "2")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["new.npy"], 2, "Give embeddings X of some rows and --ids, or --undo."),
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
