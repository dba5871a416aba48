"""Exported open hashers make the codes of ``encode`` and the score tables of ``query``."""

import runpy
import subprocess

import numpy as np
import onnx
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import hashlearn as hl
from export.runtimes import need_node, run_node
from hashlearn.index import ScoreTables
from hashlearn.models import as_hasher
from hashlearn.models.export import ExportError

NODE = """
import { readFileSync, writeFileSync } from "node:fs";
const [file, rows, out, emphasis] = process.argv.slice(1);
const { encode, query, score, nFeatures } = await import(file);
const bytes = readFileSync(rows);
const X = new Float32Array(bytes.buffer, bytes.byteOffset, bytes.length / 4);
const parts = [];
const first = encode(X.subarray(0, nFeatures));
for (let i = 0; i < X.length; i += nFeatures) {
  const tables = query(X.subarray(i, i + nFeatures), Number(emphasis));
  const scores = Float32Array.of(score(first, tables));
  for (const part of [tables.nibbles, tables.words, scores]) parts.push(new Uint8Array(part.buffer));
}
writeFileSync(out, Buffer.concat(parts));
"""


def of_classes(X, y):
    return hl.OpenHasher(64, n_landmarks=60, random_state=0).fit(X, y)


def with_unlabeled_rows(X, y):
    return hl.OpenHasher(64, n_landmarks=60, unlabeled=9, random_state=0).fit(X, y)


def of_label_sets(X, y):
    return hl.OpenHasher(32, n_landmarks=60, random_state=0).fit(X, np.stack([y % 2, y > 4, y % 3 > 0], axis=1))


def without_labels(X, y):
    return hl.OpenHasher(512, random_state=0).fit(X)  # more nibbles than axes


def after_a_scaler(X, y):
    steps = make_pipeline(StandardScaler(), hl.OpenHasher(64, n_landmarks=60, unlabeled=9, random_state=0)).fit(X, y)
    return as_hasher(steps)


MAKERS = [of_classes, with_unlabeled_rows, of_label_sets, without_labels, after_a_scaler]


def from_numpy(path, X, emphasis):
    made = runpy.run_path(str(path))
    return made["encode"](X), *made["query"](X, emphasis)


def from_onnx(path, X, emphasis):
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    takes_emphasis = [one.name for one in session.get_overridable_initializers()] == ["emphasis"]
    # 0.5 is what the input is if it is left out.
    given = {"emphasis": np.array(emphasis, dtype=np.float32)} if takes_emphasis and emphasis != 0.5 else {}
    found = session.run(None, {"rows": X, **given})
    return found if takes_emphasis else (*found, None)


def from_node(path, X, emphasis):
    (packed,) = run_node(path, X, codes_only=True)
    rows, out = path.with_suffix(".rows"), path.with_suffix(".out")
    command = [need_node(), "--input-type=module", "-e", NODE, str(path), str(rows), str(out), str(emphasis)]
    subprocess.run(command, check=True, timeout=600)
    found = np.fromfile(out, dtype="<f4").reshape(len(X), -1)
    nibbles, words = found[:, : -4096 - 1].reshape(len(X), -1, 16), found[:, -4096 - 1 : -1]
    np.testing.assert_allclose(found[:, -1], ScoreTables(nibbles, words).scores(packed[:1])[:, 0], rtol=1e-5)
    return packed, nibbles, words


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize(("ending", "run"), [("py", from_numpy), ("onnx", from_onnx), ("mjs", from_node)])
def test_codes_and_tables_of_other_runtimes(make, ending, run, digits, tmp_path):
    if ending == "mjs":
        need_node()
    X, y = digits
    hasher, rows = make(X[:400], y[:400]), X[600:640]
    hl.export(hasher, tmp_path / f"hasher.{ending}")
    for emphasis in (0, 0.5, 0.8):
        packed, nibbles, words = run(tmp_path / f"hasher.{ending}", rows, emphasis)
        np.testing.assert_array_equal(packed, hasher.encode(rows.astype(np.float64)))
        wanted = hasher.query(rows.astype(np.float64), emphasis)
        np.testing.assert_allclose(nibbles, wanted.nibbles, rtol=1e-5, atol=1e-8)
        if wanted.words is not None:
            np.testing.assert_allclose(words, wanted.words, rtol=1e-5, atol=1e-6)
        else:
            assert words is None or not words.any()


def test_numpy_scores_are_those_of_the_tables(digits, tmp_path):
    X, y = digits
    hasher = with_unlabeled_rows(X[:400], y[:400])
    hl.export(hasher, tmp_path / "hasher.py")
    made, packed = runpy.run_path(str(tmp_path / "hasher.py")), hasher.encode(X[600:700])
    found = made["scores"](packed, *made["query"](X[700:720], 0.7))
    np.testing.assert_allclose(found, hasher.query(X[700:720].astype(np.float64), 0.7).scores(packed), atol=1e-5)


def test_what_has_no_meaning_is_refused(digits, tmp_path):
    rows = digits[0][:2]
    for ending in ("py", "mjs", "onnx"):
        hl.export(of_classes(digits[0][:200], digits[1][:200]), tmp_path / f"hasher.{ending}")
    made = runpy.run_path(str(tmp_path / "hasher.py"))
    for name in ("encode_queries", "expected_bits"):
        with pytest.raises(ValueError, match=r"searched by query\(X, emphasis\)"):
            made[name](rows)
    assert [one.name for one in onnx.load(tmp_path / "hasher.onnx").graph.output] == ["codes", "nibbles", "words"]
    need_node()
    with pytest.raises(subprocess.CalledProcessError):
        run_node(tmp_path / "hasher.mjs", rows, stderr=subprocess.DEVNULL)


def test_postgres_gets_a_sentence(digits, tmp_path):
    with pytest.raises(ExportError, match="searched by tables of scores: export AutoHasher to it"):
        hl.export(of_classes(digits[0][:200], digits[1][:200]), tmp_path / "hasher.sql")
    assert list(tmp_path.iterdir()) == []
