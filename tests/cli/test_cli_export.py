"""``hashlearn export``: a model file becomes a file for another runtime, or one sentence."""

import json
import runpy

import numpy as np
import pytest

from hashlearn.models import load


def test_the_command_writes_what_the_library_writes(call, model, folder):
    code, out, _ = call("export", "model.hl", "-o", "hasher.py", "--json")  # the ending names the runtime
    assert code == 0
    facts = json.loads(out)
    assert (facts["hasher"], facts["bits"], facts["to"], facts["file"]) == ("GSDHP", 12, "numpy", "hasher.py")
    assert facts["bytes"] == (folder / "hasher.py").stat().st_size
    X = np.load(folder / "X.npy")
    made = runpy.run_path(str(folder / "hasher.py"))
    np.testing.assert_array_equal(made["encode"](X), load(model).encode(X.astype(np.float64)))


def test_sql_functions_are_named_after_the_file(call, model, folder):
    assert call("export", "model.hl", "--to", "sql", "-o", "My shop.sql")[0] == 0
    assert "FUNCTION hash_my_shop(x vector) RETURNS bit(12)" in (folder / "My shop.sql").read_text()
    assert call("export", "model.hl", "--to", "sql", "-o", "a.sql", "--name", "books")[0] == 0
    assert "FUNCTION hash_books(x vector)" in (folder / "a.sql").read_text()


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["model.hl", "--to", "java", "-o", "a"], 2, "java"),
        (["model.hl", "-o", "a.java"], 2, "a.java names no target: give one of onnx, sql, duckdb, sqlite, js, numpy."),
        (["model.hl", "--to", "js", "-o", "a.mjs", "--name", "b"], 2, "--name is for --to sql"),
        (["model.hl", "--to", "js", "-o", "model.hl"], 2, "model.hl is read by this command"),
        (["model.hl", "--to", "js", "-o", "none/a.mjs"], 1, "the folder none does not exist"),
        (["X.npy", "--to", "js", "-o", "a.mjs"], 1, "X.npy"),
    ],
)
def test_mistakes_are_one_sentence_and_write_nothing(arguments, code, sentence, call, model, folder):
    before = sorted(folder.iterdir())
    got, out, err = call("export", *arguments)
    assert (got, out) == (code, "")
    assert sentence in err
    assert err.count("\n") == 1
    assert sorted(folder.iterdir()) == before
