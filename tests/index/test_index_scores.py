"""Search by expected bits and by tables, against sums over the rows."""

import naive_index as brute
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hashlearn.index import Index, scan


@pytest.fixture(params=["compiled", "numpy"])
def part(request, monkeypatch):
    if request.param == "numpy":
        monkeypatch.setattr(scan, "_scan", None)
    elif scan._scan is None:
        pytest.skip("installed without a compiler")


def _same(index, projections, codes, ids, n_bits, k, bitorder="big"):
    want_ids, want_scores = brute.by_signs(projections, codes, ids, n_bits, k, bitorder)
    got = index.search(projections, k)
    assert got.distances.dtype == np.float32
    np.testing.assert_array_equal(got.ids[:, : len(ids)], want_ids)
    np.testing.assert_array_equal(got.distances[:, : len(ids)], want_scores)
    assert (got.ids[:, len(ids) :] == -1).all()
    assert np.isposinf(got.distances[:, len(ids) :]).all()


@settings(max_examples=50, deadline=None)
@given(
    st.sampled_from(brute.ODD_BITS),
    st.sampled_from(["big", "little"]),
    st.integers(0, 2**32),
    st.integers(1, 60),
    st.integers(1, 70),
    st.sampled_from(["whole", "real", "zero"]),
)
def test_equals_brute_force(n_bits, bitorder, seed, n, k, values):
    rng = np.random.default_rng(seed)
    distinct = brute.random_codes(rng, 10, n_bits, bitorder)
    codes, ids = distinct[rng.integers(0, 10, n)], rng.permutation(1000)[:n]
    index = Index(n_bits, bit_order=bitorder)
    index.add(codes, ids)
    queries = {
        "whole": rng.integers(-2, 3, (3, n_bits)),  # many equal scores
        "real": rng.standard_normal((3, n_bits)),
        "zero": np.zeros((3, n_bits)),
    }[values].astype(np.float32)
    _same(index, queries, codes, ids, n_bits, k, bitorder)


@pytest.mark.parametrize("values", ["real", "whole", "one large", "tiny", "zero"])
@pytest.mark.parametrize(("n_bits", "bitorder"), [(64, "big"), (63, "little"), (1024, "big")])
def test_extreme_queries(part, n_bits, bitorder, values):
    rng = np.random.default_rng(n_bits)
    codes = brute.random_codes(rng, 6000, n_bits, bitorder)
    codes[4000:] = codes[:2000]
    ids = rng.permutation(6000)
    index = Index(n_bits, bit_order=bitorder)
    index.add(codes, ids)
    queries = rng.standard_normal((6, n_bits)).astype(np.float32)
    if values == "whole":
        queries = np.rint(queries)
    elif values == "one large":
        queries[:, 3] = 1e4
    elif values == "tiny":
        queries *= 1e-20
    elif values == "zero":
        queries[:] = 0
    for k in (1, 20, 500):
        _same(index, queries, codes, ids, n_bits, k, bitorder)


def test_filters_threads_and_changes():
    rng = np.random.default_rng(5)
    codes = brute.random_codes(rng, 500, 64)
    index = Index(64, "ivf")
    index.add(codes)
    queries = rng.standard_normal((9, 64)).astype(np.float32)
    some = np.arange(0, 500, 7)
    want = brute.by_signs(queries, codes[some], some, 64, 10)[0]
    for n_jobs in (1, 3):
        np.testing.assert_array_equal(index.search(queries, 10, ids=some, n_jobs=n_jobs).ids, want)
    index.search(queries, 1)
    more = brute.random_codes(rng, 100, 64)
    index.add(more)
    _same(index, queries, np.concatenate([codes, more]), np.arange(600), 64, 10)


def test_changes_show_in_the_next_search():
    rng = np.random.default_rng(6)
    codes = brute.random_codes(rng, 50, 64)
    index = Index(64)
    index.add(codes)
    queries = rng.standard_normal((3, 64)).astype(np.float32)
    gone = int(index.search(queries, 1).ids[0, 0])
    index.remove([gone])
    kept = np.delete(np.arange(50), gone)
    _same(index, queries, codes[kept], kept, 64, 10)
    codes[kept] = codes[kept][::-1]
    index.add(codes[kept], kept)
    _same(index, queries, codes[kept], kept, 64, 10)
