"""Tables as people have them: labels in a column, features among other columns, in any order."""

import json

import numpy as np
import pytest

from hashlearn import Collection, models


def facts(result):
    code, out, err = result
    assert code == 0, err
    return json.loads(out)


FIT = ("--method", "cca-itq", "--bits", 8, "-o", "m.hl", "--json")


@pytest.fixture
def tables(folder):
    """A table with ids, labels and prices, the same features in another order, and one with other names."""
    X, y = np.load(folder / "X.npy"), np.load(folder / "y.npy")

    def write(name, header, rows):
        lines = [",".join(map(str, row)) for row in rows]
        (folder / name).write_text("\n".join([",".join(header), *lines]) + "\n")

    names = [f"f{n}" for n in range(6)]
    write(
        "t.csv",
        ["id", "label", *names],
        [[n + 1000, label, *row] for n, (label, row) in enumerate(zip(y, X, strict=True))],
    )
    write("other.csv", ["price", *names[::-1]], [[n / 4, *row[::-1]] for n, row in enumerate(X)])
    write("pandas.csv", ["sku", *"012345"], [[f"s{n}", *row] for n, row in enumerate(X)])
    return X, y


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_labels_are_a_column_and_features_are_found_again(call, folder, tables):
    X, _ = tables
    told = facts(call("fit", "t.csv", "--labels", "label", *FIT))
    assert told["columns"] == [f"f{n}" for n in range(6)]
    hasher = models.load(folder / "m.hl")
    assert "columns" not in facts(call("fit", "X.npy", "--labels", "y.npy", *FIT[:-2], "plain.hl", "--json"))
    plain = models.load(folder / "plain.hl")
    np.testing.assert_allclose(hasher.decision_function(X), plain.decision_function(X), atol=1e-4)
    for name in ("t.csv", "other.csv"):
        facts(call("encode", "m.hl", name, "-o", "c.npy", "--json"))
        np.testing.assert_array_equal(np.load(folder / "c.npy"), hasher.encode(X))
    facts(call("index", "create", "shop", "--model", "m.hl", "--json"))
    assert facts(call("index", "add", "shop", "other.csv", "--payload", "other.csv", "--json"))["rows"] == 240
    assert facts(call("search", "shop", "t.csv", "-k", 1, "--json"))["queries"] == 240


@pytest.mark.parametrize("ranked", [("--model", "m.hl"), ("--floats", "euclidean")])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_column_of_labels_is_no_feature_of_an_evaluation(call, tables, ranked):
    facts(call("fit", "t.csv", "--labels", "label", *FIT))
    scores = []
    for rows, labels in (("t.csv", "label"), ("X.npy", "y.npy")):
        sides = ("--queries", rows, "--database", rows, "--query-labels", labels, "--database-labels", labels)
        scores.append(facts(call("evaluate", *sides, *ranked, "--json"))["map"])
    assert scores[0] == pytest.approx(scores[1], abs=1e-6)


