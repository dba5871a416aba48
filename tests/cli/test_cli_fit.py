"""``hashlearn fit``: every way to supervise it, and every way to get it wrong."""

import json

import numpy as np
import pytest
from real_command import SMALL

from hashlearn import Greedy, files, methods
from hashlearn.models import load


@pytest.mark.slow
def test_fit_in_its_own_process(run, folder):
    done = run("fit", "X.npy", "--labels", "y.npy", "--bits", 16, "-o", "model.hl", "--json", *SMALL)
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert (facts["method"], facts["bits"], facts["rows"], facts["features"]) == ("gsdhp", 16, 240, 6)
    assert facts["params"]["n_landmarks"] == 40
    assert done.stderr == ""
    X, y = np.load(folder / "X.npy"), np.load(folder / "y.npy")
    same = methods.GSDHP(16, n_landmarks=40, n_anchors=60, solver=Greedy(max_iter=3), random_state=0).fit(X, y)
    np.testing.assert_array_equal(load(folder / "model.hl").encode(X), same.encode(X))


def test_codes_out_are_the_learned_codes(model, call, folder):
    back = files.read_codes(folder / "learned.npy")
    X, y = np.load(folder / "X.npy"), np.load(folder / "y.npy")
    same = methods.GSDHP(12, n_landmarks=40, n_anchors=60, solver=Greedy(max_iter=3), random_state=0).fit(X, y)
    np.testing.assert_array_equal(back.codes, same.codes_)
    assert (back.info.bits, back.info.padding, back.info.source, back.info.model) == (12, 4, "learned", "model.hl")


def test_values_of_set_are_json_or_text(call, folder):
    settings = ["--set", "kernel=rbf", "--set", "solver__beta=5", "--set", "dissimilar=null", "--set", "ridge=0.5"]
    code, out, _ = call("fit", "X.npy", "-y", "y.npy", "--bits", 8, "-o", "m.hl", "--json", *SMALL, *settings)
    assert code == 0
    params = json.loads(out)["params"]
    assert (params["kernel"], params["solver__beta"], params["dissimilar"], params["ridge"]) == ("rbf", 5, None, 0.5)


def test_lsh_needs_no_labels_and_leaves_float32_rows_alone(call, folder):
    code, _, err = call("fit", "X.npy", "--method", "lsh", "--bits", 16, "-o", "m.hl", "--codes-out", "c.npy")
    assert (code, err) == (0, "")
    X = np.load(folder / "X.npy")
    np.testing.assert_array_equal(files.read_codes(folder / "c.npy").codes, load(folder / "m.hl").encode(X.copy()))
    np.testing.assert_array_equal(X, np.load(folder / "X.npy"))


def test_a_label_column_of_the_same_table_is_not_learned_from(call, folder):
    X, y = np.load(folder / "X.npy"), np.load(folder / "y.npy")
    lines = [",".join([*map(repr, row), f"class{label}"]) for row, label in zip(X.tolist(), y, strict=True)]
    (folder / "t.csv").write_text("a,b,c,d,e,f,kind\n" + "\n".join(lines))
    code, out, err = call("fit", "t.csv", "--labels", "t.csv:kind", "--bits", 8, "-o", "m.hl", "--json", *SMALL)
    assert (code, err) == (0, "")
    assert json.loads(out)["features"] == 6
    # A column of numbers would slip in unnoticed if it were not left out by name.
    numbers = "\n".join(line.replace("class", "") for line in lines)
    (folder / "t.csv").write_text("a,b,c,d,e,f,kind\n" + numbers)
    code, out, _ = call("fit", "t.csv", "--labels", "t.csv:kind", "--bits", 8, "-o", "n.hl", "--json", *SMALL)
    assert json.loads(out)["features"] == 6
    np.testing.assert_array_equal(load(folder / "m.hl").encode(X), load(folder / "n.hl").encode(X))


def test_unlabeled_rows_change_what_is_learned(call, folder):
    y = np.load(folder / "y.npy")
    y[:120] = -1
    np.save(folder / "half.npy", y)
    common = ["--bits", 8, *SMALL]
    assert call("fit", "X.npy", "-y", "half.npy", "--unlabeled", -1, "-o", "a.hl", *common)[0] == 0
    assert call("fit", "X.npy", "-y", "half.npy", "-o", "b.hl", *common)[0] == 0
    assert load(folder / "a.hl").unlabeled == -1
    # With three classes of rows instead of four, the anchors come from the labelled half only.
    assert load(folder / "a.hl").anchor_indices_.min() >= 120
    assert load(folder / "b.hl").anchor_indices_.min() < 120


