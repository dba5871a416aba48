"""The compiled loops by themselves: built where they can be, the same codes as NumPy, no trust in callers."""

import shutil

import numpy as np
import pytest

from hashlearn.pairwise import general, greedy
from hashlearn.pairwise.greedy import GreedyRows
from hashlearn.pairwise.losses import LOSSES
from hashlearn.pairwise.solver import random_batches
from hashlearn.pairwise.supervision import AnchorProblem
from hashlearn.similarity import from_labels

FLIPS, SLOPES = greedy._flips, general._slopes  # before the tests' fixture takes them away


@pytest.fixture(autouse=True, scope="module")
def inner_loops():
    """Run each test once: those of this file choose the inner loops themselves."""


needs_flips = pytest.mark.skipif(FLIPS is None, reason="installed without a compiler")


def test_they_are_compiled_where_they_can_be():
    if not shutil.which("cc"):
        pytest.skip("no compiler")
    assert FLIPS is not None
    assert SLOPES is not None


def as_numpy(monkeypatch, work):
    """What ``work`` gives with the compiled loops, and what without."""
    monkeypatch.setattr(greedy, "_flips", FLIPS)
    compiled = work()
    monkeypatch.setattr(greedy, "_flips", None)
    return compiled, work()


@pytest.mark.slow
@needs_flips
@pytest.mark.parametrize("residual", greedy.RESIDUALS)
@pytest.mark.parametrize("labels", ["classes", "sets", "shares"])
def test_the_same_anchors_at_full_size(monkeypatch, residual, labels):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 10, 700) if labels == "classes" else np.maximum(rng.random((700, 20)) < 0.1, np.eye(700, 20))
    similarity = from_labels(y, relevance="jaccard" if labels == "shares" else "count")
    problem = AnchorProblem.from_similarity(similarity, np.arange(700), 48)
    start = rng.choice([-1.0, 1.0], size=(700, 48))

    def work():
        batches = random_batches(np.arange(700), 200, 3)
        return greedy.Greedy(residual=residual).solve(problem, start, batches, LOSSES["ksh"])

    compiled, plain = as_numpy(monkeypatch, work)
    if labels == "shares":
        # Not whole numbers: which side of 0 a tie falls to hangs on the order of additions.
        np.testing.assert_allclose(compiled.objective[-1], plain.objective[-1], rtol=0.005)
        return
    np.testing.assert_array_equal(compiled.codes, plain.codes)
    assert compiled.changes == plain.changes
    np.testing.assert_allclose(compiled.objective, plain.objective, rtol=1e-12)


@needs_flips
@pytest.mark.parametrize("size", [1, 7, 8, 9, 31, 32, 33, 47, 48, 71])
def test_the_same_anchors_whatever_is_left_of_a_batch_beside_whole_vectors(monkeypatch, size):
    rng = np.random.default_rng(size)
    problem = AnchorProblem.from_similarity(from_labels(rng.integers(0, 4, 150)), np.arange(150), 24)
    start = rng.choice([-1.0, 1.0], size=(150, 24))

    def work():
        return greedy.Greedy().solve(problem, start, random_batches(np.arange(150), size, 3), LOSSES["ksh"])

    compiled, plain = as_numpy(monkeypatch, work)
    np.testing.assert_array_equal(compiled.codes, plain.codes)
    assert compiled.changes == plain.changes


@needs_flips
@pytest.mark.parametrize("residual", greedy.RESIDUALS)
@pytest.mark.parametrize("n", [0, 1, 15, 16, 17, 1000])
def test_the_same_rows(monkeypatch, n, residual):
    rng = np.random.default_rng(n)
    anchors = rng.choice([-1.0, 1.0], size=(300, 32))
    pull, group = rng.integers(-300, 300, (5, 32)).astype(float), rng.integers(0, 5, n)
    start = rng.choice([-1.0, 1.0], size=(n, 32)).astype(np.float32)

    def work():
        return GreedyRows(pull, anchors.T @ anchors, 8.0, 10.0, residual == "stagewise", 3).code(group, start)

    compiled, plain = as_numpy(monkeypatch, work)
    assert compiled.dtype == plain.dtype
    np.testing.assert_array_equal(compiled, plain)


