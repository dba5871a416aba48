"""Exported hashers make the codes of ``encode``, in their own runtimes."""

import runpy
import subprocess

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, Normalizer

import hashlearn as hl
from export.conftest import MAKERS
from export.runtimes import need_node, opened_views, run_node, run_numpy, run_onnx, run_postgres, run_views
from hashlearn.functions.network import NetworkFunction
from hashlearn.hashers.pipeline import PipelineHasher
from hashlearn.models.export.steps import Description, Step
from hashlearn.models.export.to_onnx import FINITE_ROWS, onnx_model
from hashlearn.models.export.to_sql import sql_script

ENDINGS = {"numpy": "py", "js": "mjs", "onnx": "onnx", "sql": "sql"}
# The first network imports torch, which takes seconds.
KINDS = [
    pytest.param(name, marks=[pytest.mark.slow] if "network" in name or name == "chosen" else []) for name in MAKERS
]
SQL_KINDS = [name for name in MAKERS if name != "trees"]


def exported(hasher, folder, to):
    path = folder / f"small_hasher.{ENDINGS[to]}"
    hl.export(hasher, path, to=to)
    return path


def check(found, hasher, X, precision=1e-5):
    """Codes equal ``encode`` in double precision, and expected bits agree to single precision."""
    X = X.astype(np.float64)
    np.testing.assert_array_equal(found[0], hasher.encode(X))
    np.testing.assert_array_equal(found[1], hasher.encode_queries(X))
    wanted = hasher.expected_bits(X)
    np.testing.assert_allclose(found[2], wanted, atol=precision * np.abs(wanted).max())


@pytest.mark.parametrize(
    ("ending", "to"), [("onnx", "onnx"), ("sql", "sql"), ("js", "js"), ("MJS", "js"), ("py", "numpy")]
)
def test_the_ending_names_the_target(ending, to, fitted, tmp_path):
    hl.export(fitted("linear"), tmp_path / f"hasher.{ending}")
    hl.export(fitted("linear"), tmp_path / "hasher.told", to=to, name="hasher" if to == "sql" else None)
    assert (tmp_path / f"hasher.{ending}").read_bytes() == (tmp_path / "hasher.told").read_bytes()


def test_an_ending_that_names_no_target(fitted, tmp_path):
    with pytest.raises(ValueError, match="The ending of hasher names no target: give one of onnx"):
        hl.export(fitted("linear"), tmp_path / "hasher")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("to", "run"), [("numpy", run_numpy), ("onnx", run_onnx)])
def test_codes_of_python_runtimes(kind, to, run, fitted, digits, tmp_path):
    X = digits[0][600:1200]
    check(run(exported(fitted(kind), tmp_path, to), X), fitted(kind), X)


@pytest.mark.parametrize("kind", KINDS)
def test_codes_of_node(kind, fitted, digits, tmp_path):
    need_node()
    X = digits[0][600:900]
    check(run_node(exported(fitted(kind), tmp_path, "js"), X), fitted(kind), X)


@pytest.mark.parametrize("kind", SQL_KINDS)
def test_codes_of_postgres(kind, fitted, digits, tmp_path, postgres_server):
    X = digits[0][600:700]
    path = exported(fitted(kind), tmp_path, "sql")
    with postgres_server.connect() as connection:
        found = run_postgres(path, X, connection)
    # pgvector adds up in single precision.
    check(found, fitted(kind), X, precision=1e-3)


@pytest.mark.parametrize("kind", SQL_KINDS)
@pytest.mark.parametrize("to", ["duckdb", "sqlite"])
def test_codes_of_views(kind, to, fitted, digits, tmp_path):
    X = digits[0][600:606]
    hl.export(fitted(kind), tmp_path / "shop.sql", to=to)
    check(run_views(tmp_path / "shop.sql", X, to), fitted(kind), X)