def test_pairs(call, folder):
    (folder / "s.csv").write_text("0,1\n1,2\n")
    (folder / "d.csv").write_text("a,b\n0,5\n")
    code, _, err = call(
        "fit", "X.npy", "--similar", "s.csv", "--dissimilar", "d.csv", "--bits", 4, "-o", "m.hl", *SMALL
    )
    assert (code, err) == (0, "")
    assert load(folder / "m.hl").anchor_indices_.tolist() == [0, 1, 2, 5]


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["-y", "y.npy", "--method", "foo"], 2, "There is no method 'foo'; there are open, auto, adgh, agh, aibc"),
        (
            ["-y", "y.npy", "--method", "gsdhp", "--set", "alpha=1"],
            2,
            "gsdhp has no parameter 'alpha'; it has dissimilar, function,",
        ),
        (["-y", "y.npy", "--set", "beta"], 2, "--set needs name=value. Got 'beta'."),
        (["-y", "y.npy", "--method", "gsdhp", "--set", "solver__beta=-1"], 2, "The 'beta' parameter of Greedy must be"),
        (["-y", "y.npy", "--bits", "0"], 2, "The 'n_bits' parameter of OpenHasher must be"),
        (["--method", "lsh", "--similar", "s.csv"], 2, "lsh does not learn from pairs."),
        (["--method", "lsh", "--unlabeled", "0"], 2, "lsh has no parameter 'unlabeled'"),
        (["-y", "y.npy", "--similar", "s.csv"], 2, "Give --labels or pairs"),
        (["--method", "gsdhp"], 2, "gsdhp learns from labels: give them with --labels or pairs"),
        (["-y", "yq.npy"], 1, "yq.npy has 30 labels, X.npy has 240 rows."),
        (["-y", "none.npy"], 1, "none.npy does not exist."),
        (["-y", "y.npy", "--codes-out", "c.csv"], 1, "c.csv must end in .npy or .npz."),
        (["-y", "y.npy", "-o", "no/such/m.hl"], 1, "the folder no/such does not exist."),
        (["--bogus"], 2, "No such option"),
    ],
)
def test_mistakes_are_one_sentence(arguments, code, sentence, call, folder):
    got, out, err = call("fit", "X.npy", *([] if "-o" in arguments else ["-o", "m.hl"]), *arguments)
    assert got == code
    assert out == ""
    assert err.startswith("hashlearn: ")
    assert sentence in err
    assert err.count("\n") == 1
    assert not (folder / "m.hl").exists()


def test_nan_names_its_row(call, folder):
    X = np.load(folder / "X.npy")
    X[17, 2] = np.nan
    np.save(folder / "X.npy", X)
    assert call("fit", "X.npy", "-y", "y.npy", "-o", "m.hl")[::2] == (
        1,
        "hashlearn: X.npy: row 17 holds NaN or infinity.\n",
    )


def test_debug_shows_the_traceback(call, folder):
    assert "Traceback" not in call("fit", "none.npy", "-y", "y.npy", "-o", "m.hl")[2]
    code, _, err = call("fit", "none.npy", "-y", "y.npy", "-o", "m.hl", "--debug")
    assert code == 1
    assert "Traceback (most recent call last)" in err
    assert err.splitlines()[-1] == "hashlearn: none.npy does not exist."


def test_any_header_of_a_label_file_is_known_by_the_number_of_rows(call, folder):
    words = ["cat", "dog", "owl"]
    text = "animal\n" + "".join(words[y] + "\n" for y in np.load(folder / "y.npy"))
    (folder / "y.csv").write_text(text)
    code, _, _ = call("fit", "X.npy", "-y", "y.csv", "--bits", 8, "-o", "m.hl", *SMALL)
    assert code == 0
    np.save(folder / "words.npy", np.array(text.split()[1:]))
    assert call("fit", "X.npy", "-y", "words.npy", "--bits", 8, "-o", "same.hl", *SMALL)[0] == 0
    X = np.load(folder / "X.npy")
    np.testing.assert_array_equal(load(folder / "m.hl").encode(X), load(folder / "same.hl").encode(X))


def test_ids_of_a_table_are_not_learned_from_and_the_warning_says_so(call, folder):
    X = np.load(folder / "X.npy")
    names = ["id", *"abcdef"]
    rows = [[str(number), *map(str, row)] for number, row in enumerate(X.tolist())]
    (folder / "X.csv").write_text("\n".join(";".join(row).replace(".", ",") for row in [names, *rows]))
    code, out, err = call("fit", "X.csv", "-y", "y.npy", "--bits", 8, "-o", "m.hl", "--json", *SMALL)
    assert code == 0
    assert "X.csv: columns that look like ids are left out: id; name the columns to use them, as in X.csv:id,a." in err
    assert json.loads(out)["features"] == 6


def test_advice_is_one_line_each(call, folder):
    y = np.load(folder / "y.npy")
    np.save(folder / "rare.npy", np.where((y == 2) & (np.arange(240) > 9), 1, y))
    code, _, err = call("fit", "X.npy", "--labels", "rare.npy", "--bits", 8, "-o", "m.hl", *SMALL)
    assert code == 0
    assert "\n" not in err.strip()
    assert err.startswith("hashlearn: warning: The classes are unbalanced: the largest has ")


def test_a_fit_without_labels_says_that_it_is_unsupervised(call, folder):
    code, _, err = call("fit", "X.npy", "--bits", 16, "-o", "m.hl")
    assert code == 0
    assert "without --labels open learns from the features alone (unsupervised)" in err
    assert "unsupervised" not in call("fit", "X.npy", "--labels", "y.npy", "--bits", 16, "-o", "m.hl")[2]
