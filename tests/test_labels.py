"""Labels as people have them mean the same to ``fit``, ``score``, ``fit_chunks`` and ``evaluate``."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV, cross_val_score
from small_methods import small

import hashlearn as hl
from hashlearn import metrics
from hashlearn.labels import Classes, LabelSets, as_labels, match_labels
from hashlearn.methods import METHODS

polars = pytest.importorskip("polars")

TAGS = [["red", "car"], ["car"], None, [], ["red"]]
TABLE = [[1, 1], [1, 0], [0, 0], [0, 0], [0, 1]]


def object_array(values):
    return np.fromiter(values, dtype=object, count=len(values))


@pytest.mark.parametrize(
    "y",
    [
        ["b", "a", None, "b"],
        ("b", "a", None, "b"),
        object_array(["b", "a", float("nan"), "b"]),
        pd.Series(["b", "a", None, "b"]),
        pd.Series(["b", "a", pd.NA, "b"], dtype="string"),
        pd.Series(["b", "a", None, "b"], dtype="category"),
        pd.Categorical(["b", "a", None, "b"]),
        pd.Series([2, 1, pd.NA, 2], dtype="Int64"),
        pd.to_datetime(pd.Series(["2021-01-01", "2020-01-01", None, "2021-01-01"])),
        polars.Series(["b", "a", None, "b"]),
        polars.Series(["b", "a", None, "b"], dtype=polars.Categorical),
        polars.Series([2, 1, None, 2]),
        [2, 1, None, 2],
        [2.0, 1.0, float("nan"), 2.0],
        np.array([2, 1, np.nan, 2]),
        [b"b", b"a", None, b"b"],
    ],
    ids=repr,
)
def test_one_value_per_row_is_a_class(y):
    labels = as_labels(y)
    assert isinstance(labels, Classes)
    assert labels.numbers.tolist() == [1, 0, -1, 1]
    assert labels.known.tolist() == [True, True, False, True]
    assert labels.sets.toarray().tolist() == [[0, 1], [1, 0], [0, 0], [0, 1]]


@pytest.mark.parametrize("y", [[7, -1, 5], np.array([7, -1, 5]), np.array([7.0, -1.0, 5.0]), [7, -1.0, 5]])
def test_a_class_that_means_no_label(y):
    assert as_labels(y, unlabeled=-1).numbers.tolist() == [1, -1, 0]
    assert as_labels(y).numbers.tolist() == [2, 0, 1]


@pytest.mark.parametrize(
    "y",
    [
        TAGS,
        [None if row is None else set(row) for row in TAGS],
        [None if row is None else frozenset(row) for row in TAGS],
        [["red", "car", "car"], ["car", None], pd.NA, [], np.array(["red"])],
        object_array(TAGS),
        pd.Series(TAGS),
        polars.Series(TAGS),
    ],
    ids=["lists", "sets", "frozensets", "ragged", "object array", "pandas", "polars"],
)
def test_tags_are_label_sets(y):
    labels = as_labels(y)
    assert isinstance(labels, LabelSets)
    assert labels.names == ["car", "red"]
    assert labels.sets.toarray().tolist() == TABLE
    assert labels.known.tolist() == [True, True, False, True, True]


@pytest.mark.parametrize("y", [[[1, 0], [1, 1]], [(1, 0), (True, 1.0)], np.array([[1, 0], [1, 1]], dtype=object)])
def test_a_table_of_0_and_1_is_a_table(y):
    assert as_labels(y).names is None
    assert as_labels(y).sets.toarray().tolist() == [[1, 0], [1, 1]]


@pytest.mark.parametrize(
    ("y", "sentence"),
    [
        (["cat", 3, "cat"], r"mixes numbers \(3\) and strings \('cat'\)"),
        ([b"cat", "cat"], "mixes bytes .* and strings"),
        ([["cat"], ["dog", 3]], "mixes numbers .* and strings"),
        ([["cat"], "dog"], r"mixes lists of tags and single values. Got 'dog': write it as \['dog'\]"),
        ([0.25, 1.0], r"not whole \(0.25\), so the labels look continuous"),
        (np.linspace(0, 1, 9), "look continuous"),
        ([[0.1, 0.9], [0.8, 0.2]], "look continuous"),
        ([[["a"], ["b"]], ["c"]], "must be a flat list of values"),
        ([{"a": 1}, {"b": 2}], "Classes must be hashable"),
        ("cat", "Got 0-D"),
        (np.array([["a", "b"], ["c", "d"]]), "only 0 and 1 when it is 2-D. Got 'a'"),
        (np.array([[0, 1], [pd.NA, 1]], dtype=object), "only 0 and 1 when it is 2-D"),
        (np.array([[0, np.nan], [1, 1]]), "only 0 and 1 when it is 2-D"),
    ],
    ids=repr,
)
def test_labels_that_cannot_be_meant_get_one_sentence(y, sentence):
    for read in (as_labels, lambda y: small("gsdhp").fit(np.eye(len(y)), y)):
        with pytest.raises(ValueError, match=sentence) as raised:
            read(y)
        assert "\n" not in str(raised.value)


def test_both_sides_get_one_numbering():
    first, second = match_labels(as_labels(["b", None, "c"]), as_labels(["a", "b"]), ("left", "right"))
    assert first.names == second.names
    assert [first.names[number] for number in first.numbers[[0, 2]]] == ["b", "c"]
    assert [second.names[number] for number in second.numbers] == ["a", "b"]
    assert first.numbers[1] == -1
    first, second = match_labels(as_labels([["b", "c"], []]), as_labels([{"a"}, {"b"}]), ("left", "right"))
    assert (first.sets @ second.sets.T).toarray().tolist() == [[0, 1], [0, 0]]
    # A class is a set of one tag, so queries with one tag per row may look among rows with several.
    first, second = match_labels(as_labels(["b", "a"]), as_labels([["a", "b"], ["a"]]), ("left", "right"))
    assert (first.sets @ second.sets.T).toarray().tolist() == [[1, 0], [1, 1]]


@pytest.fixture(scope="module")
def rows():
    """Digits 0 to 2 with their classes, as classes and as tags: the digit, and "round" for 0."""
    X, y = load_digits(return_X_y=True)
    X, y = X[y < 3][:300], y[y < 3][:300]
    tags = [[f"digit {digit}", *(["round"] if digit == 0 else [])] for digit in y]
    return X, y, tags


def as_table(tags):
    names = sorted({tag for row in tags for tag in row})
    return np.array([[int(name in row) for name in names] for row in tags])


@pytest.mark.parametrize("name", [n for n in METHODS if METHODS[n].info.supervised])
def test_every_method_learns_from_names_as_from_numbers(name, rows):
    X, y, _ = rows
    names = pd.Series(y).map({0: "a", 1: "b", 2: "c"}).astype("category")
    np.testing.assert_array_equal(small(name).fit(X, names).codes_, small(name).fit(X, y).codes_)


@pytest.mark.parametrize("name", ["gsdhp", "sdhp", "cca-itq", "ssh", "cosdish"])
def test_methods_of_every_frame_learn_from_tags_as_from_a_table(name, rows):
    X, _, tags = rows
    expected = small(name).fit(X, as_table(tags))
    for y in (tags, [set(row) for row in tags], pd.Series(tags), polars.Series(tags)):
        found = small(name).fit(X, y)
        np.testing.assert_array_equal(found.codes_, expected.codes_)
        assert found.score(X, y) == expected.score(X, as_table(tags))


def test_fit_chunks_takes_tags_beside_rows_and_refuses_them_in_chunks(rows):
    X, _, tags = rows
    expected = small("gsdhp").fit(X, as_table(tags)).codes_
    for y in (tags, pd.Series(tags), [set(row) for row in tags]):
        np.testing.assert_array_equal(small("gsdhp").fit_chunks(X, y).codes_, expected)
    halves = [(X[:100], tags[:100]), (X[100:], tags[100:])]
    with pytest.raises(ValueError, match="cannot be lists of tags: give 0/1 columns"):
        small("gsdhp").fit_chunks(halves)


def test_fit_chunks_takes_series_with_missing_classes(rows):
    X, y, _ = rows
    missing = pd.Series(y).astype("Int64").mask(np.arange(len(y)) % 3 == 0)
    expected = small("gsdhp").fit(X, missing).codes_
    np.testing.assert_array_equal(small("gsdhp").fit_chunks(X, missing).codes_, expected)
    np.testing.assert_array_equal(small("gsdhp").fit(X, polars.Series(missing.to_list())).codes_, expected)


@pytest.mark.parametrize("name", ["gsdhp", "cca-itq", "ksh"])
def test_one_class_is_an_error(name, rows):
    X, _, _ = rows
    for y in (["a"] * len(X), [["a", "b"]] * len(X), ["a", None] * (len(X) // 2)):
        with pytest.raises(ValueError, match="All labeled rows have the same label"):
            small(name).fit(X, y)


def half_unlabeled(y, marks):
    """Every second row of classes, as an object array, replaced by one of the marks."""
    found = y.astype(object)
    found[::2] = [marks[place % len(marks)] for place in range(len(found[::2]))]
    return found


def test_score_does_not_count_unlabeled_rows_as_misses(rows):
    X, y, tags = rows
    hasher = small("gsdhp", n_bits=16).fit(X, y)
    labeled = hasher.score(X[1::2], y[1::2])
    assert labeled > 0.85
    marks = (None, float("nan"), pd.NA)
    assert hasher.score(X, half_unlabeled(y, marks)) == labeled
    assert hasher.set_params(unlabeled=-1).score(X, half_unlabeled(y, (-1,))) == labeled
    assert hl.JoinedHasher([hl.GSDHP(8, unlabeled=-1)])._unlabeled == -1
    table = as_table(tags)
    table[::2] = 0  # the only way in which a 0/1 table can leave a row without labels
    assert hasher.score(X, table) == hasher.score(X[1::2], as_table(tags)[1::2])
    with pytest.raises(ValueError, match=r"at least 2 labeled rows.* Got 1"):
        hasher.score(X[:3], [None, None, 1])


def test_grid_search_scores_the_labeled_rows_only(rows):
    X, y, _ = rows
    order = np.random.default_rng(0).permutation(len(X))
    X, y = X[order], y[order]
    missing = half_unlabeled(y, (None,))
    search = GridSearchCV(small("gsdhp"), {"n_bits": [1, 16]}, cv=2, error_score="raise").fit(X, missing)
    assert search.best_params_ == {"n_bits": 16}
    assert search.best_score_ > 0.8
    folds = cross_val_score(small("gsdhp", n_bits=16), X, missing, cv=2, error_score="raise")
    assert search.best_score_ == pytest.approx(folds.mean())


def problem(seed=0, n_queries=12, n_database=80):
    rng = np.random.default_rng(seed)
    queries, database = (hl.codes.pack(rng.integers(2, size=(n, 8))) for n in (n_queries, n_database))
    return queries, database, rng.integers(3, size=n_queries), rng.integers(3, size=n_database)


def every_score(queries, database, query_y, database_y, **options):
    """All numbers that the metrics know of a problem."""
    data = queries, database, query_y, database_y
    floats = hl.codes.unpack_signs(queries, 8).astype(float), hl.codes.unpack_signs(database, 8).astype(float)
    found = [metrics.evaluate(*data, at=None, precision_at=1000, **options)]
    found.append(metrics.evaluate_floats(*floats, query_y, database_y, at=9, **options))
    found.append(metrics.evaluate(floats[0], database, query_y, database_y, at=9, **options))
    numbers = [value for scores in found for name, value in scores.as_dict().items() if isinstance(value, float | int)]
    numbers += metrics.map_within_radius(*data, **options)
    numbers += metrics.map_within_radius(*data, form="official", projections=floats, **options)
    curve = metrics.precision_recall_curve(*data, **options)
    return [*numbers, *curve.precision, *curve.recall, metrics.evaluate(*data, **options).acg]


@pytest.mark.parametrize(("mark", "options"), [(None, {}), (np.nan, {}), (pd.NA, {}), (-1, {"unlabeled": -1})])
def test_unlabeled_rows_are_left_out_of_every_score(mark, options):
    queries, database, query_y, database_y = problem()
    expected = every_score(queries[1::2], database[1::2], query_y[1::2], database_y[1::2])
    found = every_score(
        queries, database, half_unlabeled(query_y, (mark,)), half_unlabeled(database_y, (mark,)), **options
    )
    assert found == pytest.approx(expected, abs=0)


def test_scores_say_what_was_left_out():
    queries, database, query_y, database_y = problem()
    scores = metrics.evaluate(queries, database, query_y, half_unlabeled(database_y, (None,)))
    assert (scores.n_queries, scores.n_database) == (12, 40)
    assert (scores.settings["unlabeled_queries"], scores.settings["unlabeled_database"]) == (0, 40)
    assert "left out without a label: 0 queries, 40 database rows" in str(scores)
    assert "left out" not in str(metrics.evaluate(queries, database, query_y, database_y))
    with pytest.raises(ValueError, match="No query row has a label"):
        metrics.evaluate(queries, database, [None] * 12, database_y)


def test_an_empty_label_set_stays_and_is_relevant_to_nothing():
    code = hl.codes.pack([[1, 0]])
    scores = metrics.evaluate(code, code.repeat(2, axis=0), [["a"]], [["a"], []], ties="pessimistic")
    assert scores.map == 0.5
    assert metrics.evaluate(code, code.repeat(2, axis=0), [["a"]], [["a"], None], ties="pessimistic").map == 1


@pytest.mark.parametrize(
    ("query_y", "database_y"),
    [
        (["0", "1"], [0, 1]),
        ([b"0", b"1"], ["0", "1"]),
        ([True, False], ["True", "False"]),
        ([("a", 1), ("b", 2)], ["a", "b"]),
        ([["0"], ["1", "2"]], [[0], [1, 2]]),
        (pd.Series(["0", "1"]), np.array([0.0, 1.0])),
    ],
    ids=repr,
)
def test_sides_that_can_never_match_are_an_error(query_y, database_y):
    codes = hl.codes.pack([[0, 1], [1, 1]])
    for first, second in ((query_y, database_y), (database_y, query_y)):
        with pytest.raises(ValueError, match="no label of one side can equal one of the other") as raised:
            metrics.evaluate(codes, codes, first, second)
        assert "query_y holds" in str(raised.value)


@pytest.mark.parametrize(
    "database_y",
    [[0.0, 1.0], np.array([0, 1], dtype=np.int8), np.array([0, 1], dtype=np.uint64), [False, True], [0, 1.0]],
    ids=repr,
)
def test_numbers_of_any_type_match(database_y):
    codes = hl.codes.pack([[0, 1], [1, 1]])
    assert metrics.evaluate(codes, codes, np.array([0, 1]), database_y, ties="stable").map == 1


def test_tags_are_scored_as_their_table_is():
    queries, database, query_y, database_y = problem(1)
    query_tags = [[f"t{k}" for k in range(value + 1)] for value in query_y]
    database_tags = [{f"t{k}" for k in range(value, 3)} for value in database_y]
    tables = [np.array([[f"t{k}" in row for k in range(3)] for row in tags]) for tags in (query_tags, database_tags)]
    for relevance in ("count", "jaccard", "binary"):
        found = metrics.evaluate(queries, database, query_tags, database_tags, relevance=relevance)
        expected = metrics.evaluate(queries, database, *tables, relevance=relevance)
        assert found == expected
        assert found == metrics.evaluate(queries, database, *map(sparse.csr_array, tables), relevance=relevance)
    with pytest.raises(ValueError, match=r"both be label sets \(2-D\). Got lists of tags and 2-D"):
        metrics.evaluate(queries, database, query_tags, tables[1])


def test_data_frames_of_features(rows):
    X, y, _ = rows
    expected = small("gsdhp").fit(X, y)
    names = [f"f{k}" for k in range(X.shape[1])]
    for frame in (pd.DataFrame(X, columns=names), polars.DataFrame(X, schema=names)):
        found = small("gsdhp").fit(frame, polars.Series(y))
        np.testing.assert_array_equal(found.codes_, expected.codes_)
        np.testing.assert_array_equal(found.encode(frame), expected.encode(X))
        np.testing.assert_array_equal(small("gsdhp").fit_chunks(frame, y).codes_, expected.codes_)
