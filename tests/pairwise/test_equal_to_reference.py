"""The fast solvers give the reference loops' codes, bit for bit, for the same order of batches."""

import numpy as np
import paper_loops as reference
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hashlearn.pairwise.greedy import Greedy
from hashlearn.pairwise.losses import LOSSES, GeneralLoss
from hashlearn.pairwise.solver import random_batches
from hashlearn.pairwise.supervision import AnchorProblem
from hashlearn.pairwise.symmetric import Symmetric
from hashlearn.similarity import from_labels

SIXTEENTHS = st.integers(0, 160).map(lambda k: k / 16)


@st.composite
def problems(draw, max_bits=70, max_rows=40):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n = draw(st.integers(1, max_rows))
    n_bits = draw(st.integers(1, max_bits))
    if draw(st.booleans()):
        y = rng.integers(0, draw(st.integers(1, 6)), n)
    else:
        y = rng.random((n, draw(st.integers(1, 6)))) < 0.4
        y[~y.any(axis=1), 0] = True
    share = draw(st.sampled_from([None, "floor", -1.0, -0.5, -0.125, 0.0]))
    similarity = from_labels(y, dissimilar=share)
    anchors = np.sort(rng.permutation(n)[: draw(st.integers(1, n))])
    start = rng.choice([-1.0, 1.0], size=(n, n_bits))
    if draw(st.booleans()):
        # Rows that start alike move alike, and are merged on the way.
        start = start[rng.integers(0, draw(st.integers(1, n)), n)]
    return {
        "similarity": similarity,
        "anchors": anchors,
        "start": start,
        "beta": draw(SIXTEENTHS),
        "batch": draw(st.integers(1, n)),
        "residual": draw(st.sampled_from(["full", "stagewise"])),
        "seed": draw(st.integers(0, 1000)),
        # Three rounds of two passes each show every order of updates; the plain loops are slow.
        "iterations": {"max_iter": draw(st.integers(1, 3)), "inner_iter": draw(st.integers(1, 2))},
    }


def explicit(case):
    s, anchors = case["similarity"], case["anchors"]
    return s.table(s.group, s.columns(anchors))


def anchors_then_rest(case):
    """Both phases for the reference, as row numbers."""
    positions = random_batches(np.arange(len(case["anchors"])), case["batch"], case["seed"])
    rest = np.setdiff1d(np.arange(len(case["start"])), case["anchors"])
    return [
        lambda iteration: [case["anchors"][batch] for batch in positions(iteration)],
        random_batches(rest, case["batch"], case["seed"]),
    ]


def anchors_first(case, solver, loss):
    """The product's own order: anchors jointly, then every other row alone."""
    similarity, anchors, start = case["similarity"], case["anchors"], case["start"]
    problem = AnchorProblem.from_similarity(similarity, anchors, start.shape[1])
    batches = random_batches(np.arange(len(anchors)), case["batch"], case["seed"])
    codes = start.copy()
    codes[anchors] = learned = solver.solve(problem, start[anchors], batches, loss).codes
    rest = np.setdiff1d(np.arange(len(start)), anchors)
    if len(rest):
        coder = solver.row_coder(similarity, anchors, learned, loss)
        codes[rest] = coder.code(similarity.group[rest], start[rest].astype(np.float32))
    return codes


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(problems(max_rows=25))
def test_greedy(case):
    options = {"beta": case["beta"], "residual": case["residual"], **case["iterations"]}
    fast = anchors_first(case, Greedy(**options), LOSSES["ksh"])
    scale = case["start"].shape[1] / case["similarity"].largest
    phases = anchors_then_rest(case)
    slow = reference.gsdhp(explicit(case), case["anchors"], case["start"], phases, scale=scale, **options)
    np.testing.assert_array_equal(fast, slow)


@settings(max_examples=80, deadline=None)
@given(problems())
def test_symmetric(case):
    options = {"beta": case["beta"], **case["iterations"]}
    fast = anchors_first(case, Symmetric(**options), LOSSES["ksh"])
    scale = case["start"].shape[1] / case["similarity"].largest
    phases = anchors_then_rest(case)
    slow = reference.sdhp(explicit(case), case["anchors"], case["start"], phases, scale=scale, **options)
    np.testing.assert_array_equal(fast, slow)


@settings(max_examples=60, deadline=None)
@given(problems(max_bits=24), st.sampled_from(["hinge", "ee", "bre", "bre-released", "own"]))
def test_losses(case, name):
    n_bits = case["start"].shape[1]
    loss = GeneralLoss("own", lambda s, u, m: (s - u / 4) ** 2 * (u > 0)) if name == "own" else LOSSES[name]
    options = {"beta": case["beta"], "residual": case["residual"], **case["iterations"]}
    fast = anchors_first(case, Greedy(**options), loss)
    slow = reference.gsdhp_loss(
        explicit(case),
        case["anchors"],
        case["start"],
        anchors_then_rest(case),
        lambda s, u: loss.value(s, u, 0.0, n_bits),
        **options,
    )
    np.testing.assert_array_equal(fast, slow)


@pytest.mark.parametrize("residual", ["full", "stagewise"])
def test_bre_with_classes_gives_the_ksh_codes(residual):
    rng = np.random.default_rng(3)
    similarity = from_labels(rng.integers(0, 5, 60))
    problem = AnchorProblem.from_similarity(similarity, np.arange(60), 17)
    start = rng.choice([-1.0, 1.0], size=(60, 17))
    batches = random_batches(np.arange(60), 13, seed=0)
    codes = {
        name: Greedy(residual=residual).solve(problem, start, batches, LOSSES[name]).codes
        for name in ("ksh", "bre", "bre-released")
    }
    np.testing.assert_array_equal(codes["ksh"], codes["bre"])
    assert not np.array_equal(codes["bre"], codes["bre-released"])
