"""Slopes of pairs: looked up or evaluated, compiled or not, they are the same; compiled loops refuse misfits."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hashlearn.pairwise import general as slopes
from hashlearn.pairwise.general import Slopes
from hashlearn.pairwise.losses import LOSSES

COMPILED = slopes._slopes  # before the tests' fixture takes it away
needs_slopes = pytest.mark.skipif(COMPILED is None, reason="installed without a compiler")


def signs(rng, *shape):
    return rng.choice(np.array([-1, 1], dtype=np.int32), size=shape)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 9), st.integers(1, 20), st.integers(1, 12), st.integers(0, 12))
def test_moving_bits_keeps_the_slopes_right(seed, n_rows, n_columns, n_bits, n_fixed):
    rng = np.random.default_rng(seed)
    n_fixed = min(n_fixed, n_columns)
    s = rng.integers(-1, 3, (3, 4)).astype(np.float64)
    kinds, columns = rng.integers(0, 3, n_rows), rng.integers(0, 4, n_columns)
    bits, others = signs(rng, n_bits, n_rows), signs(rng, n_bits, n_columns)
    weight = rng.integers(1, 5, n_fixed).astype(np.float64)
    pairs = Slopes(LOSSES["hinge"], s, n_bits).pairs(kinds, columns, bits.T @ others)
    for j in range(n_bits):
        rest = np.delete(bits, j, axis=0).T @ np.delete(others, j, axis=0)
        want = -LOSSES["hinge"].slope(s[kinds[:, None], columns], rest.astype(float), n_bits)
        pull, own = pairs.sums(bits[j], others[j], weight)
        np.testing.assert_array_equal(pull, want[:, :n_fixed] @ weight)
        np.testing.assert_array_equal(own, want[:, n_fixed:])
        new, after = signs(rng, n_rows), others[j].copy()
        after[n_fixed:] = signs(rng, n_columns - n_fixed)
        pairs.move(bits[j], others[j], new, after)
        bits[j], others[j] = new, after


def test_evaluated_where_there_are_too_many_similarities(monkeypatch):
    rng = np.random.default_rng(0)
    s, bits, others = rng.integers(-1, 3, (3, 4)).astype(float), signs(rng, 8, 5), signs(rng, 8, 6)
    kinds, columns, weight = rng.integers(0, 3, 5), rng.integers(0, 4, 6), np.ones(4)
    answers = []
    for most in (slopes.MAX_TABLE, 0):
        monkeypatch.setattr(slopes, "MAX_TABLE", most)
        pairs = Slopes(LOSSES["hinge"], s, 8).pairs(kinds, columns, bits.T @ others)
        other = others[2]
        pairs.move(bits[2], other, -bits[2], other)
        answers.append(pairs.sums(-bits[2], other, weight))
    assert pairs.table is None
    for one, other in zip(*answers, strict=True):
        np.testing.assert_array_equal(one, other)


def sums_arrays():
    return {
        "table": np.ones(20),
        "at": np.full((3, 5), 10, dtype=np.int32),
        "bit": np.ones(3, dtype=np.int32),
        "other": np.ones(5, dtype=np.int32),
        "weight": np.ones(2),
        "pull": np.zeros(3),
        "own": np.zeros((3, 3)),
    }


def move_arrays():
    zeros = np.zeros(3, dtype=np.int32)
    return {
        "at": np.zeros((3, 5), dtype=np.int32),
        "old": zeros,
        "before": np.ones(5, dtype=np.int32),
        "new": zeros.copy(),
        "after": np.ones(5, dtype=np.int32),
    }


CALLS = {"sums": sums_arrays, "move": move_arrays}


@needs_slopes
@pytest.mark.parametrize(
    ("call", "name"), [(call, name) for call, make in CALLS.items() for name in make() if name != "table"]
)
def test_arrays_that_do_not_fit_are_refused(call, name):
    arrays = CALLS[call]()
    getattr(COMPILED, call)(*arrays.values())
    arrays[name] = arrays[name].ravel()[:-1].copy()
    with pytest.raises(ValueError, match="do not fit"):
        getattr(COMPILED, call)(*arrays.values())


@needs_slopes
@pytest.mark.parametrize(("name", "value"), [("at", 21), ("at", -1), ("bit", 2), ("bit", -2), ("other", 99)])
def test_places_outside_the_table_are_refused(name, value):
    arrays = sums_arrays()
    arrays[name].ravel()[-1] = value
    with pytest.raises(ValueError, match="do not fit"):
        COMPILED.sums(*arrays.values())
