"""Plain classes without a table between groups: the same codes as with it, in memory of one line per class."""

from dataclasses import replace

import numpy as np
import pytest

from hashlearn.pairwise.greedy import Greedy
from hashlearn.pairwise.losses import LOSSES
from hashlearn.pairwise.solver import random_batches
from hashlearn.pairwise.supervision import AnchorProblem, ClassTable, group_pull, mapped
from hashlearn.pairwise.symmetric import Symmetric
from hashlearn.similarity import from_labels

N_ROWS, N_BITS = 120, 16


@pytest.fixture
def problem():
    """Thirty classes."""
    y = np.random.default_rng(0).integers(0, 30, N_ROWS)
    return AnchorProblem.from_similarity(from_labels(y), np.arange(N_ROWS), N_BITS)


def learned(problem, loss):
    start = np.random.default_rng(1).choice([-1.0, 1.0], size=(N_ROWS, N_BITS))
    return Greedy(beta=2.0).solve(problem, start, random_batches(np.arange(N_ROWS), 32, 0), LOSSES[loss])


@pytest.mark.parametrize("loss", ["ksh", "bre-released"])
def test_greedy_learns_the_same_codes_as_with_a_table(problem, loss):
    assert isinstance(problem.table, ClassTable)
    short, full = learned(problem, loss), learned(replace(problem, table=problem.dense_table()), loss)
    np.testing.assert_array_equal(short.codes, full.codes)
    assert short.objective == full.objective
    assert short.changes == full.changes
    assert short.changes[0] > 0


def test_symmetric_learns_the_same_codes_as_with_a_table(problem):
    start = np.random.default_rng(1).choice([-1.0, 1.0], size=(N_ROWS, N_BITS))
    both = [
        Symmetric(beta=2.0).solve(one, start, random_batches(np.arange(N_ROWS), 32, 0), LOSSES["ksh"])
        for one in (problem, replace(problem, table=problem.dense_table()))
    ]
    np.testing.assert_array_equal(both[0].codes, both[1].codes)
    assert both[0].objective == both[1].objective


def test_a_product_with_a_mapped_table(problem):
    sums = np.random.default_rng(0).normal(size=(problem.table.shape[1], 3))
    function = LOSSES["bre-released"].target
    expected = function(problem.dense_table()) @ sums
    np.testing.assert_allclose(mapped(problem.table, function) @ sums, expected, atol=1e-12)


def test_the_pull_of_groups_is_that_of_the_table():
    y = np.sort(np.random.default_rng(0).integers(0, 30, N_ROWS))
    similarity, anchors = from_labels(y, dissimilar=-0.5), np.arange(0, N_ROWS, 3)
    codes = np.random.default_rng(0).choice([-1.0, 1.0], size=(len(anchors), N_BITS))
    S = similarity.table(np.arange(similarity.n_groups), similarity.columns(anchors))
    np.testing.assert_array_equal(group_pull(similarity, anchors, codes, LOSSES["ksh"].target), S @ codes)


def test_ten_thousand_classes_hold_no_table():
    y = np.repeat(np.arange(10_000), 2)
    problem = AnchorProblem.from_similarity(from_labels(y), np.arange(len(y)), 8)
    start = np.random.default_rng(0).choice([-1.0, 1.0], size=(len(y), 8))
    state = Greedy().begin(problem, start, LOSSES["ksh"])
    arrays = [value for value in vars(state).values() if isinstance(value, np.ndarray)]
    assert sum(array.nbytes for array in arrays) < 8 * 8 * 4 * len(y)