def test_several_columns_of_0_and_1_are_label_sets(call, folder, tables):
    X, _ = tables
    lines = [f"{n % 2},{n % 3 % 2},{row[0]},{row[1]}" for n, row in enumerate(X)]
    (folder / "sets.csv").write_text("\n".join(["red,big,a,b", *lines]) + "\n")
    assert facts(call("fit", "sets.csv", "--labels", "red,big", *FIT))["features"] == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("fit", "t.csv", "--labels", "kind", *FIT),
            "'kind' is neither a file nor a column of t.csv; its columns are id,",
        ),
        (("fit", "t.csv", "--labels", "kind.npy", *FIT), "kind.npy does not exist"),
        (("fit", "X.npy", "--labels", "kind", *FIT), "kind does not exist"),
        (
            ("encode", "m.hl", "pandas.csv", "-o", "c.npy"),
            "pandas.csv has no column 'f0', which the model was fitted on",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_columns_that_are_not_there(call, folder, tables, words, said):
    facts(call("fit", "t.csv", "--labels", "label", *FIT))
    code, out, err = call(*words)
    assert (code, out) == (1, "")
    assert said in err


def test_other_columns_can_be_named(call, folder, tables):
    X, _ = tables
    facts(call("fit", "t.csv", "--labels", "label", *FIT))
    facts(call("encode", "m.hl", "pandas.csv:0,1,2,3,4,5", "-o", "c.npy", "--json"))
    np.testing.assert_array_equal(np.load(folder / "c.npy"), models.load(folder / "m.hl").encode(X))


@pytest.fixture
def products(folder):
    """A table as a shop has it: 100 columns of embeddings beside ids, labels and prices."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(80, 100)).round(4), rng.integers(0, 3, 80)
    names = ",".join(f"embedding_{n}" for n in range(100))
    lines = [f"s-{n},{'abc'[y[n]]},{n * 2.5},{','.join(map(str, row))}" for n, row in enumerate(X)]
    (folder / "p.csv").write_text("\n".join([f"sku,kind,price,{names}", *lines]) + "\n")
    return X


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_many_columns_beside_ids_and_prices(call, folder, products):
    """Their names together are longer than a path may be."""
    for picked in ("p.csv:-price", "p.csv:embedding_*"):
        assert facts(call("fit", picked, "--labels", "p.csv:kind", *FIT))["features"] == 100
    hasher = models.load(folder / "m.hl")
    facts(call("encode", "m.hl", "p.csv", "-o", "c.npy", "--json"))
    np.testing.assert_array_equal(np.load(folder / "c.npy"), hasher.encode(products))
    facts(call("index", "create", "shop", "--model", "m.hl", "--ids", "text", "--json"))
    facts(call("index", "add", "shop", "p.csv", "--ids", "p.csv:sku", "--payload", "p.csv", "--json"))
    with Collection.open(folder / "shop") as shop:
        assert shop.get("s-2").payload == {"sku": "s-2", "kind": shop.get("s-2").payload["kind"], "price": 5}
    facts(call("index", "add", "shop", "p.csv", "--ids", "p.csv:sku", "--payload", "p.csv:price", "--json"))
    with Collection.open(folder / "shop") as shop:
        assert shop.get("s-2").payload == {"price": 5}
    code, _, err = call("index", "add", "shop", "p.csv", "--ids", "p.csv:sku", "--payload", "p.csv:prise")
    assert (code, "p.csv has no column 'prise'" in err) == (1, True)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_labels_are_left_out_beside_other_columns(call, tables):
    told = facts(call("fit", "t.csv:-f5", "--labels", "label", *FIT))
    assert told["columns"] == [f"f{n}" for n in range(5)]


@pytest.mark.filterwarnings("ignore::UserWarning", "always::hashlearn.FitAdvice")
def test_a_price_among_embeddings_is_told(call, products):
    for stream in ([], ["--stream"]):
        code, _, err = call("fit", "p.csv", "--labels", "kind", *FIT, *stream)
        assert (code, "warning: 1 of 101 features vary more than 20 times" in err) == (0, True)
    assert "vary more" not in call("fit", "p.csv:-price", "--labels", "p.csv:kind", *FIT)[2]


def test_a_table_of_texts_needs_the_name_of_its_text_column(call, folder):
    rows = [f"{size},dev,a reader of {size} files" for size in range(20)]
    (folder / "db.csv").write_text("\n".join(["size,section,about", *rows]))
    code, out, err = call("fit", "db.csv", "--labels", "section", *FIT)
    assert (code, out) == (1, "")
    assert err.startswith("hashlearn: db.csv holds texts in its column 'about' and besides only numbers in size: ")
    assert not (folder / "m.hl").exists()


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_ids_are_a_column(call, folder, tables):
    X, _ = tables
    facts(call("fit", "t.csv", "--labels", "label", *FIT))
    facts(call("index", "create", "shop", "--model", "m.hl", "--json"))
    assert facts(call("index", "add", "shop", "t.csv", "--ids", "id", "--json"))["rows"] == 240
    with Collection.open("shop") as shop:
        np.testing.assert_array_equal(shop.get(1003).code, shop.hasher.encode(X[3:4])[0])
    assert facts(call("index", "migrate", "shop", "t.csv", "--ids", "id", "--labels", "label", "--json"))["migrated"]
    code, _, err = call("index", "add", "shop", "t.csv", "--ids", "sku")
    assert code == 1
    assert "'sku' is neither a file nor a column of t.csv; its columns are id, label, f0" in err
