"""``hashlearn evaluate``: the library's numbers from files, and no silent mix of unlike codes."""

import json

import numpy as np
import pytest
from small_methods import spread_bits

import hashlearn as hl
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
    spread_bits(hasher)
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


@pytest.mark.parametrize(
    ("sides", "options"),
    [
        (("q.npy", "db.npz"), []),
        (("Xq.npy", "X.npy"), ["--model", "model.hl"]),
        (("Xq.npy", "X.npy"), ["--floats", "cosine"]),
    ],
)
def test_the_number_of_rows_tells_the_header_of_a_label_file(sides, options, call, encoded):
    words = np.array(["cat", "dog", "owl"])
    for name in ("yq", "y"):
        labels = words[np.load(encoded / f"{name}.npy")]
        (encoded / f"{name}.csv").write_text("\n".join(["animal", *labels]))
        (encoded / f"{name}.txt").write_text("\n".join(["animal", *labels]))
    asked = ["evaluate", "--queries", sides[0], "--database", sides[1], *options, "--json"]
    _, wanted, _ = call(*asked, *LABELS)
    for ending in ("csv", "txt"):
        code, out, err = call(*asked, "--query-labels", f"yq.{ending}", "--database-labels", f"y.{ending}")
        assert (code, err) == (0, "")
        assert json.loads(out) == json.loads(wanted)


def test_an_open_hasher_is_evaluated_by_scores(call, folder):
    assert call("fit", "X.npy", "-y", "y.npy", "--bits", 32, "-o", "open.hl")[0] == 0
    command = ["evaluate", "--model", "open.hl", "--queries", "X.npy", "--database", "X.npy", "--query-labels", "y.npy"]
    command += ["--database-labels", "y.npy", "--at", "all", "--json"]
    X, y, hasher = np.load(folder / "X.npy"), np.load(folder / "y.npy"), load(folder / "open.hl")
    for emphasis in ("alike", 0.75):
        code, out, err = call(*command, "--emphasis", emphasis)
        assert code == 0, err
        table = hasher.query(X, emphasis).scores(hasher.encode(X))
        assert json.loads(out)["map"] == pytest.approx(metrics.evaluate_scores(table, y, y, at=None).map)
    for wrong, sentence in (("most", "--emphasis must be alike"), ("1.5", "a number from 0 to 1")):
        code, _, err = call(*command, "--emphasis", wrong)
        assert (code, sentence in err) == (2, True)
    assert "--asymmetric is for bits" in call(*command, "--asymmetric")[2]


def test_the_command_line_chooses_the_emphasis_of_a_search(call, folder):
    assert call("fit", "X.npy", "-y", "y.npy", "--bits", 32, "-o", "open.hl")[0] == 0
    assert call("index", "create", "shop", "--model", "open.hl")[0] == 0
    assert call("index", "add", "shop", "X.npy")[0] == 0
    with hl.Collection.open(folder / "shop") as shop:
        wanted = shop.search(np.load(folder / "X.npy")[:1], k=5, emphasis="label").ids.tolist()
    code, out, err = call("search", "shop", "X.npy", "-k", 5, "--emphasis", "label", "--json")
    assert code == 0, err
    assert [hit["id"] for hit in json.loads(out)["results"][0]] == wanted[0]