@pytest.mark.parametrize("to", ["duckdb", "sqlite"])
def test_views_follow_their_rows_and_a_script_runs_again(to, fitted, digits, tmp_path):
    X = digits[0][600:604].astype(np.float64)
    hl.export(fitted("kernel"), tmp_path / "other.sql", to=to, name="shop")
    hl.export(fitted("linear"), tmp_path / "shop.sql", to=to)
    db = opened_views(tmp_path / "other.sql", X, to)
    (db.execute if to == "duckdb" else db.executescript)((tmp_path / "shop.sql").read_text())
    db.execute("DELETE FROM rows_shop WHERE id = 2")
    found = db.execute("SELECT id, code FROM hash_shop ORDER BY id").fetchall()
    bits = ["".join(map(str, row)) for row in fitted("linear").transform(X)]
    assert found == [(row, bits[row]) for row in (0, 1, 3)]
    for wrong in ([1.0], [1.0] * 65):
        with pytest.raises(Exception, match=r"(?i)check constraint"):
            db.execute("INSERT INTO rows_shop VALUES (9, ?)", [wrong if to == "duckdb" else str(wrong)])
    if to == "duckdb":
        with pytest.raises(Exception, match=r"(?i)check constraint"):
            db.execute("INSERT INTO rows_shop VALUES (9, ?)", [[np.nan] * 64])


def test_a_generated_column_holds_codes(fitted, digits, tmp_path, postgres_server):
    """The functions are immutable, which PostgreSQL demands here."""
    X, hasher = digits[0][600:620], fitted("kernel")
    hl.export(hasher, tmp_path / "x.sql", to="sql", name="column_test")
    with postgres_server.connect() as connection:
        connection.execute((tmp_path / "x.sql").read_text())
        connection.execute(
            "CREATE TABLE goods (i int, x vector(64), code bit(20) GENERATED ALWAYS AS (hash_column_test(x)) STORED)"
        )
        for i, row in enumerate(X):
            connection.execute("INSERT INTO goods VALUES (%s, %s)", (i, str(row.tolist())))
        rows = connection.execute("SELECT code::text FROM goods ORDER BY i").fetchall()
        connection.execute("DROP TABLE goods")
    bits = np.array([list(row[0]) for row in rows]) == "1"
    np.testing.assert_array_equal(bits, hasher.transform(X.astype(np.float64)))


def test_the_numpy_file_is_short_and_refuses_other_rows(fitted, tmp_path):
    path = exported(fitted("kernel"), tmp_path, "numpy")
    assert len(path.read_text().splitlines()) < 100
    made = runpy.run_path(str(path))
    assert made["encode"](np.zeros((0, 64))).shape == (0, 3)
    with pytest.raises(ValueError, match=r"shape \(rows, 64\). Got \(2, 63\)"):
        made["encode"](np.zeros((2, 63)))


def test_codes_of_queries_are_their_own_where_thresholds_are_spread(fitted, digits):
    """So the other tests see that each runtime gives both."""
    hasher, X = fitted("spread thresholds"), digits[0][600:700]
    assert np.mean(hasher.encode(X) != hasher.encode_queries(X)) > 0.1


def test_rows_of_zeros(fitted, tmp_path):
    """A row without a length cannot be scaled to length 1, and stays as it is."""
    X, hasher = np.zeros((2, 64), dtype=np.float32), fitted("kernel")
    for to, run in (("numpy", run_numpy), ("onnx", run_onnx)):
        check(run(exported(hasher, tmp_path, to), X), hasher, X)


BAD_VALUES = pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf], ids=str)


def with_value(digits, value):
    """Rows of which only the last one, in the second block of the NumPy file, has a bad value."""
    X = digits[0][:600].copy()
    X[-1, 30] = value
    return X


@BAD_VALUES
@pytest.mark.parametrize("kind", ["linear", "kernel", "trees", "classifier", "posterior"])
def test_rows_that_are_not_finite_are_refused_as_by_encode(kind, value, fitted, digits, tmp_path):
    X, hasher = with_value(digits, value), fitted(kind)
    with pytest.raises(ValueError, match=r"contains (NaN|infinity)"):
        hasher.encode(X)
    made = runpy.run_path(str(exported(hasher, tmp_path, "numpy")))
    for name in ("encode", "encode_queries", "expected_bits"):
        with pytest.raises(ValueError, match="X contains NaN or infinity"):
            made[name](X)
    with pytest.raises(Exception, match=f"{FINITE_ROWS}.*out of data bounds"):
        run_onnx(exported(hasher, tmp_path, "onnx"), X)


