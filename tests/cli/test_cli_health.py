"""``hashlearn index health``: figures of rows and queries, and an exit code that tells of drift."""

import json

import numpy as np
import pytest


@pytest.fixture
def shop(call, model, folder):
    assert call("index", "create", "shop", "--model", "model.hl")[0] == 0
    assert call("index", "add", "shop", "X.npy")[0] == 0
    np.save(folder / "noise.npy", np.random.default_rng(1).normal(size=(200, 6)))
    return folder / "shop"


def test_rows_alone_are_never_drifted(call, shop):
    code, out, err = call("index", "health", "shop", "--json")
    facts = json.loads(out)
    assert (code, err) == (0, "")
    assert (facts["rows"], facts["looked_at"], facts["queries"]) == (240, 240, 0)
    assert facts["confidence"] is facts["drifted"] is None
    assert 0 < facts["trained_confidence"] <= 1


def test_the_exit_code_tells_of_drift(call, shop):
    code, out, _ = call("index", "health", "shop", "Xq.npy", "--json")
    usual = json.loads(out)
    assert (code, usual["queries"], usual["drifted"]) == (0, 30, False)
    code, out, _ = call("index", "health", "shop", "noise.npy", "--json")
    drifted = json.loads(out)
    assert (code, drifted["queries"], drifted["drifted"]) == (1, 200, True)
    assert drifted["relative_confidence"] < 0.9 < usual["relative_confidence"]
    assert drifted["near_threshold"] > usual["near_threshold"]
    assert call("index", "health", "shop", "noise.npy", "--least", "0.1")[0] == 0


def test_codes_without_a_hasher_say_that_queries_cannot_be_judged(call, folder):
    np.save(folder / "codes.npy", np.zeros((5, 2), dtype=np.uint8))
    assert call("index", "create", "codes", "--bits", "16")[0] == 0
    assert call("index", "add", "codes", "--codes", "codes.npy")[0] == 0
    code, out, err = call("index", "health", "codes", "Xq.npy")
    assert code == 0
    assert "distinct codes" in out
    assert "has no hasher, so nothing is known about its queries" in err
