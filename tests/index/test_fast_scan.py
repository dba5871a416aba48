"""The compiled scan by itself: what it finds, when it gives up, and what it refuses."""

import platform
import shutil
from pathlib import Path

import naive_index as brute
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hashlearn.index import fast_scan

needs_scan = pytest.mark.skipif(not fast_scan.compiled(), reason="no compiler at installation, or no AVX2")


def made(n, n_bits, seed=0, queries=5):
    rng = np.random.default_rng(seed)
    codes = np.unique(brute.random_codes(rng, n, n_bits), axis=0)
    queries = rng.standard_normal((queries, 8 * codes.shape[1])).astype(np.float32)
    return codes, queries, fast_scan.score_tables(queries)


def test_it_is_compiled_where_it_can_be():
    flags = Path("/proc/cpuinfo")
    if not (platform.machine() == "x86_64" and shutil.which("cc") and flags.exists() and "avx2" in flags.read_text()):
        pytest.skip("no compiler, or no AVX2")
    assert fast_scan.compiled()


@needs_scan
@settings(max_examples=40, deadline=None)
@given(
    st.integers(8192, 9000),
    st.sampled_from([16, 24, 64, 72, 256]),
    st.integers(0, 2**32),
    st.integers(1, 7),
    st.integers(1, 1000),
    st.sampled_from([1.0, 1e-30, 1e30]),
)
@example(8215, 16, 395, 7, 289, 1e30)  # the k-th best costs as much as 8 bits can hold
def test_finds_all_of_the_best_and_all_that_tie(n, n_bits, seed, n_queries, k, size):
    codes, queries, _ = made(n, n_bits, seed, n_queries)
    queries = np.rint(4 * queries) * np.float32(size)  # so that scores tie
    tables = fast_scan.score_tables(queries)
    scores = fast_scan.score_codes(codes[None], tables)
    found = fast_scan.CompiledScan(codes).candidates(queries, tables, k, 0)
    for got_places, got_scores, complete, want in zip(found.places, found.scores, found.complete, scores, strict=True):
        if complete == -np.inf:
            continue
        kth = np.sort(want)[k - 1]
        kept = np.isfinite(got_scores)
        np.testing.assert_array_equal(np.sort(got_places[kept]), np.flatnonzero(want <= kth))
        np.testing.assert_array_equal(got_scores[kept], want[got_places[kept]])


@needs_scan
@pytest.mark.parametrize("n_bits", [32, 64, 128, 512])
def test_ordinary_queries_are_answered_at_once(n_bits):
    codes, queries, tables = made(20_000, n_bits, queries=50)
    assert np.isposinf(fast_scan.CompiledScan(codes).candidates(queries, tables, 100, 0).complete).all()


@needs_scan
def test_more_equal_scores_than_there_is_room_for_are_given_up():
    codes, queries, _ = made(20_000, 64)
    queries[:, 1:] = 0  # half of all codes score the same
    found = fast_scan.CompiledScan(codes).candidates(queries, fast_scan.score_tables(queries), 10, 0)
    assert np.isneginf(found.complete).all()


@needs_scan
@pytest.mark.parametrize("value", [0.0, np.float32(3e38)])
def test_queries_without_a_usable_size_are_given_up_or_right(value):
    codes, queries, _ = made(10_000, 64)
    queries[:] = value
    with np.errstate(over="ignore"):
        tables = fast_scan.score_tables(queries)
        found = fast_scan.CompiledScan(codes).candidates(queries, tables, 10, 0)
    assert np.isneginf(found.complete).all()


@needs_scan
@pytest.mark.parametrize("wrong", ["planes", "sample", "queries", "entries", "places", "scores", "found", "k", "count"])
def test_buffers_that_do_not_fit_are_refused(wrong):
    codes, queries, tables = made(10_000, 64)
    scan = fast_scan.CompiledScan(codes)
    given = {
        "planes": scan._planes,
        "count": len(codes),
        "sample": scan._sample,
        "queries": queries,
        "entries": tables,
        "k": 10,
        "widen": 1.0,
        "places": np.zeros((5, 100), dtype=np.int64),
        "scores": np.zeros((5, 100), dtype=np.float32),
        "found": np.zeros(5, dtype=np.int64),
    }
    fast_scan._nibbles.nearest(*given.values())
    changed = {"k": 90, "count": len(codes) + 64}.get(wrong)
    given[wrong] = given[wrong].ravel()[:-1].copy() if changed is None else changed
    with pytest.raises(ValueError, match="do not fit"):
        fast_scan._nibbles.nearest(*given.values())


@needs_scan
def test_output_must_be_writable():
    codes, queries, tables = made(10_000, 64)
    scan = fast_scan.CompiledScan(codes)
    out = [np.zeros((5, 100), dtype=np.int64), np.zeros((5, 100), dtype=np.float32), np.zeros(5, dtype=np.int64)]
    out[0].flags.writeable = False
    with pytest.raises((TypeError, BufferError)):
        fast_scan._nibbles.nearest(scan._planes, len(codes), scan._sample, queries, tables, 10, 1.0, *out)