@needs_flips
def test_sums_beyond_float32_are_left_to_numpy(monkeypatch):
    """2^23 + 1 times an odd sum is no float32; the pull is chosen so that the last unit decides."""
    monkeypatch.setattr(greedy, "_flips", FLIPS)
    monkeypatch.setattr(FLIPS, "code_rows", None)  # would fail if it were called
    weight = 2.0**23 + 1
    pull = np.full((1, 4), 3 * weight - 1.0)  # one less than what the three other bits, all +1, weigh
    start = np.ones((2, 4), dtype=np.float32)
    coder = GreedyRows(pull, np.full((4, 4), weight), 1.0, 0.5, False, 1)
    codes = coder.code(np.zeros(2, dtype=np.intp), start)
    # gain -1 beats beta 0.5, so the first bit flips; then two of three others are +1, and nothing else moves.
    np.testing.assert_array_equal(codes, [[-1, 1, 1, 1]] * 2)


@needs_flips
def test_more_anchors_and_bits_than_float32_can_count_are_left_to_numpy(monkeypatch):
    rng = np.random.default_rng(0)
    problem = AnchorProblem.from_similarity(from_labels(rng.integers(0, 3, 40)), np.arange(40), 8)
    start = rng.choice([-1.0, 1.0], size=(40, 8))

    def work():
        return greedy.Greedy(beta=1.0).solve(problem, start, random_batches(np.arange(40), 20, 3), LOSSES["ksh"])

    compiled, plain = as_numpy(monkeypatch, work)
    monkeypatch.setattr(greedy, "_flips", FLIPS)
    monkeypatch.setattr(FLIPS, "update_batch", None)  # would fail if it were called
    monkeypatch.setattr(greedy, "EXACT", 40 * 8)
    np.testing.assert_array_equal(work().codes, plain.codes)
    np.testing.assert_array_equal(compiled.codes, plain.codes)


def batch_arrays():
    return {
        "bits": np.ones((4, 6), dtype=np.float32),
        "kinds": np.zeros(6, dtype=np.intp),
        "columns": np.zeros(6, dtype=np.intp),
        "table": np.ones((2, 3)),
        "pull": np.ones((4, 2)),
        "gram": np.zeros((4, 4)),
    }


def class_arrays():
    """Two classes: S within and between them, their sums and the sum of all."""
    return batch_arrays() | {"table": np.array([1.0, -1.0]), "pull": np.ones((4, 3))}


def row_arrays():
    return {
        "codes": np.ones((3, 4), dtype=np.float32),
        "group": np.zeros(3, dtype=np.intp),
        "scaled": np.ones((2, 4)),
        "gram": np.zeros((4, 4), dtype=np.float32),
    }


CALLS = {
    "update_batch": (batch_arrays, (1.0, 1.0, False, 3, False)),
    "update_classes": (class_arrays, (1.0, 1.0, False, 3, True)),
    "code_rows": (row_arrays, (1.0, False, 3)),
}


@needs_flips
@pytest.mark.parametrize(("call", "name"), [(call, name) for call, (make, _) in CALLS.items() for name in make()])
def test_arrays_that_do_not_fit_are_refused(call, name):
    make, options = CALLS[call]
    function = getattr(FLIPS, call.replace("classes", "batch"))
    function(*make().values(), *options)
    arrays = make()
    arrays[name] = arrays[name].ravel()[:-1].copy()
    with pytest.raises(ValueError, match="do not fit"):
        function(*arrays.values(), *options)


@needs_flips
@pytest.mark.parametrize(("call", "name", "value"), [
    ("update_batch", "kinds", 2), ("update_batch", "kinds", -1), ("update_batch", "columns", 3),
    ("update_classes", "kinds", 2), ("update_classes", "columns", 2),
    ("code_rows", "group", 2), ("code_rows", "group", -1),
])  # fmt: skip
def test_numbers_beyond_the_tables_are_refused(call, name, value):
    make, options = CALLS[call]
    arrays = make()
    arrays[name][-1] = value
    with pytest.raises(ValueError, match="do not fit"):
        getattr(FLIPS, call.replace("classes", "batch"))(*arrays.values(), *options)
