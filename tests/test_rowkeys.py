"""Draws by random keys: the same whatever the chunks, uniform, and each group by its share."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hashlearn import rowkeys
from hashlearn.rowkeys import draw_evenly


@settings(max_examples=30, deadline=None)
@given(start=st.integers(0, 1000), length=st.integers(0, 1000), seed=st.integers(0, 2**31))
def test_keys_depend_on_the_row_number_alone(start, length, seed):
    whole = rowkeys.row_keys(seed, rowkeys.ANCHORS, 0, 2000)
    np.testing.assert_array_equal(
        rowkeys.row_keys(seed, rowkeys.ANCHORS, start, start + length), whole[start : start + length]
    )


def test_purposes_and_seeds_differ():
    keys = [rowkeys.row_keys(seed, purpose, 0, 100) for seed in (0, 1) for purpose in (0, 1)]
    assert len({tuple(part) for part in keys}) == 4


def test_the_lowest_with_ties():
    keys = np.array([5, 3, 3, 9, 3, 1], dtype=np.uint64)
    assert rowkeys.lowest(keys, 3).tolist() == [1, 2, 5]
    assert rowkeys.lowest(keys, 0).tolist() == []
    assert rowkeys.lowest(keys, 9).tolist() == [0, 1, 2, 3, 4, 5]


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 60), min_size=1, max_size=40),
    count=st.integers(1, 200),
    seed=st.integers(0, 1000),
    unknown=st.integers(0, 30),
)
def test_every_group_has_its_share_rounded_down_or_up(sizes, count, seed, unknown):
    group = np.random.default_rng(seed).permutation(np.repeat(np.arange(-1, len(sizes)), [unknown, *sizes]))
    drawn = draw_evenly(group, count, seed)
    total = sum(sizes)
    assert len(drawn) == min(count, total)
    assert (np.diff(drawn) > 0).all()
    got = np.bincount(group[drawn], minlength=len(sizes))
    shares = np.array(sizes) * min(count, total) / total
    assert (got >= np.floor(shares - 1e-9)).all()
    assert (got <= np.ceil(shares + 1e-9)).all()


def test_left_over_places_go_to_groups_in_proportion():
    """Rows of small groups, of middling and of large ones are all drawn about equally often."""
    group = np.repeat([0, 1, 2, 3, *range(4, 44)], [400, 130, 15, 15, *[1] * 40])
    times = np.zeros(len(group))
    draws, count = 3000, 20
    for seed in range(draws):
        times[draw_evenly(group, count, seed)] += 1
    rate = np.bincount(group, weights=times)[:4] / np.array([400, 130, 15, 15]) / (draws * count / len(group))
    rare = times[560:].mean() / (draws * count / len(group))
    assert np.abs(np.append(rate, rare) - 1).max() < 0.15


def test_too_few_candidates_are_noticed():
    group, counts = np.zeros(4, dtype=np.intp), np.array([100])
    keys = np.array([1, 2, 3, 9], dtype=np.uint64)
    with pytest.raises(rowkeys.Incomplete):
        rowkeys.choose_evenly(group, keys, counts, 4, np.array([5], dtype=np.uint64))
    assert rowkeys.choose_evenly(group, keys, counts, 3, np.array([5], dtype=np.uint64)).tolist() == [0, 1, 2]
