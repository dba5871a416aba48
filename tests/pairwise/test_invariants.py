"""What the mathematics promises: objectives that never get worse, floors, exact small cases."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hashlearn.pairwise import symmetric
from hashlearn.pairwise.greedy import Greedy
from hashlearn.pairwise.losses import LOSSES, ElasticEmbedding, GeneralLoss, get_loss
from hashlearn.pairwise.solver import random_batches
from hashlearn.pairwise.supervision import AnchorProblem
from hashlearn.pairwise.symmetric import Symmetric
from hashlearn.similarity import from_labels


def setting(seed, n=40, n_bits=12, multilabel=True):
    rng = np.random.default_rng(seed)
    y = rng.random((n, 5)) < 0.35 if multilabel else rng.integers(0, 4, n)
    if multilabel:
        y[~y.any(axis=1), 0] = True
    similarity = from_labels(y)
    problem = AnchorProblem.from_similarity(similarity, np.arange(n), n_bits)
    return problem, rng.choice([-1.0, 1.0], size=(n, n_bits))


def direct_objective(problem, codes, loss):
    S = problem.dense_table()[problem.row_kind][:, problem.column_kind]
    return loss.value(S, codes @ codes.T, problem.scale, codes.shape[1]).sum()


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**31), st.sampled_from(sorted(LOSSES)), st.integers(1, 40), st.booleans())
def test_no_greedy_step_worsens_the_objective(seed, name, batch, multilabel):
    """With the full residual, every single batch leaves the summed loss over anchor pairs no higher."""
    problem, start = setting(seed, multilabel=multilabel)
    loss = LOSSES[name]
    value = direct_objective(problem, start, loss)
    codes = start
    for rows in random_batches(np.arange(len(start)), batch, seed % 1000)(0):
        solver = Greedy(beta=1.0, max_iter=1, residual="full")
        trace = solver.solve(problem, codes, lambda _, rows=rows: [rows], loss)
        codes = trace.codes
        after = direct_objective(problem, codes, loss)
        assert after <= value + 1e-6 * abs(value)
        assert trace.objective[0] == pytest.approx(after)
        value = after


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**31), st.integers(1, 40))
def test_symmetric_inner_loop_never_lowers_its_objective(seed, batch):
    problem, codes = setting(seed)
    gram = codes.T @ codes
    gamma = symmetric.gamma(gram, beta=0.0)
    rows = np.arange(batch)
    pull = problem.scale * (problem.table @ problem.column_sums(codes))[problem.row_kind[rows]]

    def inner_objective(h):
        return np.sum(h * pull) + np.sum((h @ (gamma * np.eye(len(gram)) - gram)) * h) / 2

    h = codes[rows]
    for _ in range(6):
        moved = symmetric.moved_codes(pull, h, gram, gamma, steps=1)
        assert inner_objective(moved) >= inner_objective(h) - 1e-9 * abs(inner_objective(h))
        h = moved


@pytest.mark.parametrize("solver", [Greedy(residual="full"), Symmetric()])
def test_recorded_objective_and_changes(solver):
    problem, start = setting(1)
    batches = random_batches(np.arange(len(start)), 7, seed=0)
    trace = solver.solve(problem, start, batches, LOSSES["ksh"])
    assert trace.objective[-1] == pytest.approx(direct_objective(problem, trace.codes, LOSSES["ksh"]))
    assert len(trace.changes) == len(trace.objective) <= 20
    assert trace.changes[-1] == 0 or len(trace.changes) == 20
    assert trace.changes[0] > 0


def test_the_last_incomplete_batch_is_updated_too():
    """10 rows in batches of 4: rows that start wrong are put right wherever the permutation puts them."""
    similarity = from_labels([0] * 10)
    problem = AnchorProblem.from_similarity(similarity, np.arange(10), 1)
    for seed in range(5):
        start = np.ones((10, 1))
        start[seed] = -1
        batches = random_batches(np.arange(10), 4, seed)
        assert sum(map(len, batches(0))) == 10
        codes = Greedy(beta=0.0, max_iter=1).solve(problem, start, batches, LOSSES["ksh"]).codes
        assert len(np.unique(codes)) == 1


def test_four_classes_three_bits_reach_the_floor():
    """The simplex codes +++ +-- -+- --+ are optimal: no assignment is better, and greedy finds one as good."""
    y = np.repeat(np.arange(4), 6)
    problem = AnchorProblem.from_similarity(from_labels(y), np.arange(24), 3)
    best = min(
        direct_objective(problem, np.array(book, dtype=float)[y], LOSSES["ksh"])
        for book in itertools.product(list(itertools.product([-1, 1], repeat=3)), repeat=4)
    )
    assert best == pytest.approx(24 * 24 * 3)
    found = min(
        Greedy(beta=0.0)
        .solve(
            problem,
            np.random.default_rng(seed).choice([-1.0, 1.0], size=(24, 3)),
            random_batches(np.arange(24), 4, seed),
            LOSSES["ksh"],
        )
        .objective[-1]
        for seed in range(10)
    )
    assert found == pytest.approx(best)


def test_ten_classes_stay_above_the_known_floor():
    y = np.repeat(np.arange(10), 20)
    problem = AnchorProblem.from_similarity(from_labels(y), np.arange(200), 16)
    start = np.random.default_rng(0).choice([-1.0, 1.0], size=(200, 16))
    batches = random_batches(np.arange(200), 20, 0)
    trace = Greedy().solve(problem, start, batches, LOSSES["ksh"])
    rms = np.sqrt(trace.objective[-1] / 200**2)
    floor = 16 * np.sqrt(0.9) * (1 - 1 / 9)
    assert floor <= rms + 1e-9
    assert rms < 1.04 * floor


def test_slope_of_the_ksh_loss_is_the_greedy_update():
    s, rest = np.array([1.0, -1.0, 0.5]), np.array([3.0, -2.0, 0.0])
    ksh = GeneralLoss("ksh", lambda s, u, m: (m * s - u) ** 2)
    np.testing.assert_allclose(-ksh.slope(s, rest, 8), 8 * s - rest)


def test_losses_by_hand():
    u = np.array([4.0, -2.0])
    for name, similar, dissimilar in [("bre", 16, 4), ("bre-released", 16, 4), ("hinge", 16, 0)]:
        loss = LOSSES[name]
        assert loss.value(np.array([1.0]), u[:1], 0, 8)[0] == similar
        assert loss.value(np.array([-1.0]), u[1:], 0, 8)[0] == (36 if name == "bre" else dissimilar)
    assert get_loss(lambda s, u: s * u).value(u, u, 0, 8).tolist() == [16.0, 4.0]
    with pytest.raises(ValueError, match="loss must be one of"):
        get_loss("logistic")


def test_elastic_embedding_by_hand():
    """Distances 2 and 5 of 8 bits; an unknown pair costs nothing, and only dissimilar pairs feel the repulsion."""
    loss, u = get_loss(ElasticEmbedding(repulsion=0.5)), np.array([4.0, -2.0])
    np.testing.assert_allclose(loss.value(np.ones(2), u, 0, 8), [2, 5])
    np.testing.assert_allclose(loss.value(-np.ones(2), u, 0, 8), [4 * np.exp(-2 / 8), 4 * np.exp(-5 / 8)])
    assert not loss.value(np.zeros(2), u, 0, 8).any()
    rest = np.arange(-7.0, 8.0)
    assert (LOSSES["ee"].slope(np.ones(15), rest, 8) == -0.25).all()
    apart = LOSSES["ee"].slope(-np.ones(15), rest, 8)
    assert (apart > 0).all()
    assert (np.diff(apart) > 0).all()  # a dissimilar pair is pushed most where it is nearest
