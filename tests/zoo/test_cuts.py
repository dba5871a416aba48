"""Minimum cuts are exact, blocks hold no dissimilar pair, sweeps never rise."""

import itertools

import numpy as np
import pytest
from scipy import sparse
from zoo_data import label_sets

from hashlearn.labels import label_matrix
from hashlearn.zoo.bases.pairs import BlockCuts, draw_partners, minimum_cut, similar_blocks


def test_minimum_cut_equals_enumeration():
    rng = np.random.RandomState(1)
    for _ in range(30):
        n = rng.randint(1, 8)
        upper = np.triu(-rng.randint(0, 6, size=(n, n)) * (rng.rand(n, n) < 0.6), 1)
        field = rng.randint(-9, 10, size=n).astype(np.int64)
        signs = minimum_cut(sparse.csr_matrix((upper + upper.T).astype(np.int64)), field)

        def cost(z, upper=upper, field=field):
            return z @ upper @ z + field @ z

        assert cost(signs) == min(cost(np.array(z)) for z in itertools.product([-1, 1], repeat=n))


@pytest.mark.parametrize(("pull", "first"), [(9, -1), (3, 1)])
def test_minimum_cut_survives_numbers_beyond_32_bits(pull, first):
    bonds = sparse.csr_matrix(np.array([[0, -5], [-5, 0]], dtype=np.int64) * 10**9)
    field = np.array([pull, -(10**4)], dtype=np.int64) * 10**9
    np.testing.assert_array_equal(minimum_cut(bonds, field), [first, 1])


@pytest.mark.parametrize("labels", [np.arange(80) % 5, label_sets()])
def test_blocks_hold_no_dissimilar_pair_and_sweeps_never_rise(labels):
    rng = np.random.RandomState(0)
    matrix = label_matrix(labels)
    pairs = draw_partners(matrix, 6, rng)
    block = similar_blocks(matrix, pairs, rng)
    assert not np.any((block[pairs.left] == block[pairs.right]) & ~pairs.similar)
    assert len(np.unique(block)) < 80
    distance = rng.randint(0, 3, size=len(pairs.left))
    gain = pairs.gain("hinge", distance, 4)
    signs, trace = BlockCuts(pairs, block).infer(gain, 3, rng)
    assert np.all(np.diff(trace) <= 0)
    assert trace[-1] < trace[0]
    assert trace[-1] == (gain * signs[pairs.left] * signs[pairs.right]).sum()


def test_last_block_is_optimal_given_the_others():
    rng = np.random.RandomState(3)
    y = np.array([0, 0, 0, 1, 1, 1, 1])
    matrix = label_matrix(y)
    pairs = draw_partners(matrix, 10, rng)
    gain = pairs.gain("ksh", rng.randint(0, 4, size=len(pairs.left)), 5)
    signs, trace = BlockCuts(pairs, similar_blocks(matrix, pairs, rng)).infer(gain, 5, rng)
    for own in (0, 1):  # after sweeps without change, each class is at its minimum
        for z in itertools.product([-1, 1], repeat=int((y == own).sum())):
            other = signs.copy()
            other[y == own] = z
            assert (gain * other[pairs.left] * other[pairs.right]).sum() >= trace[-1]
