"""Chunks of any size, any source and any executor: the same codes and the same hash function, bit for bit."""

from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from multiprocessing import get_context

import numpy as np
import pytest
from chunk_data import N_ROWS, Chunks, assert_same, hasher, label_sets, shards
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import hashlearn as hl

pytestmark = pytest.mark.usefixtures("small_ranges")


@pytest.fixture(scope="module")
def pool():
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as executor:
        yield executor


def half(X, y, k):
    """One half of the data, as a function that a process can call."""
    part = slice(0, 3000) if k == 0 else slice(3000, None)
    return X[part], y[part]


@settings(max_examples=6, deadline=None)
@given(size=st.integers(150, N_ROWS + 10))
def test_chunks_of_any_size(data, in_memory, size):
    assert_same(in_memory, hasher().fit_chunks(Chunks(*data, size)))


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_any_number_of_threads(data, in_memory, n_jobs):
    assert_same(in_memory, hasher(n_jobs=n_jobs).fit_chunks(*data))


def test_shards_of_rows_and_labels_that_end_at_different_places(data, in_memory, tmp_path):
    X, y = shards(tmp_path, *data, [100, 101, 2048, 6000], [4096])
    assert_same(in_memory, hasher().fit_chunks(X, y))


@pytest.mark.slow
def test_processes_get_paths_and_give_the_same(data, in_memory, tmp_path, pool):
    X, y = shards(tmp_path, *data, [2500, 5000], [3000])
    assert_same(in_memory, hasher().fit_chunks(X, y, executor=pool))


@pytest.mark.slow
def test_processes_call_functions(data, in_memory, pool):
    assert_same(in_memory, hasher().fit_chunks([partial(half, *data, k) for k in range(2)], executor=pool))


def test_an_executor_of_threads(data, in_memory):
    with ThreadPoolExecutor(2) as threads:
        assert_same(in_memory, hasher().fit_chunks(Chunks(*data, 999), executor=threads))


def squared_hinge(s, u):
    return np.maximum(0, 24 - s * u) ** 2


@pytest.mark.parametrize(
    ("method", "changes"),
    [
        (hl.SDHP, {}),
        (hl.GSDHP, {"loss": "bre"}),
        (hl.GSDHP, {"loss": "bre-released"}),
        (hl.GSDHP, {"loss": "hinge"}),
        (hl.GSDHP, {"loss": squared_hinge}),
        (hl.GSDHP, {"kernel": None, "ridge": 1e-3}),
        (hl.GSDHP, {"function": "posterior"}),
        pytest.param(
            *(hl.GSDHP, {"n_landmarks": "auto", "n_anchors": "auto", "solver": hl.Greedy(start="leading")}),
            marks=pytest.mark.slow,
        ),
        (hl.GSDHP, {"kernel": hl.LandmarkKernel(40, normalize=False), "solver": hl.Greedy(fill="principal")}),
    ],
    ids=["sdhp", "bre", "bre-released", "hinge", "own", "plain", "posterior", "auto", "kernel"],
)
def test_every_loss_and_kernel(data, method, changes):
    X, y = data[0][:4000], data[1][:4000]
    assert_same(hasher(method, **changes).fit(X, y), hasher(method, **changes).fit_chunks(Chunks(X, y, 1234)))


