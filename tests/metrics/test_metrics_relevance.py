"""Relevance between labels of every kind."""

from __future__ import annotations

import naive_metrics as naive
import numpy as np
import pytest
from scipy import sparse

from hashlearn import metrics
from hashlearn.codes import pack
from hashlearn.metrics import Relevance


def full_table(relevance):
    """Relevance of every query row to every database row."""
    table = relevance.table(np.arange(relevance.query_groups.max() + 1))
    return table[relevance.query_groups][:, relevance.database_groups]


def label_sets(seed=0, n_queries=8, n_database=40):
    rng = np.random.default_rng(seed)
    return (rng.random((n_queries, 4)) < 0.4).astype(int), (rng.random((n_database, 4)) < 0.4).astype(int)


@pytest.mark.parametrize(
    ("query_y", "database_y"),
    [
        ([3, -1, 0], [0, 3, 3, -1, 7]),
        (["cat", "élan"], ["dog", "cat", "élan", "elan"]),
        (np.array([("b", 2), ("a", 1), ()], dtype=object), np.array([("b", 2), (), ("b",)], dtype=object)),
        ([1.0, 2.0], [2, 1, 2]),
        (np.array([1, 2], dtype=np.int8), np.array([2, 1, 300], dtype=np.int64)),
        ([True, False], [False, False, True]),
    ],
)
def test_classes_are_equal_or_not(query_y, database_y):
    relevance = Relevance(query_y, database_y)
    assert full_table(relevance).tolist() == [[float(a == b) for b in database_y] for a in query_y]
    assert not relevance.graded


def test_equal_label_sets_are_one_group():
    queries, database = label_sets()
    relevance = Relevance(queries, database)
    assert len(relevance.group_sizes) == len({tuple(row) for row in database.tolist()}) < len(database)
    assert relevance.group_sizes.sum() == len(database)
    assert full_table(relevance).tolist() == naive.shared_labels(queries.tolist(), database.tolist())


@pytest.mark.parametrize("kind", [sparse.csr_matrix, sparse.csc_array, sparse.coo_array, sparse.lil_matrix])
def test_sparse_labels_are_dense_labels(kind):
    queries, database = label_sets()
    dense = full_table(Relevance(queries, database))
    assert np.array_equal(full_table(Relevance(kind(queries), kind(database))), dense)
    assert np.array_equal(full_table(Relevance(queries.astype(bool), kind(database.astype(np.float32)))), dense)


def test_unsorted_sparse_rows_are_the_same_set():
    labels = sparse.csr_matrix((np.ones(4), np.array([2, 0, 0, 2]), np.array([0, 2, 4])), shape=(2, 3))
    assert len(Relevance(labels, labels).group_sizes) == 1
    assert labels.indices.tolist() == [2, 0, 0, 2]


def test_binary_and_jaccard():
    queries, database = label_sets()
    sets = [[set(np.flatnonzero(row).tolist()) for row in y] for y in (queries, database)]
    binary = [[float(bool(a & b)) for b in sets[1]] for a in sets[0]]
    jaccard = [[len(a & b) / len(a | b) if a | b else 0.0 for b in sets[1]] for a in sets[0]]
    assert full_table(Relevance(queries, database, "binary")).tolist() == binary
    assert np.allclose(full_table(Relevance(queries, database, "jaccard")), jaccard, atol=1e-15)
    assert full_table(Relevance(["a"], ["a", "b"], "jaccard")).tolist() == [[1.0, 0.0]]


def test_a_function_of_the_labels():
    queries, database = label_sets()
    weights = np.array([0.5, 1.0, 2.0, 0.0])
    relevance = Relevance(queries, database, lambda a, b: (a * weights) @ b.T)
    assert relevance.graded
    assert np.allclose(full_table(relevance), (queries * weights) @ database.T)
    both_sparse = Relevance(sparse.csr_array(queries), sparse.csr_array(database), lambda a, b: 3 * (a @ b.T))
    assert np.allclose(full_table(both_sparse), 3 * queries @ database.T)
    near_years = Relevance([2000, 2010], [2001, 2009, 1900], lambda a, b: np.abs(a[:, None] - b[None, :]) < 5)
    assert full_table(near_years).tolist() == [[1, 0, 0], [0, 1, 0]]


@pytest.mark.parametrize("name", ["jaccard", "binary", "function"])
def test_scores_follow_the_relevance(name):
    queries, database = label_sets(3)
    rng = np.random.default_rng(3)
    codes = pack(rng.integers(2, size=(8, 4))), pack(rng.integers(2, size=(40, 4)))
    chosen = (lambda a, b: (a @ b.T) ** 1.5) if name == "function" else name
    table = full_table(Relevance(queries, database, chosen)).tolist()
    distances = naive.distance_table(*codes)
    expected = naive.evaluate(distances, table, 9, 5, 6, 1, "stable", "min", "zero", "exp")
    scores = metrics.evaluate(
        *codes,
        queries,
        database,
        at=9,
        precision_at=5,
        ndcg_at=6,
        radius=1,
        ties="stable",
        denominator="min",
        relevance=chosen,
    )
    assert {key: getattr(scores, key) for key in expected} == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.eye(3), np.eye(4)), "same number of labels. Got 3 and 4"),
        ((np.eye(3) * 2, np.eye(3)), "query_y must hold only 0 and 1"),
        ((np.eye(3), -sparse.eye_array(3)), "database_y must hold only 0 and 1"),
        ((np.zeros((2, 2, 2)), [1]), "query_y must be 1-D classes or 2-D label sets. Got 3-D"),
        ((3, [1]), "Got 0-D"),
        (([1], [1, 2], lambda a, b: np.zeros((5, 5))), r"must return an array of shape \(1, 2\). Got \(5, 5\)"),
        (([1], [1, 2], lambda a, b: np.array([[-1.0, 0]])), "not negative"),
        (([1], [1, 2], lambda a, b: np.array([[np.nan, 0]])), "finite"),
    ],
)
def test_errors(arguments, message):
    with pytest.raises(ValueError, match=message):
        full_table(Relevance(*arguments))


def test_unhashable_classes():
    classes = np.empty(2, dtype=object)
    classes[:] = [{1: 2}, {3: 4}]
    with pytest.raises(ValueError, match="Classes must be hashable"):
        Relevance(classes, [1])
