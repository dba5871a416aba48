"""Whether a query fits a known label: the rank of its score, and the labels of the rows around it."""

import numpy as np

from hashlearn.opencode.labels import NEIGHBORS, Familiarity


def two_clusters(n=200):
    rng = np.random.default_rng(0)
    labeled = np.arange(2 * n) < n
    vectors = np.where(labeled[:, None], [1.0, 0.0], [0.0, 1.0]) + 0.1 * rng.normal(size=(2 * n, 2))
    return vectors.astype(np.float32), labeled


def test_neighbors_tell_known_from_unknown():
    vectors, labeled = two_clusters()
    best = np.linspace(0, 1, 50, dtype=np.float32)
    known = Familiarity.learn(best, vectors, labeled, 1)
    assert known.separation_ > 0.95
    assert abs(known.usual_ - 1) < 0.02
    scores = np.full((2, 3), 0.5, dtype=np.float32)
    inside, outside = known.measure(scores, np.eye(2, dtype=np.float32), 0.0)
    assert outside < 0.05 < 0.6 < inside
    np.testing.assert_allclose(known.measure(scores, np.eye(2, dtype=np.float32), 1.0), 0.5)


def test_without_unlabeled_rows_the_rank_decides():
    vectors, _ = two_clusters()
    known = Familiarity.learn(np.array([0.1, 0.4, 0.2, 0.3], np.float32), vectors, np.ones(len(vectors), bool), 2)
    assert known.vectors_.shape == (0, 2)
    scores = np.array([[0.0, 0.05], [0.25, 0.1], [0.9, 0.2]], dtype=np.float32)
    np.testing.assert_allclose(known.measure(scores, vectors[:3], 0.0), [0, 0.5, 1])


def test_labels_given_at_random_tell_nothing_and_keep_the_rank():
    vectors = two_clusters(500)[0]
    mixed = Familiarity.learn(np.arange(10, dtype=np.float32), vectors, np.random.default_rng(1).random(1000) < 0.3, 1)
    assert mixed.separation_ < 0.1
    assert 0.2 < mixed.usual_ < 0.4


def test_neighbors_that_take_more_than_they_tell_leave_it_to_the_rank():
    """Few rows have labels, anywhere, so that half of the labeled rows have no neighbor with one."""
    rng = np.random.default_rng(0)
    vectors = two_clusters(2000)[0]
    labeled = rng.random(4000) < 0.04
    known = Familiarity.learn(np.linspace(0, 1, 50, dtype=np.float32), vectors, labeled, 1)
    assert (known.separation_, len(known.vectors_)) == (0, 0)
    np.testing.assert_allclose(known.measure(np.full((9, 3), 0.5, np.float32), vectors[:9], 0.0), 0.5)


def test_shares_are_those_of_a_plain_loop_without_the_row_itself():
    rng = np.random.default_rng(2)
    vectors, labeled = rng.normal(size=(60, 5)).astype(np.float32), rng.random(60) < 0.5
    known = Familiarity.learn(np.zeros(3, np.float32), vectors, labeled, 1)
    shares = []
    for row in range(60):
        others = np.delete(np.arange(60), row)
        nearest = others[np.argsort(-(vectors[others] @ vectors[row]), kind="stable")[:NEIGHBORS]]
        shares.append(labeled[nearest].mean())
    assert abs(known.usual_ - np.mean(np.array(shares)[labeled])) < 1e-6
