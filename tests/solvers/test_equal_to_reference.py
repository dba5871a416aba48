"""The fast solvers give the reference loops' codes, bit for bit, for the same order of batches."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hashlearn.reproduction import loops as reference
from hashlearn.similarity import from_labels
from hashlearn.solvers import general, greedy, symmetric
from hashlearn.solvers.losses import LOSSES, GeneralLoss
from hashlearn.solvers.problem import AnchorProblem, group_pull, random_batches
from hashlearn.solvers.rows import GeneralRows

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
        "iterations": {"max_iter": draw(st.integers(1, 6)), "inner_iter": draw(st.integers(1, 4))},
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


def anchors_first(case, learn, code_rest):
    """The product's own order: anchors jointly, then every other row alone."""
    anchors, start = case["anchors"], case["start"]
    n_bits = start.shape[1]
    problem = AnchorProblem.of_anchors(case["similarity"], anchors, n_bits)
    batches = random_batches(np.arange(len(anchors)), case["batch"], case["seed"])
    trace = learn(problem, start[anchors], batches)
    codes = start.copy()
    codes[anchors] = trace.codes
    rest = np.setdiff1d(np.arange(len(start)), anchors)
    if len(rest):
        codes[rest] = code_rest(trace.codes, case["similarity"].group[rest], start[rest].astype(np.float32))
    return codes


def interleaved(case):
    rows = np.arange(len(case["start"]))
    problem = AnchorProblem.of_rows(case["similarity"], rows, case["anchors"], case["start"].shape[1])
    return problem, random_batches(rows, case["batch"], case["seed"])


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(problems())
def test_greedy_anchors_first(case):
    loss, scale = LOSSES["ksh"], case["start"].shape[1] / case["similarity"].largest
    options = {"beta": case["beta"], "residual": case["residual"]}

    def code_rest(anchor_codes, group, start):
        pull = group_pull(case["similarity"], case["anchors"], anchor_codes, loss.target)
        gram = anchor_codes.T @ anchor_codes
        sweeps = case["iterations"]["max_iter"]
        return greedy.code_rows(pull, gram, group, start, scale=scale, max_iter=sweeps, **options)

    fast = anchors_first(case, lambda p, h, b: greedy.learn(p, h, b, loss, **options, **case["iterations"]), code_rest)
    slow = reference.gsdhp(
        explicit(case),
        case["anchors"],
        case["start"],
        anchors_then_rest(case),
        scale=scale,
        **options,
        **case["iterations"],
    )
    np.testing.assert_array_equal(fast, slow)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(problems(max_rows=25))
def test_greedy_interleaved(case):
    problem, batches = interleaved(case)
    options = {"beta": case["beta"], "residual": case["residual"], **case["iterations"]}
    fast = greedy.learn(problem, case["start"], batches, LOSSES["ksh"], **options).codes
    slow = reference.gsdhp(explicit(case), case["anchors"], case["start"], [batches], scale=problem.scale, **options)
    np.testing.assert_array_equal(fast, slow)


@settings(max_examples=80, deadline=None)
@given(problems())
def test_symmetric_anchors_first(case):
    scale = case["start"].shape[1] / case["similarity"].largest
    options = {"beta": case["beta"], **case["iterations"]}

    def code_rest(anchor_codes, group, start):
        pull = group_pull(case["similarity"], case["anchors"], anchor_codes, lambda s: s)
        return symmetric.code_rows(pull, anchor_codes.T @ anchor_codes, group, start, scale=scale, **options)

    fast = anchors_first(case, lambda p, h, b: symmetric.learn(p, h, b, **options), code_rest)
    slow = reference.sdhp(
        explicit(case), case["anchors"], case["start"], anchors_then_rest(case), scale=scale, **options
    )
    np.testing.assert_array_equal(fast, slow)


@settings(max_examples=80, deadline=None)
@given(problems())
def test_symmetric_interleaved(case):
    problem, batches = interleaved(case)
    options = {"beta": case["beta"], **case["iterations"]}
    fast = symmetric.learn(problem, case["start"], batches, **options).codes
    slow = reference.sdhp(explicit(case), case["anchors"], case["start"], [batches], scale=problem.scale, **options)
    np.testing.assert_array_equal(fast, slow)


@settings(max_examples=60, deadline=None)
@given(problems(max_bits=24), st.sampled_from(["hinge", "ee", "bre", "bre-released", "own"]))
def test_losses_anchors_first(case, name):
    n_bits = case["start"].shape[1]
    loss = GeneralLoss("own", lambda s, u, m: (s - u / 4) ** 2 * (u > 0)) if name == "own" else LOSSES[name]
    options = {"beta": case["beta"], "residual": case["residual"]}

    def code_rest(anchor_codes, group, start):
        sweeps = case["iterations"]["max_iter"]
        s, anchors = case["similarity"], case["anchors"]
        if name.startswith("bre"):
            pull = group_pull(s, anchors, anchor_codes, loss.target)
            gram = anchor_codes.T @ anchor_codes
            return greedy.code_rows(pull, gram, group, start, scale=n_bits, max_iter=sweeps, **options)
        coder = GeneralRows(s, anchors, anchor_codes, loss, max_iter=sweeps, **options)
        return coder.code(group, start)

    solver = greedy if name.startswith("bre") else general
    fast = anchors_first(case, lambda p, h, b: solver.learn(p, h, b, loss, **options, **case["iterations"]), code_rest)
    slow = reference.gsdhp_loss(
        explicit(case),
        case["anchors"],
        case["start"],
        anchors_then_rest(case),
        lambda s, u: loss.value(s, u, 0.0, n_bits),
        **options,
        **case["iterations"],
    )
    np.testing.assert_array_equal(fast, slow)


@settings(max_examples=40, deadline=None)
@given(problems(max_bits=20, max_rows=25))
def test_hinge_interleaved(case):
    problem, batches = interleaved(case)
    options = {"beta": case["beta"], "residual": case["residual"], **case["iterations"]}
    loss, n_bits = LOSSES["hinge"], case["start"].shape[1]
    fast = general.learn(problem, case["start"], batches, loss, **options).codes
    slow = reference.gsdhp_loss(
        explicit(case), case["anchors"], case["start"], [batches], lambda s, u: loss.value(s, u, 0.0, n_bits), **options
    )
    np.testing.assert_array_equal(fast, slow)


@pytest.mark.parametrize("residual", ["full", "stagewise"])
def test_bre_with_classes_gives_the_ksh_codes(residual):
    rng = np.random.default_rng(3)
    similarity = from_labels(rng.integers(0, 5, 60))
    problem = AnchorProblem.of_anchors(similarity, np.arange(60), 17)
    start = rng.choice([-1.0, 1.0], size=(60, 17))
    batches = random_batches(np.arange(60), 13, seed=0)
    codes = {
        name: greedy.learn(problem, start, batches, LOSSES[name], beta=10.0, residual=residual).codes
        for name in ("ksh", "bre", "bre-released")
    }
    np.testing.assert_array_equal(codes["ksh"], codes["bre"])
    assert not np.array_equal(codes["bre"], codes["bre-released"])
