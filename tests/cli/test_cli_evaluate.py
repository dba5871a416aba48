"""``hashlearn evaluate``: the library's numbers from files, and no silent mix of unlike codes."""

import json

import numpy as np
import pytest

from hashlearn import metrics
from hashlearn.models import load, save

LABELS = ["--query-labels", "yq.npy", "--database-labels", "y.npy"]


@pytest.fixture
def encoded(call, model, folder):
    assert call("encode", "model.hl", "Xq.npy", "-o", "q.npy")[0] == 0
    assert call("encode", "model.hl", "X.npy", "-o", "db.npz", "--bit-order", "little")[0] == 0
    return folder


def arrays(folder):
    return [np.load(folder / f"{name}.npy") for name in ("Xq", "X", "yq", "y")]


def test_code_files_of_both_bit_orders_equal_the_model_and_the_library(call, encoded):
    Xq, X, yq, y = arrays(encoded)
    hasher = load(encoded / "model.hl")
    wanted = metrics.evaluate(hasher.encode(Xq), hasher.encode(X), yq, y, n_bits=12, at=50, database="hashed")
    rules = [*LABELS, "--at", 50, "--json"]
    _, out, _ = call("evaluate", "--queries", "q.npy", "--database", "db.npz", *rules)
    assert json.loads(out) == wanted.as_dict()
    _, out, _ = call("evaluate", "--queries", "Xq.npy", "--database", "X.npy", "--model", "model.hl", *rules)
    assert json.loads(out) == wanted.as_dict()


def test_learned_codes_say_so(call, encoded):
    _, out, _ = call("evaluate", "--queries", "q.npy", "--database", "learned.npy", *LABELS, "--json")
    assert json.loads(out)["settings"]["database"] == "learned"


def test_every_rule_arrives(call, encoded):
    options = ["--at", "all", "--radius", 1, "--precision-at", 3, "--ndcg-at", 7, "--ties", "pessimistic"]
    options += ["--denominator", "relevant", "--empty-queries", "drop", "--gain", "linear", "--relevance", "binary"]
    _, out, _ = call("evaluate", "--queries", "q.npy", "--database", "db.npz", *LABELS, *options, "--json")
    used = json.loads(out)["settings"]
    for name, value in (("at", "all"), ("radius", 1), ("precision_at", 3), ("ndcg_at", 7), ("ties", "pessimistic")):
        assert used[name] == value
    for name, value in (("denominator", "relevant"), ("empty_queries", "drop"), ("gain", "linear")):
        assert used[name] == value
    _, out, _ = call("evaluate", "--queries", "q.npy", "--database", "db.npz", *LABELS, *options, "--paper", "--json")
    used = json.loads(out)["settings"]
    assert (used["ties"], used["denominator"], used["empty_queries"]) == ("stable", "retrieved", "zero")
    assert used["gain"] == "exp"


def test_float_baseline(call, encoded):
    Xq, X, yq, y = arrays(encoded)
    for metric in ("cosine", "euclidean"):
        _, out, _ = call(
            "evaluate", "--queries", "Xq.npy", "--database", "X.npy", *LABELS, "--floats", metric, "--json"
        )
        assert json.loads(out) == metrics.evaluate_floats(Xq, X, yq, y, metric=metric).as_dict()


def test_projections_search_asymmetrically(call, encoded):
    Xq, X, yq, y = arrays(encoded)
    hasher = load(encoded / "model.hl")
    assert call("encode", "model.hl", "Xq.npy", "-o", "p.npy", "--format", "projections")[0] == 0
    _, out, _ = call("evaluate", "--queries", "p.npy", "--database", "db.npz", *LABELS, "--json")
    wanted = metrics.evaluate(hasher.decision_function(Xq), hasher.encode(X), yq, y, n_bits=12)
    assert json.loads(out)["map"] == pytest.approx(wanted.map, abs=1e-12)
    code, _, err = call("evaluate", "--queries", "p.npy", "--database", "p.npy", *LABELS[:3], "yq.npy")
    assert (code, "p.npy holds floats" in err) == (1, True)


def test_expected_bits_of_queries(call, encoded):
    Xq, X, yq, y = arrays(encoded)
    hasher = load(encoded / "model.hl")
    hasher._set_thresholds(0.75)
    save(hasher, encoded / "spread.hl")
    both = ("evaluate", "--queries", "Xq.npy", "--database", "X.npy", *LABELS, "--json")
    for queries, options in ((hasher.encode_queries(Xq), ()), (hasher.expected_bits(Xq), ("--asymmetric",))):
        _, out, _ = call(*both, "--model", "spread.hl", *options)
        wanted = metrics.evaluate(queries, hasher.encode(X), yq, y, n_bits=12)
        assert json.loads(out)["map"] == pytest.approx(wanted.map, abs=1e-12)
    assert "needs --model" in call(*both, "--floats", "cosine", "--asymmetric")[2]


def test_text_names_the_definitions(call, encoded):
    code, out, err = call("evaluate", "--queries", "q.npy", "--database", "db.npz", *LABELS)
    assert (code, err) == (0, "")
    assert out.startswith("MAP@500 ")
    assert "ties=expected, denominator=retrieved" in out