def test_few_rows_in_folds_and_an_anchor_for_every_class():
    """Fewer rows than 2,500, and more classes than half of the least number of anchors."""
    X = np.random.default_rng(0).normal(size=(2400, 5)).astype(np.float32)
    y = np.random.default_rng(1).permutation(np.arange(2400) // 3)
    expected = hasher(n_anchors="auto").fit(X, y)
    assert len(np.unique(y[expected.anchor_indices_])) == 800
    assert_same(expected, hasher(n_anchors="auto").fit_chunks(Chunks(X, y, 301)))


@pytest.mark.slow
def test_a_loss_of_ones_own_goes_to_processes_if_it_can_be_named(data, pool):
    X, y = data[0][:3000], data[1][:3000]
    expected = hasher(loss=squared_hinge).fit(X, y)
    assert_same(expected, hasher(loss=squared_hinge).fit_chunks(X, y, executor=pool))
    with pytest.raises(TypeError, match="function of a module"):
        hasher(loss=lambda s, u: (s - u) ** 2).fit_chunks(X, y, executor=pool)


@pytest.mark.parametrize("method", [hl.SDHP, hl.GSDHP])
@pytest.mark.parametrize("as_sparse", [False, True])
def test_label_sets(data, method, as_sparse):
    X, Y = data[0], label_sets()
    chunks = [(X[a : a + 1700], sparse.csr_matrix(Y[a : a + 1700]) if as_sparse else Y[a : a + 1700])
              for a in range(0, N_ROWS, 1700)]  # fmt: skip
    assert_same(hasher(method, relevance="jaccard").fit(X, Y), hasher(method, relevance="jaccard").fit_chunks(chunks))


def test_rows_without_labels_in_some_chunks_only(data):
    X, y = data
    partly = np.where(np.arange(N_ROWS) < 4500, np.nan, y)
    expected = hasher().fit(X, partly)
    assert_same(expected, hasher().fit_chunks(Chunks(X, partly, 1000)))
    assert_same(expected, hasher().fit_chunks(X, partly))


def test_names_and_missing_names(data):
    X, y = data
    names = np.array([f"digit {k}" for k in range(10)], dtype=object)[y]
    names[::7] = None
    assert_same(hasher().fit(X, names), hasher().fit_chunks(Chunks(X, names, 2500)))


def test_sparse_rows(data):
    X, y = data
    X = sparse.csr_matrix(np.where(X > 0.5, X, 0))
    assert_same(hasher().fit(X, y), hasher().fit_chunks(Chunks(X, y, 1500)))


def test_rows_sorted_by_class_and_a_rare_class(data):
    """The first rows are all of one class, so candidates kept early are many more than it gets in the end."""
    X, y = data
    order = np.argsort(y, kind="stable")
    y = y.copy()
    y[order[-1]] = 77
    assert_same(hasher().fit(X[order], y[order]), hasher().fit_chunks(Chunks(X[order], y[order], 800)))


def test_more_label_sets_than_anchors(data):
    X = data[0]
    Y = label_sets(n_labels=14)
    expected = hasher().fit(X, Y)
    assert len(np.unique(Y, axis=0)) > 500
    assert_same(expected, hasher().fit_chunks(Chunks(X, Y, 900)))


def test_codes_nowhere_or_in_a_file(data, in_memory, tmp_path):
    assert not hasattr(hasher().fit_chunks(*data, codes=False), "codes_")
    for name in ("codes.npy", "codes.npz"):
        fitted = hasher().fit_chunks(*data, codes=tmp_path / name)
        np.testing.assert_array_equal(fitted.codes_, in_memory.codes_)
        np.testing.assert_array_equal(hl.files.read_codes(tmp_path / name).codes, in_memory.codes_)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["codes.npy", "codes.npy.json", "codes.npz"]


def test_a_model_fitted_in_chunks_is_saved_and_used(data, in_memory, tmp_path):
    hl.save(hasher().fit_chunks(Chunks(*data, 1000), codes=tmp_path / "codes.npy"), tmp_path / "model.hl")
    np.testing.assert_array_equal(hl.load(tmp_path / "model.hl").encode(data[0]), in_memory.encode(data[0]))


def test_parameters_that_need_all_rows_say_so(data):
    with pytest.raises(ValueError, match="in memory"):
        hasher(function="trees").fit_chunks(*data)
    with pytest.raises(TypeError, match="KSH needs all rows in memory"):
        hl.KSH().fit_chunks(*data)
    with pytest.raises(ValueError, match="no labels"):
        hasher().fit_chunks(data[0])
    with pytest.raises(TypeError, match="only once"):
        hasher().fit_chunks(iter(Chunks(*data, 100)))
    with pytest.raises(TypeError, match="executor must be"):
        hasher().fit_chunks(*data, executor="threads")
