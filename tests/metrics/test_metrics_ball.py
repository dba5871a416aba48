"""MAP within a radius: exact small cases, all orders of ties by hand, and the official evaluators' two liberties."""

from itertools import permutations

import numpy as np
import pytest

from hashlearn import metrics
from hashlearn.codes import pack, unpack
from hashlearn.metrics.ball import map_within_radius


def random_problem(seed, n_queries=7, n_rows=40, n_bits=5):
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 2, (n_queries + n_rows, n_bits))
    y = rng.integers(0, 3, n_queries + n_rows)
    packed = pack(bits)
    return packed[:n_queries], packed[n_queries:], y[:n_queries], y[n_queries:]


def naive(queries, rows, query_y, y, radius, n_bits=5, order=None, drop=False):
    scores = []
    for number, (query, label) in enumerate(zip(queries, query_y, strict=True)):
        distance = (unpack(query[None], n_bits) != unpack(rows, n_bits)).sum(axis=1)
        key = distance if order is None else order[number]
        inside = [row for row in np.argsort(key, kind="stable") if distance[row] <= radius]
        found, total = 0, 0.0
        for place, row in enumerate(inside, 1):
            if y[row] == label:
                found += 1
                total += found / place
        if drop and inside and not found:
            continue
        scores.append(total / found if found else 0.0)
    return np.mean(scores)


@pytest.mark.parametrize("radius", [0, 1, 2, 5])
def test_stable_ties_are_a_plain_loop(radius):
    for seed in range(5):
        problem = random_problem(seed)
        assert map_within_radius(*problem, radius=radius, ties="stable").map == pytest.approx(naive(*problem, radius))


def test_expected_ties_are_the_mean_over_all_orders():
    queries, rows, query_y, y = random_problem(3, n_queries=3, n_rows=6, n_bits=3)
    orders = [np.array(order) for order in permutations(range(6))]
    mean = np.mean([naive(queries, rows[order], query_y, y[order], 2, n_bits=3) for order in orders])
    assert map_within_radius(queries, rows, query_y, y).map == pytest.approx(mean)


def test_the_whole_space_is_map_over_all_rows():
    problem = random_problem(1)
    found = map_within_radius(*problem, radius=8)
    assert found.map == pytest.approx(metrics.mean_average_precision(*problem, at=None))
    assert found.empty == 0


def test_official_orders_by_outputs_and_drops_balls_without_a_hit():
    rng = np.random.default_rng(5)
    queries, rows, query_y, y = random_problem(5)
    query_y = query_y.copy()
    query_y[0] = 9  # nothing is relevant to it, and its ball holds rows
    outputs = rng.normal(size=(7, 4)), rng.normal(size=(40, 4))
    found = map_within_radius(queries, rows, query_y, y, form="official", projections=outputs)
    assert found.map == pytest.approx(naive(queries, rows, query_y, y, 2, order=-outputs[0] @ outputs[1].T, drop=True))
    assert found.without_hit >= 1 / 7
    strict = map_within_radius(queries, rows, query_y, y)
    assert (strict.empty, strict.without_hit) == (found.empty, found.without_hit)


def test_an_empty_ball_counts_as_zero_in_both_forms():
    codes = pack([[1, 1, 1, 1], [0, 0, 0, 0]])
    outputs = np.ones((1, 4)), np.ones((1, 4))
    for form in ("strict", "official"):
        found = map_within_radius(codes[:1], codes[1:], [0], [0], form=form, projections=outputs)
        assert found == (0.0, 1.0, 0.0)


def test_label_sets_and_bad_input():
    codes = pack([[1, 1, 1, 1], [1, 1, 1, 0]])
    assert map_within_radius(codes[:1], codes[1:], [[1, 1, 0]], [[0, 1, 1]]).map == 1.0
    with pytest.raises(ValueError, match="give projections="):
        map_within_radius(codes, codes, [0, 1], [0, 1], form="official")
    with pytest.raises(ValueError, match="a row for each of the 2 database rows"):
        map_within_radius(codes, codes, [0, 1], [0, 1], form="official", projections=(np.ones((2, 3)), np.ones((1, 3))))
    with pytest.raises(ValueError, match="form must be one of"):
        map_within_radius(codes, codes, [0, 1], [0, 1], form="loose")
    with pytest.raises(ValueError, match="radius must not be negative"):
        map_within_radius(codes, codes, [0, 1], [0, 1], radius=-1)
