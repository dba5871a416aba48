"""Exported open hashers make the codes of ``encode``."""

import numpy as np
import pytest

import hashlearn as hl
from export.runtimes import need_node, run_node, run_numpy, run_onnx
from hashlearn.models.export import ExportError


def of_classes(X, y):
    return hl.OpenHasher(64, n_landmarks=60, random_state=0).fit(X, y)


def of_label_sets(X, y):
    return hl.OpenHasher(32, n_landmarks=60, random_state=0).fit(X, np.stack([y % 2, y > 4, y % 3 > 0], axis=1))


def without_labels(X, y):
    return hl.OpenHasher(512, random_state=0).fit(X)  # more nibbles than axes


@pytest.mark.parametrize("make", [of_classes, of_label_sets, without_labels])
@pytest.mark.parametrize(("ending", "run"), [("py", run_numpy), ("onnx", run_onnx), ("mjs", run_node)])
def test_codes_of_other_runtimes(make, ending, run, digits, tmp_path):
    if ending == "mjs":
        need_node()
    X, y = digits
    hasher, rows = make(X[:400], y[:400]), X[600:800]
    hl.export(hasher, tmp_path / f"hasher.{ending}")
    np.testing.assert_array_equal(run(tmp_path / f"hasher.{ending}", rows)[0], hasher.encode(rows.astype(np.float64)))


def test_postgres_gets_a_sentence(digits, tmp_path):
    with pytest.raises(ExportError, match="searched by tables of scores: export AutoHasher to it"):
        hl.export(of_classes(digits[0][:200], digits[1][:200]), tmp_path / "hasher.sql")
    assert list(tmp_path.iterdir()) == []
