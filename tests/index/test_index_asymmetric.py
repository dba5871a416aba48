"""Asymmetric search against a float64 product over unpacked codes."""

import naive_index as brute
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hashlearn.index import Index, asymmetric, fast_scan


@pytest.fixture(params=["compiled", "faiss"])
def scan(request, monkeypatch):
    if request.param == "faiss":
        monkeypatch.setattr(fast_scan, "compiled", lambda: False)
    elif not fast_scan.compiled():
        pytest.skip("installed without a compiler, or a processor without AVX2")


def _same(index, projections, codes, ids, n_bits, k, bitorder="big"):
    want_ids, want_scores = brute.asymmetric(projections, codes, ids, n_bits, k, bitorder)
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
def test_the_fast_scan_is_exact_or_not_used(scan, n_bits, bitorder, values):
    rng = np.random.default_rng(n_bits)
    codes = brute.random_codes(rng, 12000, n_bits, bitorder)
    codes[9000:] = codes[:3000]
    ids = rng.permutation(12000)
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


def test_the_fast_scan_proves_ordinary_queries(scan, monkeypatch):
    rng = np.random.default_rng(0)
    codes = brute.random_codes(rng, 20000, 64)
    index = Index(64)
    index.add(codes)
    queries = rng.standard_normal((20, 64)).astype(np.float32)
    scans = []
    plain = asymmetric.AsymmetricSearcher._scan
    monkeypatch.setattr(asymmetric.AsymmetricSearcher, "_scan", lambda self, *a: scans.append(1) or plain(self, *a))
    _same(index, queries, codes, np.arange(20000), 64, 100)
    assert not scans


def test_filters_threads_and_changes():
    rng = np.random.default_rng(5)
    codes = brute.random_codes(rng, 500, 64)
    index = Index(64, "hnsw")
    index.add(codes)
    queries = rng.standard_normal((9, 64)).astype(np.float32)
    some = np.arange(0, 500, 7)
    want = brute.asymmetric(queries, codes[some], some, 64, 10)[0]
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
