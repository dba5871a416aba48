"""Searches against brute force: ids, ties, filters, radius, sizes, kinds, threads."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import naive_index as brute
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hashlearn.index import Index

KINDS = ("flat", "ivf")


@st.composite
def cases(draw):
    """A small index whose few distinct codes make many ties, queries, and the table behind it."""
    n_bits = draw(st.sampled_from(brute.ODD_BITS))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n = draw(st.integers(0, 60))
    distinct = brute.random_codes(rng, draw(st.integers(1, 12)), n_bits)
    codes = distinct[rng.integers(0, len(distinct), n)]
    ids = rng.choice(1000, n, replace=False)
    queries = np.concatenate([brute.random_codes(rng, 2, n_bits), distinct[:1]])
    return n_bits, codes, ids.astype(np.int64) * draw(st.sampled_from([1, 2**50])), queries, rng


@settings(max_examples=60, deadline=None)
@given(cases(), st.integers(1, 80), st.integers(1, 4))
def test_flat_search_is_brute_force_whatever_the_order_and_the_batches(case, k, batches):
    n_bits, codes, ids, queries, rng = case
    order = rng.permutation(len(ids))
    index = Index(n_bits)
    for part in np.array_split(order, batches):
        index.add(codes[part], ids[part])
    want = brute.top(queries, dict(zip(ids.tolist(), codes, strict=True)), k)
    got = index.search(queries, k)
    assert got.ids.dtype == np.int64
    assert got.distances.dtype == np.int32
    np.testing.assert_array_equal(got.ids, want[0])
    np.testing.assert_array_equal(got.distances, want[1])


@settings(max_examples=60, deadline=None)
@given(cases(), st.integers(1, 20), st.sampled_from(KINDS))
def test_filters_are_exact_for_every_kind(case, k, kind):
    n_bits, codes, ids, queries, rng = case
    index = Index(n_bits, kind)
    index.add(codes, ids)
    wanted = np.concatenate([ids[rng.random(len(ids)) < 0.4], [5, 5]]).astype(np.int64)
    table = {i: c for i, c in zip(ids.tolist(), codes, strict=True) if i in set(wanted.tolist())}
    np.testing.assert_array_equal(index.search(queries, k, ids=wanted).ids, brute.top(queries, table, k)[0])


@settings(max_examples=60, deadline=None)
@given(cases(), st.integers(0, 130), st.sampled_from(KINDS))
def test_radius_is_inclusive_and_exact_for_every_kind(case, radius, kind):
    n_bits, codes, ids, queries, _ = case
    index = Index(n_bits, kind)
    index.add(codes, ids)
    want = brute.inside(queries, dict(zip(ids.tolist(), codes, strict=True)), radius)
    assert brute.pairs(index.within(queries, radius)) == want
    assert brute.pairs(index.within(queries, radius, n_jobs=1)) == want


@pytest.mark.parametrize("k", [1, 10, 100, 3000])
def test_many_rows_with_ties_at_the_cut_off(k):
    rng = np.random.default_rng(k)
    codes = brute.random_codes(rng, 3000, 12)  # at most 13 distances for 3000 rows
    ids = rng.permutation(3000)
    index = Index(12)
    index.add(codes, ids)
    queries = brute.random_codes(rng, 20, 12)
    np.testing.assert_array_equal(
        index.search(queries, k).ids, brute.top(queries, dict(zip(ids.tolist(), codes, strict=True)), k)[0]
    )


@pytest.mark.parametrize("kind", KINDS)
def test_no_rows_no_queries_and_more_neighbours_than_rows(kind):
    index = Index(12, kind)
    query = np.zeros((1, 2), dtype=np.uint8)
    assert index.search(query, 3).ids.shape == index.search(query, 3).distances.shape == (1, 0)
    assert index.within(query, 12).offsets.tolist() == [0, 0]
    assert index.search(np.ones((1, 12)), 2).to_list() == [[]]
    index.add(np.empty((0, 2), dtype=np.uint8))
    assert len(index) == 0
    index.add(query, [9])
    assert index.search(query, 3).ids.tolist() == [[9]]
    assert index.search(query, 3).distances.tolist() == [[0]]
    assert index.search(np.empty((0, 2), dtype=np.uint8), 3).ids.shape == (0, 1)
    assert index.search(query, 2, ids=[]).to_list() == [[]]
    assert index.within(np.empty((0, 2), dtype=np.uint8), 3).offsets.tolist() == [0]


@pytest.mark.parametrize("kind", KINDS)
def test_threads_change_nothing(kind):
    rng = np.random.default_rng(0)
    codes = brute.clustered(rng, 2000)
    index = Index(64, kind)
    index.add(codes)
    queries = codes[:301]
    want = index.search(queries, 7, n_jobs=1)
    for n_jobs in (2, 5, -1, None):
        got = index.search(queries, 7, n_jobs=n_jobs)
        np.testing.assert_array_equal(got.ids, want.ids)
        np.testing.assert_array_equal(got.distances, want.distances)
    fresh = Index(64, kind)
    fresh.add(codes[::-1], np.arange(2000)[::-1])
    with ThreadPoolExecutor(8) as pool:  # the first of them builds, the others wait for it
        for got in pool.map(lambda _: fresh.search(queries, 7), range(8)):
            np.testing.assert_array_equal(got.ids, want.ids)


def test_ivf_finds_nearly_everything_on_clustered_codes():
    rng = np.random.default_rng(1)
    codes = brute.clustered(rng, 8000)
    exact, index = Index(64), Index(64, "ivf")
    exact.add(codes)
    index.add(codes[:6000])
    index.search(codes[:1], 1)
    index.add(codes[6000:])
    want, got = exact.search(codes[:100], 20), index.search(codes[:100], 20)
    assert ((got.ids >= 0) & (got.distances <= want.distances[:, -1:])).mean() >= 0.97
    right = np.bitwise_count(codes[:100, None] ^ codes[got.ids]).sum(axis=2)
    np.testing.assert_array_equal(np.where(got.ids < 0, -1, right), got.distances)
    keys = got.distances * 10**6 + got.ids
    assert (np.diff(np.where(got.ids < 0, 10**9, keys), axis=1) >= 0).all()


def test_importing_the_index_does_not_import_faiss():
    code = "import sys, hashlearn.index; sys.exit('faiss' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("queries", [np.zeros((2, 1), dtype=np.uint8), np.zeros((2, 8), dtype=np.float32)])
@pytest.mark.parametrize("kind", ["flat", "ivf"])
def test_more_neighbors_than_rows_take_no_memory(kind, queries):
    index = Index(8, kind)
    index.add(np.array([[1], [2], [3]], dtype=np.uint8))
    assert index.search(queries, k=10**9).ids.shape == (2, 3)
    assert [[hit["id"] for hit in hits] for hits in index.search(queries, k=10**9, ids=[1, 7]).to_list()] == [[1], [1]]
    assert index.search(queries[0], k=10**9).ids.tolist()[0] == 0
