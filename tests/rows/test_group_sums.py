"""Sums by group: those of a plain loop, whichever groups each part has met."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from hashlearn.rows.checkpoint import from_arrays, to_arrays
from hashlearn.rows.reduce import GroupSums


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 40), st.lists(st.integers(1, 12), min_size=1, max_size=6), st.integers(0, 2**31))
def test_parts_add_up_to_the_loop(n_groups, sizes, seed):
    rng = np.random.default_rng(seed)
    expected, total = np.zeros((n_groups, 3)), None
    for size in sizes:
        group, values = rng.integers(0, n_groups, size), rng.integers(-9, 9, (size, 3)).astype(float)
        for k in range(size):
            expected[group[k]] += values[k]
        part = GroupSums.from_rows(group, values, n_groups)
        assert len(part.ids) == len(set(group.tolist()))
        total = part if total is None else total.__iadd__(part)
    again = from_arrays(GroupSums, to_arrays(total))
    np.testing.assert_array_equal(total.all(), expected)
    np.testing.assert_array_equal(again.all(), expected)
