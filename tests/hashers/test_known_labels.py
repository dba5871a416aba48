"""``encode(X, y)``: rows whose label is known have the bits that were learned for it."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_digits

import hashlearn as hl
from hashlearn.hashers.base import LabelCodes

pytestmark = pytest.mark.filterwarnings("ignore::hashlearn.FitAdvice")


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X.astype(np.float32), y


@pytest.fixture(scope="module")
def fitted(digits):
    X, y = digits
    return hl.GSDHP(16, n_landmarks=50, unlabeled=-1, random_state=0).fit(X[:400], y[:400])


def test_rows_of_one_class_have_one_code_and_others_keep_theirs(fitted, digits):
    X, y = digits
    known = np.where(np.arange(len(y)) % 2 == 0, y, -1)
    packed, predicted = fitted.encode(X, known), fitted.encode(X)
    np.testing.assert_array_equal(packed[1::2], predicted[1::2])
    for label in range(10):
        assert len(np.unique(packed[known == label], axis=0)) == 1
    np.testing.assert_array_equal(fitted.encode(X, np.full(len(X), -1)), predicted)


def test_they_are_the_codes_that_training_rows_have(fitted, digits):
    X, y = digits
    same = (fitted.encode(X[:400], y[:400]) == fitted.codes_).all(axis=1)
    assert same.mean() > 0.95


def test_a_database_with_labels_is_found_better(fitted, digits):
    X, y = digits
    given = [
        hl.metrics.mean_average_precision(fitted.encode(X[1400:]), database, y[1400:], y[400:1400], at=None)
        for database in (fitted.encode(X[400:1400]), fitted.encode(X[400:1400], y[400:1400]))
    ]
    assert given[1] > given[0]


@pytest.mark.parametrize("kind", ["strings", "numbers", "tags", "columns"])
def test_labels_of_every_kind_in_memory_in_chunks_and_from_a_file(digits, kind, tmp_path):
    X, y = digits[0][:300], digits[1][:300]
    labels = {
        "strings": np.array([f"d{one}" for one in y]),
        "numbers": y * 10,
        "tags": [[f"d{one}", "even" if one % 2 == 0 else "odd"] for one in y],
        "columns": np.stack([y % 2 == 0, y < 5, y >= 0], axis=1).astype(int),
    }[kind]
    hasher = hl.GSDHP(16, n_landmarks=50, random_state=0).fit(X, labels)
    packed = hasher.encode(X, labels)
    assert (packed != hasher.encode(X)).any()
    hl.save(hasher, tmp_path / "m.hl")
    np.testing.assert_array_equal(hl.load(tmp_path / "m.hl").encode(X, labels), packed)
    if kind != "tags":
        chunks = [lambda at=at: (X[at : at + 100], labels[at : at + 100]) for at in (0, 100, 200)]
        chunked = hl.GSDHP(16, n_landmarks=50, random_state=0).fit_chunks(chunks)
        np.testing.assert_array_equal(chunked.encode(X, labels), packed)


def test_parts_of_compositions_have_learned_bits_where_they_learn_some(digits):
    X, y = digits[0][:400], digits[1][:400]
    joined = hl.JoinedHasher([hl.GSDHP(8, random_state=0), hl.ITQ(8, random_state=0)]).fit(X, y)
    both = joined.encode(X, y)
    np.testing.assert_array_equal(both[:, :1], joined.hashers_[0].encode(X, y))
    np.testing.assert_array_equal(both[:, 1:], joined.hashers_[1].encode(X))
    np.testing.assert_array_equal(joined.hashers_[1].encode(X, y), joined.hashers_[1].encode(X))
    auto = hl.AutoHasher(16, random_state=0).fit(X, y)
    n_label = auto.hasher_.hashers_[0].n_bits
    known, predicted = (hl.codes.unpack(one, 16) for one in (auto.encode(X, y), auto.encode(X)))
    assert len(np.unique(known[y == 3][:, :n_label], axis=0)) == 1
    np.testing.assert_array_equal(known[:, n_label:], predicted[:, n_label:])


def test_partial_fit_keeps_codes_of_known_classes_and_adds_new_ones(digits):
    X, y = digits
    old = y < 7
    hasher = hl.GSDHP(16, n_landmarks=50, random_state=0).partial_fit(X[old][:300], y[old][:300])
    before = hasher.encode(X, np.where(old, y, 0))[old]
    hasher.partial_fit(X[300:600], y[300:600])
    after = hasher.encode(X, y)
    np.testing.assert_array_equal(after[old], before)
    assert len(np.unique(after, axis=0)) == 10


def test_label_sets_without_a_code_are_predicted():
    sets = sparse.csr_matrix([[1, 0], [0, 1]])
    learned = LabelCodes(["a", "b"], sets, np.array([[1], [2]], dtype=np.uint8))
    assert learned.places(["b", "a", None, "c"], 4).tolist() == [1, 0, -1, -1]
    assert learned.places([["a"], ["a", "b"], ["a", "new"], []], 4).tolist() == [0, -1, -1, -1]
    columns = LabelCodes(None, sets, learned.packed_)
    assert columns.places(np.array([[0, 1], [1, 1], [0, 0]]), 3).tolist() == [1, -1, -1]


def test_the_code_of_a_label_is_what_most_of_its_rows_have():
    signs = np.array([[1, 1], [1, -1], [1, -1], [-1, -1]])
    found = LabelCodes.from_rows(None, sparse.identity(3, format="csr"), np.array([0, 0, 0, 2]), signs)
    assert hl.codes.unpack(found.packed_, 2).tolist() == [[1, 0], [0, 0]]
    assert found.sets_.toarray().tolist() == [[1, 0, 0], [0, 0, 1]]


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.array(["a", "b"]), "y holds strings"),
        (np.array([0, 1, 2]), "one label for each row. Got 3 for 2 rows"),
        (np.array([[0, 1], [1, 0]]), "y must have labels as the fit had them, classes or tags by name"),
    ],
)
def test_labels_that_cannot_be_those_of_the_fit(fitted, digits, y, message):
    with pytest.raises(ValueError, match=message):
        fitted.encode(digits[0][:2], y)