@BAD_VALUES
def test_node_refuses_rows_that_are_not_finite(value, fitted, digits, tmp_path):
    need_node()
    with pytest.raises(subprocess.CalledProcessError) as raised:
        run_node(exported(fitted("kernel"), tmp_path, "js"), with_value(digits, value), stderr=subprocess.PIPE)
    assert b"RangeError: The row contains NaN or infinity." in raised.value.stderr


@BAD_VALUES
def test_postgres_refuses_rows_that_are_not_finite(value, fitted, tmp_path, postgres_server):
    """The type ``vector`` of pgvector holds finite numbers only."""
    path = exported(fitted("kernel"), tmp_path, "sql")
    with postgres_server.connect() as connection:
        connection.execute(path.read_text())
        with pytest.raises(Exception, match=r"(NaN|infinite value) not allowed in vector"):
            connection.execute("SELECT hash_small_hasher(array_fill(%s::real, ARRAY[64])::vector)", (float(value),))


def test_what_cannot_be_exported_says_so(fitted, digits, tmp_path):
    X, y = digits
    own = hl.GSDHP(4, function=Ridge(), random_state=0).fit(X[:200], y[:200])
    graph = hl.AGH(4, n_anchors=20, random_state=0).fit(X[:200])
    two_encoders = hl.methods.find_method("lin-v")(4, random_state=0).fit(X[:200], y[:200])
    pipeline = PipelineHasher.from_pipeline(make_pipeline(Normalizer("l1"), hl.ITQ(4)).fit(X[:200]))
    inner = PipelineHasher.from_pipeline(make_pipeline(MaxAbsScaler(), clone(two_encoders)).fit(X[:200], y[:200]))
    images = hl.ITQ(4, random_state=0).fit(X[:200])
    images.features_, images.function_ = None, NetworkFunction({"backbone": {"name": "alexnet"}}, {}, 4)
    for hasher, to, sentence in (
        (two_encoders, "js", "has one encoder for queries and another for database rows"),
        (inner, "js", "has one encoder for queries and another for database rows"),
        (pipeline, "js", r"The step Normalizer\(norm='l1'\) of the pipeline cannot be exported"),
        (images, "onnx", "The network has the backbone 'alexnet', which cannot be exported"),
        (own, "onnx", "hash function Ridge cannot be exported"),
        (graph, "numpy", "hash function AnchorGraphFunction cannot be exported"),
        (fitted("trees"), "sql", "Trees cannot be exported to SQL"),
        (fitted("trees"), "sqlite", "The step 'trees' of this hasher cannot be exported to tables of SQL"),
    ):
        with pytest.raises(hl.ExportError, match=sentence):
            hl.export(hasher, tmp_path / "none", to=to)
    with pytest.raises(ValueError, match=r"to must be one of onnx, sql, duckdb, sqlite, js, numpy. Got 'java'"):
        hl.export(own, tmp_path / "none", to="java")
    with pytest.raises(hl.ExportError, match="hash_Shop 1"):
        hl.export(fitted("linear"), tmp_path / "none", to="sql", name="Shop 1")
    assert list(tmp_path.iterdir()) == []


def test_a_step_that_a_target_does_not_know_is_an_export_error():
    class Unknown(Step):
        name = "unknown"

    description = Description("Own", 4, 8, (Unknown(),), None, None, None)
    with pytest.raises(hl.ExportError, match="The step 'unknown' of this hasher cannot be exported to ONNX"):
        onnx_model(description)
    with pytest.raises(hl.ExportError, match="The step 'unknown' of this hasher cannot be exported to SQL"):
        sql_script(description, "own", "sql")