def test_bare_codes_need_their_bits(call, encoded):
    for name in ("q.npy", "learned.npy"):
        (encoded / f"{name}.json").unlink()
    rules = ["--queries", "q.npy", "--database", "learned.npy", *LABELS, "--json"]
    code, _, err = call("evaluate", *rules)
    assert code == 1
    assert "q.npy does not say how many bits its codes have" in err
    code, out, _ = call("evaluate", *rules, "--bits", 12)
    assert code == 0
    assert json.loads(out)["settings"]["database"] == "codes"


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["Xq.npy", "X.npy"], 2, "Xq.npy holds floats, not codes: add --model model.hl or --floats cosine."),
        (["q.npy", "db.npz", "--at", "few"], 2, "--at must be a number from 1, or all. Got 'few'."),
        (["q.npy", "db.npz", "--ties", "random"], 2, "--ties"),
        (["Xq.npy", "X.npy", "--floats", "cosine", "--model", "model.hl"], 2, "--model or --floats, not both"),
        (["q.npy", "q.npy"], 1, "y.npy has 240 labels, q.npy has 30 rows."),
        (["Xq.npy", "Xq.npy", "--floats", "dot"], 1, "y.npy has 240 labels, Xq.npy has 30 rows."),
    ],
)
def test_mistakes_are_one_sentence(arguments, code, sentence, call, encoded):
    queries, database, *rest = arguments
    got, out, err = call("evaluate", "--queries", queries, "--database", database, *LABELS, *rest)
    assert (got, out) == (code, "")
    assert err.startswith("hashlearn: ")
    assert sentence in err
    assert err.count("\n") == 1


def test_other_bits_and_other_models(call, encoded):
    small = ["--method", "gsdhp", "--set", "n_landmarks=20", "--set", "n_anchors=20"]
    for bits, name in ((16, "wide"), (12, "other")):
        assert call("fit", "X.npy", "-y", "y.npy", "--bits", bits, "-o", f"{name}.hl", *small)[0] == 0
        assert call("encode", f"{name}.hl", "X.npy", "-o", f"{name}.npy")[0] == 0
    code, _, err = call("evaluate", "--queries", "q.npy", "--database", "wide.npy", *LABELS)
    assert (code, err) == (1, "hashlearn: q.npy has codes of 12 bits, wide.npy of 16.\n")
    code, _, err = call("evaluate", "--queries", "q.npy", "--database", "other.npy", *LABELS)
    assert (code, err) == (0, "hashlearn: warning: the codes come from different models (model.hl, other.hl).\n")


def test_labels_of_two_kinds_are_an_error_that_names_the_files(call, encoded):
    (encoded / "yq.txt").write_text("cat\n" * 30)
    labels = ["--query-labels", "yq.txt", "--database-labels", "y.npy"]
    code, out, err = call("evaluate", "--queries", "q.npy", "--database", "db.npz", *labels)
    assert (code, out) == (1, "")
    assert err == (
        "hashlearn: yq.txt holds strings ('cat') and y.npy numbers (0), so no label of one side can equal one of the "
        "other: give both sides labels of one kind.\n"
    )


def test_unlabeled_rows_are_left_out_and_counted(call, encoded):
    y = np.load(encoded / "y.npy").astype(float)
    codes = ["evaluate", "--queries", "q.npy", "--database", "db.npz", "--query-labels", "yq.npy"]
    found = []
    for name, mark, more in (("nan", np.nan, []), ("minus", -1, ["--unlabeled", "-1"])):
        np.save(encoded / f"{name}.npy", np.where(np.arange(240) % 2, y, mark))
        code, out, err = call(*codes, "--database-labels", f"{name}.npy", *more, "--json")
        assert (code, err) == (0, "")
        found.append(json.loads(out))
    assert found[0] == found[1]
    assert found[0]["n_database"] == found[0]["settings"]["unlabeled_database"] == 120
    out = call(*codes, "--database-labels", "nan.npy")[1]
    assert "left out without a label: 0 queries, 120 database rows" in out


def test_lists_of_tags_in_a_parquet_file(call, encoded):
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    for name in ("y", "yq"):
        tags = [["small", f"class {k}"] if k else [f"class {k}"] for k in np.load(encoded / f"{name}.npy")]
        parquet.write_table(pa.table({"tags": tags}), encoded / f"{name}.parquet")
    labels = ["--query-labels", "yq.parquet:tags", "--database-labels", "y.parquet:tags"]
    code, out, err = call("evaluate", "--queries", "q.npy", "--database", "db.npz", *labels, "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["settings"]["relevance"] == "count"
    fit = ["fit", "X.npy", "--method", "gsdhp", "--bits", 8, "--set", "n_landmarks=20", "-o", "tags.hl"]
    assert call(*fit, "--labels", "y.parquet:tags")[0] == 0


def test_headers_of_label_files(call, encoded):
    """The number of codes tells them; with a model, rows are read later, so the mistake is said."""
    words = np.array(["cat", "dog", "owl"])
    for name in ("yq", "y"):
        labels = words[np.load(encoded / f"{name}.npy")]
        (encoded / f"{name}.csv").write_text("\n".join(["animal", *labels]))
    labels = ["--query-labels", "yq.csv", "--database-labels", "y.csv", "--json"]
    _, out, _ = call("evaluate", "--queries", "q.npy", "--database", "db.npz", *labels)
    _, wanted, _ = call("evaluate", "--queries", "q.npy", "--database", "db.npz", *LABELS, "--json")
    assert json.loads(out) == json.loads(wanted)
    code, _, err = call("evaluate", "--queries", "Xq.npy", "--database", "X.npy", "--floats", "cosine", *labels)
    assert code == 1
    assert err == (
        "hashlearn: yq.csv has 31 labels, Xq.npy has 30 rows. If its first line is a header, name the column after a "
        "colon.\n"
    )
