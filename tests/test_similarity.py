"""S from labels, pairs, matrices and neighbours, against the definitions written as loops."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from hashlearn.labels import as_labels, group_rows, label_matrix
from hashlearn.similarity import (
    LabelSimilarity,
    from_labels,
    from_pairs,
    neighbor_similarity,
)


def whole(similarity: LabelSimilarity) -> np.ndarray:
    """S between all rows; rows without a group are zero."""
    n = len(similarity.group)
    S = np.zeros((n, n))
    known = np.flatnonzero(similarity.group >= 0)
    S[np.ix_(known, known)] = similarity.table(similarity.group[known], similarity.columns(known))
    return S


def test_classes_are_plus_or_minus_one():
    S = whole(from_labels(["b", "a", "b"]))
    assert S.tolist() == [[1, -1, 1], [-1, 1, -1], [1, -1, 1]]


@pytest.mark.parametrize(
    "values", [[("a", 1), ("b", 2), ("a", 1)], [2.0, 3.0, 2.0], [True, False, True], ["x", "3", "x"]]
)
def test_classes_of_any_hashable_value(values):
    y = np.empty(3, dtype=object)
    y[:] = values
    classes = as_labels(y)
    assert classes.numbers[0] == classes.numbers[2] != classes.numbers[1]
    assert classes.names[classes.numbers[0]] == values[0]


@pytest.mark.parametrize(
    ("y", "unlabeled"), [([0, None, 1, np.nan], None), ([0, -1, 1, -1], -1), (["p", "", "q", ""], "")]
)
def test_rows_without_class_have_no_group(y, unlabeled):
    array = np.empty(4, dtype=object)
    array[:] = y
    assert (from_labels(array, unlabeled=unlabeled).group >= 0).tolist() == [True, False, True, False]


def test_minus_one_is_an_ordinary_class_unless_asked():
    assert (from_labels([1, -1, 1]).group >= 0).all()


def test_label_sets_as_the_paper_has_it():
    Y = np.array([[1, 1, 1, 0], [1, 1, 0, 0], [0, 0, 0, 1], [0, 0, 0, 0]])
    similarity = from_labels(Y)
    assert similarity.largest == 3
    assert whole(similarity).tolist() == [[3, 2, -1.5, 0], [2, 2, -1.5, 0], [-1.5, -1.5, 1, 0], [0, 0, 0, 0]]
    assert from_labels(Y, dissimilar="floor").alpha == -1
    assert from_labels(Y, dissimilar=-0.25).alpha == -0.75


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 30), st.integers(2, 8), st.sampled_from(["count", "jaccard", "binary"]), st.integers(0, 2**31))
def test_relevance_between_sets(n, c, relevance, seed):
    Y = np.random.default_rng(seed).random((n, c)) < 0.4
    Y[0, 0] = True
    S = whole(from_labels(Y, relevance=relevance, dissimilar=-0.5))
    r_max = Y.sum(axis=1).max() if relevance == "count" else 1
    for i in range(n):
        for j in range(n):
            shared, union = (Y[i] & Y[j]).sum(), (Y[i] | Y[j]).sum()
            value = {"count": shared, "jaccard": shared / max(union, 1), "binary": float(shared > 0)}[relevance]
            expected = 0 if not (Y[i].any() and Y[j].any()) else (value or -0.5 * r_max)
            assert S[i, j] == pytest.approx(expected)


def test_own_relevance():
    Y = np.array([[1, 1, 0], [0, 1, 0], [0, 0, 1]])
    weights = np.array([5.0, 1.0, 1.0])
    similarity = from_labels(Y, relevance=lambda a, b: (a * weights) @ b.T)
    assert similarity.largest == 6
    assert whole(similarity).tolist() == [[6, 1, -3], [1, 1, -3], [-3, -3, 1]]
    with pytest.raises(ValueError, match="shape"):
        from_labels(Y, relevance=lambda a, b: np.zeros(2))


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 60), st.integers(2, 10), st.booleans(), st.integers(0, 2**31))
def test_groups_are_equal_label_sets(n, c, as_sparse, seed):
    Y = np.random.default_rng(seed).random((n, c)) < 0.3
    group, representatives = group_rows(label_matrix(sparse.coo_matrix(Y) if as_sparse else Y))
    for i in range(n):
        assert (group[i] == -1) == (not Y[i].any())
        for j in range(n):
            if Y[i].any() and Y[j].any():
                assert (group[i] == group[j]) == bool((Y[i] == Y[j]).all())
    assert group[representatives].tolist() == list(range(len(representatives)))


def test_a_hundred_thousand_label_sets_are_grouped_in_seconds():
    rng = np.random.default_rng(0)
    Y = sparse.random(100_000, 500, density=0.02, format="csr", random_state=rng, data_rvs=np.ones)
    group, representatives = group_rows(label_matrix(Y))
    assert len(representatives) > 90_000
    assert group.max() == len(representatives) - 1


def test_pairs():
    S = from_pairs(5, [[0, 1], [1, 0]], [[1, 3]]).toarray()
    expected = np.zeros((5, 5))
    expected[0, 1] = expected[1, 0] = 1
    expected[1, 3] = expected[3, 1] = -1
    expected[[0, 1, 3], [0, 1, 3]] = 1
    np.testing.assert_array_equal(S, expected)


@pytest.mark.parametrize(
    ("similar", "dissimilar", "sentence"),
    [
        ([[0, 1]], [[1, 0]], r"\(0, 1\) is listed both"),
        ([[0, 9]], [], "outside 0..4"),
        ([], [[2, 2]], "dissimilar to itself"),
        ([], [], "At least one"),
        ([[0.5, 1.0]], [], "integer array"),
        ([0, 1], [], "shape"),
    ],
)
def test_bad_pairs(similar, dissimilar, sentence):
    with pytest.raises(ValueError, match=sentence):
        from_pairs(5, similar, dissimilar)


def test_neighbours_by_distance():
    X = np.array([[0.0], [0.1], [5.0], [9.0], [9.1]], dtype=np.float32)
    anchors = np.array([0, 2, 4])
    S = neighbor_similarity(X, anchors, n_neighbors=1, far_quantile=0.5)
    assert S[1].tolist() == [1, 0, -1]
    assert S[3].tolist() == [-1, 0, 1]
    np.testing.assert_array_equal(S[anchors], S[anchors].T)
    assert (np.diag(S[anchors]) == 1).all()


@pytest.mark.parametrize(
    ("y", "sentence"),
    [
        (np.array([[0, 2], [1, 0]]), "0/1 matrix"),
        (sparse.csr_matrix([[0, 2.0]]), "only 0 and 1"),
        (np.zeros((2, 3), int), "No row has a label"),
        (np.zeros((2, 2, 2), int), "Got 3-D"),
    ],
)
def test_bad_labels(y, sentence):
    with pytest.raises(ValueError, match=sentence):
        from_labels(y)


def test_given_labels_are_not_changed():
    Y = sparse.csr_matrix(np.array([[1.0, 0.0], [0.0, 1.0]]))
    Y.data[0] = 0.0
    before = Y.copy()
    label_matrix(Y)
    assert (Y.data == before.data).all()
    assert Y.nnz == before.nnz
